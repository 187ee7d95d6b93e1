// The machine driver on its loop, against this same program playing QEMU (main with an -M argument):
// the CPU model names the scenario. What only a real QEMU can show is in the vm tier.
#include "common/ck_time.h"
#include "vmm/machine_vm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

// ---- the other side ---------------------------------------------------------------------------

static void say(const char *text)
{
    if (write(3, text, strlen(text)) < 0)
        _exit(9);
}

static void answer(const char *line, const char *what)
{
    const char *id = strstr(line, "\"id\":");
    char text[512];
    snprintf(text, sizeof text, "{%s,\"id\":%d}\r\n", what, id ? atoi(id + 5) : 0);
    say(text);
}

// One command line. The answers follow QEMU 7.2's.
static void serve(const char *line, const char *scenario)
{
    if (strstr(line, "\"migrate-incoming\"")) {
        if (!strcmp(scenario, "refuse-load")) {
            answer(line, "\"error\":{\"class\":\"GenericError\",\"desc\":\"no such fd\"}");
            return;
        }
        if (!strcmp(scenario, "early-load"))
            say("{\"event\":\"MIGRATION\",\"data\":{\"status\":\"completed\"}}\r\n");
        answer(line, "\"return\":{}");
        if (!strcmp(scenario, "die-in-load")) {
            fprintf(stderr, "qemu-system-x86_64: load of migration failed: Invalid argument\n");
            exit(1);
        }
        if (!strcmp(scenario, "ok") || !strcmp(scenario, "deaf-quit"))
            say("{\"event\":\"MIGRATION\",\"data\":{\"status\":\"completed\"}}\r\n");
    } else if (strstr(line, "\"quit\"")) {
        if (!strcmp(scenario, "deaf-quit"))
            return;
        answer(line, "\"return\":{}");
        exit(0);
    } else if (strstr(line, "\"ringbuf-read\"")) {
        answer(line, "\"return\":\"aGkK/w==\""); // "hi\n\xff"
    } else if (strstr(line, "\"cont\"")) {
        answer(line, "\"return\":{}");
        say("{\"event\":\"RESUME\"}\r\n");
    } else {
        answer(line, "\"return\":{}");
    }
}

static int play_qemu(int argc, char **argv)
{
    const char *scenario = "ok";
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "-cpu"))
            scenario = argv[i + 1];
    extern char **environ;
    if (environ && environ[0])
        return 77; // not even one variable may come through
    if (fcntl(5, F_GETFD) != -1 || fcntl(4, F_GETFD) == -1)
        return 78; // descriptors 3 and 4 and nothing else
    if (!strcmp(scenario, "die-at-start")) {
        fprintf(stderr, "qemu-system-x86_64: -drive file=x: Could not open 'x': Permission denied\n");
        return 1;
    }
    if (!strcmp(scenario, "silent"))
        pause();
    say("{\"QMP\":{\"version\":{},\"capabilities\":[]}}\r\n");
    if (!strcmp(scenario, "hang-up")) {
        close(3);
        pause();
    }
    FILE *in = fdopen(dup(3), "r");
    char line[65536];
    while (fgets(line, sizeof line, in))
        serve(line, scenario);
    return 3;
}

// ---- this side --------------------------------------------------------------------------------

struct fix {
    uv_loop_t loop;
    struct ck_machine *m;
    int ram, done, exits, closed;
    char reason[64], text[CK_ERR_TEXT_MAX];
    struct ck_machine_exit how;
    char console[16];
    size_t console_n;
};

static void on_done(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    struct fix *f = user;
    f->done++;
    snprintf(f->reason, sizeof f->reason, "%s", err ? err->reason : "ok");
    snprintf(f->text, sizeof f->text, "%s", err ? err->text : "");
}

static void on_exit_cb(struct ck_machine *m, const struct ck_machine_exit *how, void *user)
{
    (void)m;
    struct fix *f = user;
    f->exits++;
    f->how = *how;
}

static void on_closed(void *user) { ((struct fix *)user)->closed++; }

static void begin(struct fix *f, const char *scenario)
{
    static char self[PATH_MAX];
    memset(f, 0, sizeof *f);
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    f->ram = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    uv_loop_init(&f->loop);
    struct ck_vm_spec spec = {.use = CK_VM_SESSION, .qemu = self, .cpu = scenario, .memory_mb = 256, .root_image = "/r",
                              .disk = "/d", .disk_base = "/b", .host_port = {1, 2, 3, 4, 5, 6}};
    struct ck_machine_vm_opts o = {.loop = &f->loop, .spec = &spec, .ram_fd = f->ram, .on_exit = on_exit_cb, .user = f,
                                   .start_ms = 1500, .restore_ms = 400, .command_ms = 1000, .quit_ms = 200};
    assert_int_equal(ck_machine_new_vm(&o, &f->m, NULL), 0);
}

