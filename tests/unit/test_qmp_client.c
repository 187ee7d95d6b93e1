// The QMP client against a scripted peer on the other end of a socket pair.
#include "common/ck_time.h"
#include "vmm/qmp.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GREETING "{\"QMP\":{\"version\":{},\"capabilities\":[]}}\r\n"

struct fix {
    uv_loop_t loop;
    struct ck_qmp *q;
    int peer;
    int ready, events, down, replies;
    char event[64], down_reason[64], reply[64];
    json_int_t value;
    bool close_in_event;
};

static void on_ready(void *user) { ((struct fix *)user)->ready++; }

static void on_event(const char *name, json_t *data, void *user)
{
    (void)data;
    struct fix *f = user;
    f->events++;
    snprintf(f->event, sizeof f->event, "%s", name);
    if (f->close_in_event) {
        ck_qmp_close(f->q);
        f->q = NULL;
    }
}

static void on_down(const struct ck_err *err, void *user)
{
    struct fix *f = user;
    f->down++;
    snprintf(f->down_reason, sizeof f->down_reason, "%s", err->reason);
}

static void on_reply(json_t *ret, const struct ck_err *err, void *user)
{
    struct fix *f = user;
    f->replies++;
    snprintf(f->reply, sizeof f->reply, "%s", err ? err->reason : "ok");
    f->value = json_integer_value(ret);
}

static void begin(struct fix *f, unsigned greeting_ms)
{
    int p[2];
    memset(f, 0, sizeof *f);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    f->peer = p[1];
    fcntl(f->peer, F_SETFL, O_NONBLOCK);
    uv_loop_init(&f->loop);
    struct ck_qmp_opts o = {.loop = &f->loop, .fd = p[0], .on_ready = on_ready, .on_event = on_event, .on_down = on_down,
                            .user = f, .greeting_ms = greeting_ms};
    assert_int_equal(ck_qmp_new(&o, &f->q, NULL), 0);
}

static void end(struct fix *f)
{
    ck_qmp_close(f->q);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0); // every handle is closed
    close(f->peer);
}

static void put(struct fix *f, const char *text) { assert_int_equal(write(f->peer, text, strlen(text)), (ssize_t)strlen(text)); }

// Runs the loop until *flag is not 0 or the time is over.
static void until(struct fix *f, const int *flag, int ms)
{
    int64_t end_at = ck_mono_ms() + ms;
    while (!*flag && ck_mono_ms() < end_at) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
}

static size_t get(struct fix *f, char *out, size_t room)
{
    for (int i = 0; i < 200; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        ssize_t n = recv(f->peer, out, room - 1, 0);
        if (n > 0) {
            out[n] = 0;
            return (size_t)n;
        }
        usleep(1000);
    }
    return 0;
}

static void negotiate(struct fix *f)
{
    char text[256];
    put(f, GREETING);
    assert_true(get(f, text, sizeof text) > 0);
    assert_non_null(strstr(text, "\"qmp_capabilities\""));
    put(f, "{\"return\":{},\"id\":1}\r\n");
    until(f, &f->ready, 2000);
    assert_int_equal(f->ready, 1);
}

static void a_command_gets_its_own_answer(void **state)
{
    (void)state;
    struct fix f;
    char text[512];
    begin(&f, 0);
    negotiate(&f);
    assert_int_equal(ck_qmp_command(f.q, "one", NULL, -1, 1000, on_reply, &f, NULL), 0);
    assert_int_equal(f.replies, 0);
    assert_true(get(&f, text, sizeof text) > 0);
    put(&f, "{\"return\":99,\"id\":77}\n{\"event\":\"STOP\"}\n{\"return\":42,\"id\":2}\n");
    until(&f, &f.replies, 2000);
    assert_int_equal(f.replies, 1);
    assert_int_equal(f.value, 42);
    assert_string_equal(f.event, "STOP");
    end(&f);
}

static void an_error_answer_is_an_error(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, 0);
    negotiate(&f);
    assert_int_equal(ck_qmp_command(f.q, "one", NULL, -1, 1000, on_reply, &f, NULL), 0);
    put(&f, "{\"error\":{\"class\":\"GenericError\",\"desc\":\"no\"},\"id\":2}\n");
    until(&f, &f.replies, 2000);
    assert_string_equal(f.reply, "qmp_error");
    assert_int_equal(f.down, 0);
    end(&f);
}