static void until(struct fix *f, const int *flag)
{
    int64_t end_at = ck_mono_ms() + 10000;
    while (!*flag && ck_mono_ms() < end_at) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    assert_true(*flag);
}

static void end(struct fix *f)
{
    pid_t pid = ck_machine_proc(f->m).pid;
    ck_machine_close(f->m, on_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->closed, 1);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    if (pid)
        assert_true(kill(pid, 0) && errno == ESRCH); // dead and reaped
    close(f->ram);
}

static void wait_done(struct fix *f, const char *reason)
{
    until(f, &f->done);
    assert_string_equal(f->reason, reason);
    f->done = 0;
}

static void start(struct fix *f, const char *reason)
{
    assert_int_equal(ck_machine_start(f->m, on_done, f, NULL), 0);
    assert_int_equal(f->done, 0);
    wait_done(f, reason);
}

static int restore(struct fix *f) { return ck_machine_restore(f->m, open("/dev/null", O_RDONLY | O_CLOEXEC), on_done, f, NULL); }

static void a_session_starts_restores_runs_stops_and_quits(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    start(&f, "ok");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_PREPARED);
    assert_true(ck_machine_proc(f.m).pid > 0 && ck_proc_alive(ck_machine_proc(f.m)));
    assert_int_equal(restore(&f), 0);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_STOPPED);
    assert_int_equal(ck_machine_cont(f.m, on_done, &f, NULL), 0);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_RUNNING);
    assert_int_equal(ck_machine_stop(f.m, on_done, &f, NULL), 0);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_save(f.m, "/x", on_done, &f, NULL), 0);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_quit(f.m, on_done, &f, NULL), 0);
    wait_done(&f, "ok");
    until(&f, &f.exits);
    assert_true(f.how.expected);
    assert_int_equal(f.how.exit_code, 0);
    assert_int_equal(ck_machine_quit(f.m, on_done, &f, NULL), 1);
    end(&f);
}

static void completed_before_the_answer_counts(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "early-load");
    start(&f, "ok");
    assert_int_equal(restore(&f), 0);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_STOPPED);
    end(&f);
}

static void operations_out_of_order_or_at_once_are_refused(void **state)
{
    (void)state;
    struct fix f;
    struct ck_err e = CK_ERR_INIT;
    begin(&f, "ok");
    assert_true(ck_machine_cont(f.m, on_done, &f, &e) < 0);
    assert_string_equal(e.reason, "vm_state");
    start(&f, "ok");
    assert_int_equal(restore(&f), 0);
    assert_true(ck_machine_restore(f.m, open("/dev/null", O_RDONLY), on_done, &f, &e) < 0);
    assert_string_equal(e.reason, "vm_busy");
    wait_done(&f, "ok");
    end(&f);
}

static void a_qemu_that_ends_at_start_gives_its_own_words(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "die-at-start");
    start(&f, "vm_died");
    assert_non_null(strstr(f.text, "exit code 1"));
    assert_non_null(strstr(f.text, "Could not open 'x': Permission denied"));
    assert_int_equal(f.exits, 1);
    assert_false(f.how.expected);
    end(&f);
}

static void a_qemu_that_never_speaks_is_killed_at_the_deadline(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "silent");
    start(&f, "vm_died");
    assert_non_null(strstr(f.text, "did not start in time"));
    assert_int_equal(f.how.signal, SIGKILL);
    end(&f);
}

static void a_lost_control_connection_ends_the_machine(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "hang-up");
    start(&f, "vm_died");
    assert_non_null(strstr(f.text, "control connection"));
    end(&f);
}

static void a_load_that_fails_or_hangs_fails_the_restore(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "die-in-load");
    start(&f, "ok");
    assert_int_equal(restore(&f), 0);
    wait_done(&f, "vm_died");
    assert_non_null(strstr(f.text, "load of migration failed: Invalid argument"));
    end(&f);
    begin(&f, "hang-in-load");
    start(&f, "ok");
    assert_int_equal(restore(&f), 0);
    wait_done(&f, "vm_died");
    assert_non_null(strstr(f.text, "did not load the saved state in time"));
    end(&f);
    begin(&f, "refuse-load");
    start(&f, "ok");
    assert_int_equal(restore(&f), 0);
    wait_done(&f, "qmp_error");
    end(&f);
}

static void a_qemu_deaf_to_quit_is_killed(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "deaf-quit");
    start(&f, "ok");
    assert_int_equal(ck_machine_quit(f.m, on_done, &f, NULL), 0);
    wait_done(&f, "ok");
    assert_true(f.how.expected);
    assert_int_equal(f.how.signal, SIGKILL);
    end(&f);
}

static void a_killed_qemu_is_noticed_as_unexpected(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    start(&f, "ok");
    kill(ck_machine_proc(f.m).pid, SIGKILL);
    until(&f, &f.exits);
    assert_false(f.how.expected);
    assert_int_equal(f.how.signal, SIGKILL);
    assert_non_null(strstr(f.how.reason, "signal 9"));
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_GONE);
    end(&f);
}

static void closing_in_the_middle_of_an_operation_calls_nothing_any_more(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "silent");
    assert_int_equal(ck_machine_start(f.m, on_done, &f, NULL), 0);
    for (int i = 0; i < 10; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    end(&f);
    assert_int_equal(f.done, 0);
    assert_int_equal(f.exits, 0);
}

static void closing_before_the_start_is_fine(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    end(&f);
    ck_machine_close(NULL, NULL, NULL);
}

static void on_console(struct ck_machine *m, const char *text, size_t n, const struct ck_err *err, void *user)
{
    (void)m;
    struct fix *f = user;
    f->done++;
    f->console_n = err ? 0 : n;
    if (!err && n <= sizeof f->console)
        memcpy(f->console, text, n);
}

static void the_console_comes_back_as_bytes(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    start(&f, "ok");
    assert_int_equal(restore(&f), 0);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_console(f.m, on_console, &f, NULL), 0);
    until(&f, &f.done);
    assert_int_equal(f.console_n, 4);
    assert_memory_equal(f.console, "hi\n\xff", 4);
    end(&f);
}

static void a_missing_executable_is_said(void **state)
{
    (void)state;
    struct fix f = {.ram = open("/dev/zero", O_RDONLY | O_CLOEXEC)};
    uv_loop_init(&f.loop);
    struct ck_vm_spec spec = {.use = CK_VM_SESSION, .qemu = "/nonexistent/qemu", .cpu = "x", .memory_mb = 256, .root_image = "/r",
                              .disk = "/d", .disk_base = "/b", .host_port = {1, 2, 3, 4, 5, 6}};
    struct ck_machine_vm_opts o = {.loop = &f.loop, .spec = &spec, .ram_fd = f.ram, .on_exit = on_exit_cb, .user = &f};
    assert_int_equal(ck_machine_new_vm(&o, &f.m, NULL), 0);
    start(&f, "vm_died");
    assert_non_null(strstr(f.text, "cannot be executed: No such file"));
    end(&f);
}

static void ephemeral_ports_are_different_and_free(void **state)
{
    (void)state;
    uint16_t p[CK_VM_PORTS];
    assert_int_equal(ck_machine_ports_ephemeral(p, NULL), 0);
    for (int i = 0; i < CK_VM_PORTS; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(p[i], p[j]);
    ck_machine_ports_fixed(p);
    assert_int_equal(p[0], 5555);
    assert_int_equal(p[CK_VM_PORT_AGENT], 5560);
}

int main(int argc, char **argv)
{
    if (argc > 3)
        return play_qemu(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_starts_restores_runs_stops_and_quits),
        cmocka_unit_test(completed_before_the_answer_counts),
        cmocka_unit_test(operations_out_of_order_or_at_once_are_refused),
        cmocka_unit_test(a_qemu_that_ends_at_start_gives_its_own_words),
        cmocka_unit_test(a_qemu_that_never_speaks_is_killed_at_the_deadline),
        cmocka_unit_test(a_lost_control_connection_ends_the_machine),
        cmocka_unit_test(a_load_that_fails_or_hangs_fails_the_restore),
        cmocka_unit_test(a_qemu_deaf_to_quit_is_killed),
        cmocka_unit_test(a_killed_qemu_is_noticed_as_unexpected),
        cmocka_unit_test(closing_in_the_middle_of_an_operation_calls_nothing_any_more),
        cmocka_unit_test(closing_before_the_start_is_fine),
        cmocka_unit_test(the_console_comes_back_as_bytes),
        cmocka_unit_test(a_missing_executable_is_said),
        cmocka_unit_test(ephemeral_ports_are_different_and_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