static void a_command_that_is_not_answered_fails_at_its_deadline_and_the_late_answer_is_dropped(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, 0);
    negotiate(&f);
    int64_t t0 = ck_mono_ms();
    assert_int_equal(ck_qmp_command(f.q, "slow", NULL, -1, 50, on_reply, &f, NULL), 0);
    until(&f, &f.replies, 5000);
    assert_string_equal(f.reply, "qmp_timeout");
    assert_in_range(ck_mono_ms() - t0, 45, 3000);
    put(&f, "{\"return\":1,\"id\":2}\n{\"event\":\"RESUME\"}\n");
    until(&f, &f.events, 2000);
    assert_int_equal(f.events, 1);
    assert_int_equal(f.replies, 1);
    end(&f);
}

static void a_peer_that_never_greets_is_given_up(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, 50);
    until(&f, &f.down, 5000);
    assert_int_equal(f.down, 1);
    assert_string_equal(f.down_reason, "qmp_timeout");
    end(&f);
}

static void goes_down_on(const char *text, const char *reason)
{
    struct fix f;
    begin(&f, 0);
    negotiate(&f);
    assert_int_equal(ck_qmp_command(f.q, "one", NULL, -1, 10000, on_reply, &f, NULL), 0);
    if (text)
        put(&f, text);
    else
        shutdown(f.peer, SHUT_RDWR);
    until(&f, &f.down, 2000);
    assert_int_equal(f.down, 1);
    assert_int_equal(f.replies, 1); // who waited was told
    assert_string_equal(f.reply, reason);
    assert_string_equal(f.down_reason, reason);
    assert_true(ck_qmp_command(f.q, "two", NULL, -1, 1000, on_reply, &f, NULL) < 0);
    end(&f);
}

static void garbage_a_second_greeting_and_the_end_close_the_connection_once(void **state)
{
    (void)state;
    goes_down_on("{]\n{]\n", "bad_qmp");
    goes_down_on(GREETING, "bad_qmp");
    goes_down_on(NULL, "qmp_down");
}

static void a_descriptor_travels_with_its_command(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, 0);
    negotiate(&f);
    int p[2];
    assert_int_equal(pipe(p), 0);
    assert_int_equal(ck_qmp_command(f.q, "getfd", json_pack("{s:s}", "fdname", "state"), p[1], 1000, on_reply, &f, NULL), 0);
    for (int i = 0; i < 20; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    char text[256], control[CMSG_SPACE(sizeof(int) * 4)];
    struct iovec iov = {text, sizeof text};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    assert_true(recvmsg(f.peer, &m, 0) > 0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    assert_non_null(c);
    assert_int_equal(c->cmsg_type, SCM_RIGHTS);
    assert_int_equal(c->cmsg_len, CMSG_LEN(sizeof(int)));
    int got;
    memcpy(&got, CMSG_DATA(c), sizeof got);
    assert_int_equal(write(got, "x", 1), 1);
    close(got);
    char x;
    assert_int_equal(read(p[0], &x, 1), 1);
    assert_int_equal(read(p[0], &x, 1), 0); // ours was closed with the sending
    close(p[0]);
    end(&f);
}

static void closing_from_inside_a_callback_is_safe(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, 0);
    negotiate(&f);
    f.close_in_event = true;
    assert_int_equal(ck_qmp_command(f.q, "one", NULL, -1, 1000, on_reply, &f, NULL), 0);
    put(&f, "{\"event\":\"A\"}\n{\"event\":\"B\"}\n{\"return\":1,\"id\":2}\n");
    until(&f, &f.events, 2000);
    end(&f);
    assert_int_equal(f.events, 1);
    assert_int_equal(f.replies, 0);
}

static void the_number_of_waiting_commands_is_bounded(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, 0);
    negotiate(&f);
    int n = 0;
    while (n < 1000 && !ck_qmp_command(f.q, "x", NULL, -1, 1000, on_reply, &f, NULL))
        n++;
    assert_int_equal(n, CK_QMP_PENDING_MAX);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_gets_its_own_answer),
        cmocka_unit_test(an_error_answer_is_an_error),
        cmocka_unit_test(a_command_that_is_not_answered_fails_at_its_deadline_and_the_late_answer_is_dropped),
        cmocka_unit_test(a_peer_that_never_greets_is_given_up),
        cmocka_unit_test(garbage_a_second_greeting_and_the_end_close_the_connection_once),
        cmocka_unit_test(a_descriptor_travels_with_its_command),
        cmocka_unit_test(closing_from_inside_a_callback_is_safe),
        cmocka_unit_test(the_number_of_waiting_commands_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
