// The execution tracker: when cells go, start and end, whatever order the kernel's messages come in.
#include "kernel-bridge/tracker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char A[] = "aaaaaaaa-0000-4000-8000-000000000001", B[] = "bbbbbbbb-0000-4000-8000-000000000002";

static struct tracker *made(void)
{
    struct tracker *t = trk_new(2, 1 << 20);
    assert_non_null(t);
    return t;
}

static struct trk_cell *queue(struct tracker *t, const char *id)
{
    struct trk_spec s = {.id = id, .url_prefix = "", .code = ck_slice_str("1"), .timeout_ms = 1000};
    struct trk_cell *c = NULL;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(trk_queue(t, &s, &c, &err), 0);
    return c;
}

static struct trk_step say(struct tracker *t, enum jw_channel ch, const char *type, const char *parent_type,
                           const char *parent, const char *content, int64_t now_ms)
{
    struct jw_head head = {"", "", ""}, p = {"", "", ""};
    struct trk_step step;
    snprintf(head.type, sizeof head.type, "%s", type);
    snprintf(p.msg_id, sizeof p.msg_id, "%s", parent);
    snprintf(p.type, sizeof p.type, "%s", parent_type);
    trk_message(t, ch, &head, &p, ck_slice_str(content), now_ms * 1000, &step);
    return step;
}

static struct trk_step busy(struct tracker *t, const char *id)
{
    return say(t, JW_IOPUB, "status", "execute_request", id, "{\"execution_state\":\"busy\"}", 10);
}

static struct trk_step idle(struct tracker *t, const char *id)
{
    return say(t, JW_IOPUB, "status", "execute_request", id, "{\"execution_state\":\"idle\"}", 20);
}

static struct trk_step reply(struct tracker *t, const char *id, const char *content)
{
    return say(t, JW_SHELL, "execute_reply", "execute_request", id, content, 20);
}
#define OK "{\"status\":\"ok\",\"execution_count\":5}"
#define FAILED "{\"status\":\"error\",\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[]}"

static struct trk_cell *running(struct tracker *t, const char *id)
{
    struct trk_cell *c = queue(t, id);
    assert_ptr_equal(trk_ready(t), c);
    trk_take(t, c, 5);
    assert_true(busy(t, id).started);
    return c;
}

static void end(struct tracker *t, struct trk_cell *c)
{
    trk_finish(t, c);
    trk_cell_free(c);
}

static void a_cell_ends_with_reply_and_idle_in_either_order(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct tracker *t = made();
        struct trk_cell *c = running(t, A);
        struct trk_step s = order ? idle(t, A) : reply(t, A, OK);
        assert_false(s.closing);
        assert_int_equal(s.replied, !order);
        s = order ? reply(t, A, OK) : idle(t, A);
        assert_true(s.closing);
        assert_int_equal(c->phase, TRK_CLOSING);
        assert_int_equal(trk_status(c), CELL_OK);
        assert_int_equal(c->out.execution_count, 5);
        assert_true(trk_busy(t));
        end(t, c);
        assert_false(trk_busy(t));
        trk_free(t);
    }
}

static void cells_go_one_after_the_other_and_the_queue_is_bounded(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A), *second = queue(t, B), *third = queue(t, "c"), *fourth;
    struct trk_spec s = {.id = "d", .url_prefix = "", .code = ck_slice_str("1")};
    struct ck_err err = CK_ERR_INIT;
    assert_null(trk_ready(t));
    assert_int_equal(trk_queue(t, &s, &fourth, &err), -1);
    assert_int_equal(err.status, 429);
    s.id = A;
    assert_int_equal(trk_queue(t, &s, &fourth, &err), -1);
    assert_string_equal(err.reason, "cell_exists");
    reply(t, A, OK);
    idle(t, A);
    assert_null(trk_ready(t)); // until its artifacts are collected
    end(t, c);
    assert_ptr_equal(trk_ready(t), second);
    end(t, second); // cancelled while waiting
    assert_ptr_equal(trk_ready(t), third);
    assert_int_equal(trk_queued(t), 1);
    trk_free(t);
}

static void messages_of_others_do_not_touch_the_cell(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A);
    idle(t, "somebody");
    reply(t, "somebody", OK);
    assert_null(say(t, JW_IOPUB, "stream", "execute_request", "x", "{\"name\":\"stdout\",\"text\":\"no\"}", 1).cell);
    assert_ptr_equal(say(t, JW_IOPUB, "stream", "execute_request", A, "{\"name\":\"stdout\",\"text\":\"yes\"}", 1).cell,
                     c);
    assert_int_equal(c->phase, TRK_RUNNING);
    assert_int_equal(c->out.text[0].head.n, 3);
    trk_free(t);
}

static void a_cell_waits_for_the_jupyter_executions_before_it_only(void **state)
{
    (void)state;
    struct tracker *t = made();
    trk_jupyter_sent(t, "j1", "s", ck_slice_str("{}"));
    struct trk_cell *c = queue(t, A);
    trk_jupyter_sent(t, "j2", "s", ck_slice_str("{}"));
    assert_null(trk_ready(t));
    busy(t, "j1");
    assert_true(reply(t, "j1", OK).jupyter_replied);
    assert_null(trk_ready(t));
    idle(t, "j1");
    assert_ptr_equal(trk_ready(t), c);
    trk_free(t);
}

static void a_lost_end_of_a_jupyter_execution_is_made_up_for_by_the_next(void **state)
{
    (void)state;
    struct tracker *t = made();
    trk_jupyter_sent(t, "j1", "s", ck_slice_str("{}"));
    trk_jupyter_sent(t, "j2", "s", ck_slice_str("{}"));
    reply(t, "j1", OK); // its idle is lost
    reply(t, "j2", OK);
    assert_true(trk_jupyter_running(t));
    idle(t, "j2");
    assert_false(trk_jupyter_running(t));
    trk_jupyter_sent(t, "j3", "s", ck_slice_str("{}"));
    reply(t, "j3", OK);
    assert_int_equal(trk_quiet(t, trk_quiet_at(t)), TRK_PROBE); // or by time, if the kernel can be heard
    trk_probed(t, true, trk_quiet_at(t));
    idle(t, "the probe");
    assert_int_equal(trk_quiet(t, trk_quiet_at(t)), TRK_NOTHING);
    assert_false(trk_jupyter_running(t));
    trk_free(t);
}

static void an_aborted_cell_is_queued_again_at_most_three_times(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = queue(t, A);
    for (int i = 0; i < TRK_ABORT_RETRIES; i++) {
        trk_take(t, trk_ready(t), 5);
        busy(t, A);
        struct trk_step s = reply(t, A, "{\"status\":\"aborted\"}");
        assert_true(s.aborted);
        assert_null(s.cell);
        assert_ptr_equal(trk_ready(t), c);
        idle(t, A); // of the aborted run
        assert_int_equal(c->phase, TRK_QUEUED);
    }
    trk_take(t, c, 5);
    busy(t, A);
    assert_true(reply(t, A, "{\"status\":\"aborted\"}").replied);
    assert_true(idle(t, A).closing);
    assert_int_equal(trk_status(c), CELL_CANCELLED);
    trk_free(t);
}

static void when_the_kernel_goes_a_cell_that_had_not_begun_waits_again(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = queue(t, A), *second = queue(t, B);
    trk_take(t, c, 5);
    trk_kernel_gone(t);
    assert_null(trk_active(t));
    assert_ptr_equal(trk_ready(t), c);
    assert_int_equal(trk_queued(t), 2);
    trk_take(t, c, 5);
    busy(t, A);
    trk_kernel_gone(t);
    assert_ptr_equal(trk_active(t), c); // it ran: its ending is the caller's to decide
    end(t, c);
    assert_ptr_equal(trk_ready(t), second);
    trk_free(t);
}

static void jupyter_executions_of_a_dead_kernel_are_handed_out(void **state)
{
    (void)state;
    struct tracker *t = made();
    char id[JW_ID_MAX], session[JW_ID_MAX];
    struct ck_slice header;
    trk_jupyter_sent(t, "j1", "s1", ck_slice_str("{\"h\":1}"));
    trk_jupyter_sent(t, "j2", "s2", ck_slice_str("{\"h\":2}"));
    assert_true(trk_jupyter_pop(t, id, session, &header));
    assert_string_equal(id, "j1");
    assert_string_equal(session, "s1");
    assert_true(ck_slice_is(header, "{\"h\":1}"));
    assert_true(trk_jupyter_pop(t, id, session, &header));
    assert_string_equal(id, "j2");
    assert_false(trk_jupyter_pop(t, id, session, &header));
    trk_jupyter_sent(t, "j3", "s", ck_slice_str("{}"));
    assert_true(trk_jupyter_running(t));
    trk_free(t);
}

static void jupyter_executions_are_bounded(void **state)
{
    (void)state;
    struct tracker *t = made();
    char id[JW_ID_MAX], session[JW_ID_MAX];
    struct ck_slice header;
    for (int i = 0; i < TRK_JUPYTER_MAX + 3; i++) {
        snprintf(id, sizeof id, "j%d", i);
        trk_jupyter_sent(t, id, "s", ck_slice_str("{}"));
    }
    trk_jupyter_pop(t, id, session, &header);
    assert_string_equal(id, "j3");
    trk_free(t);
}

static void only_what_runs_code_makes_the_session_busy(void **state)
{
    (void)state;
    struct tracker *t = made();
    say(t, JW_IOPUB, "status", "kernel_info_request", "k", "{\"execution_state\":\"busy\"}", 1);
    assert_false(trk_busy(t));
    assert_true(say(t, JW_IOPUB, "status", "comm_msg", "w", "{\"execution_state\":\"busy\"}", 1).busy_changed);
    assert_true(trk_busy(t));
    say(t, JW_IOPUB, "status", "kernel_info_request", "k", "{\"execution_state\":\"idle\"}",
        1); // control runs beside it
    assert_true(trk_busy(t));
    assert_true(say(t, JW_IOPUB, "status", "comm_msg", "w", "{\"execution_state\":\"idle\"}", 1).busy_changed);
    assert_false(trk_busy(t));
    trk_free(t);
}

static void a_kernel_that_says_only_half_of_an_end_is_probed_and_then_broken(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        struct tracker *t = made();
        struct trk_cell *c = running(t, A);
        assert_int_equal(trk_quiet_at(t), INT64_MAX); // silence alone says nothing while the code runs
        if (half)
            idle(t, A);
        else
            reply(t, A, OK);
        int64_t at = trk_quiet_at(t);
        assert_int_equal(at, 20 + TRK_QUIET_MS);
        assert_int_equal(trk_quiet(t, at - 1), TRK_NOTHING);
        say(t, JW_IOPUB, "stream", "execute_request", A, "{}", at - 1); // still speaking: output is on its way
        assert_int_equal(trk_quiet(t, at), TRK_NOTHING);
        at = trk_quiet_at(t);
        assert_int_equal(trk_quiet(t, at), TRK_PROBE);
        assert_int_equal(trk_quiet(t, at + 100000), TRK_NOTHING); // until it is known what became of the probe
        assert_int_equal(trk_probed(t, true, at + 10), TRK_NOTHING);
        assert_int_equal(trk_quiet_at(t), at + TRK_GIVE_UP_MS);
        assert_int_equal(trk_quiet(t, trk_quiet_at(t)), TRK_BROKEN);
        assert_int_equal(c->phase, TRK_RUNNING); // its ending is the caller's to decide
        trk_free(t);
    }
}

static void a_probe_that_nobody_answers_is_a_broken_kernel_if_the_code_has_ended(void **state)
{
    (void)state;
    struct tracker *t = made();
    running(t, A);
    reply(t, A, OK);
    int64_t at = trk_quiet_at(t);
    assert_int_equal(trk_quiet(t, at), TRK_PROBE);
    assert_int_equal(trk_probed(t, false, at + 60000), TRK_BROKEN);
    assert_int_equal(trk_probed(t, false, at + 60001), TRK_NOTHING); // of an older probe
    trk_free(t);
}

static void an_end_that_comes_after_all_makes_the_probe_void(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A);
    reply(t, A, OK);
    int64_t at = trk_quiet_at(t);
    assert_int_equal(trk_quiet(t, at), TRK_PROBE);
    assert_true(idle(t, A).closing);
    assert_int_equal(trk_quiet_at(t), INT64_MAX);
    end(t, c);
    running(t, B);
    assert_int_equal(trk_probed(t, true, at), TRK_NOTHING);
    say(t, JW_SHELL, "execute_reply", "execute_request", B, OK, at + 100);
    assert_int_equal(trk_quiet_at(t), at + 100 + TRK_QUIET_MS); // from the start again
    assert_int_equal(trk_quiet(t, at + 100 + TRK_QUIET_MS), TRK_PROBE);
    trk_free(t);
}

static void an_answered_probe_proves_the_loss_of_an_idle_at_once(void **state)
{
    (void)state;
    struct tracker *t = made();
    running(t, A);
    reply(t, A, OK);
    assert_false(idle(t, "before the probe").broken);
    trk_quiet(t, trk_quiet_at(t));
    assert_true(idle(t, "the probe").broken);
    trk_free(t);
}

static void a_message_that_is_on_its_way_is_no_silence(void **state)
{
    (void)state;
    for (int probe = 0; probe < 2; probe++) {
        struct tracker *t = made();
        running(t, A);
        reply(t, A, OK);
        uint64_t bytes = 2000;
        int64_t now = trk_quiet_at(t);
        trk_moved(t, bytes, now);
        if (probe) {
            assert_int_equal(trk_quiet(t, now), TRK_PROBE);
            trk_probed(t, true, now);
        }
        // Slowly, and for longer than any other talk would be listened to.
        for (int64_t begun = now; now < begun + 2 * (int64_t)TRK_LATE_MS; now = trk_quiet_at(t)) {
            bytes += TRK_MOVED_BYTES;
            trk_moved(t, bytes, now);
            assert_int_equal(trk_quiet(t, now), TRK_NOTHING);
        }
        trk_moved(t, bytes + TRK_MOVED_BYTES - 1, now); // no more than what the probe makes it say
        assert_int_equal(trk_quiet(t, now), probe ? TRK_BROKEN : TRK_PROBE);
        trk_free(t);
    }
}

static void a_message_that_never_becomes_whole_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    struct tracker *t = made();
    running(t, A);
    reply(t, A, OK);
    enum trk_due due = TRK_NOTHING;
    int64_t now = 0;
    for (uint64_t bytes = 0; !due && now < 2 * (int64_t)TRK_MOVED_MS; bytes += TRK_MOVED_BYTES) {
        now = trk_quiet_at(t);
        trk_moved(t, bytes, now);
        due = trk_quiet(t, now);
    }
    assert_int_equal(due, TRK_PROBE);
    trk_free(t);
}

static void bytes_of_whole_messages_do_not_put_the_probe_off_for_ever(void **state)
{
    (void)state;
    struct tracker *t = made();
    running(t, A);
    reply(t, A, OK);
    uint64_t bytes = 0;
    int64_t now = 20;
    for (; now < 20 + TRK_LATE_MS; now += 1000) {
        say(t, JW_IOPUB, "stream", "execute_request", A, "{}", now);
        trk_moved(t, bytes += 2 * TRK_MOVED_BYTES, now);
        assert_int_equal(trk_quiet(t, now), TRK_NOTHING);
    }
    assert_int_equal(trk_quiet(t, now), TRK_PROBE);
    trk_free(t);
}

static void an_endless_talk_of_other_things_does_not_put_the_probe_off_for_ever(void **state)
{
    (void)state;
    struct tracker *t = made();
    running(t, A);
    reply(t, A, OK);
    for (int64_t now = 20; now < 20 + TRK_LATE_MS; now += 1000) {
        say(t, JW_IOPUB, "stream", "execute_request", A, "{}", now);
        assert_int_equal(trk_quiet(t, now), TRK_NOTHING);
    }
    assert_int_equal(trk_quiet_at(t), 20 + TRK_LATE_MS);
    assert_int_equal(trk_quiet(t, 20 + TRK_LATE_MS), TRK_PROBE);
    trk_free(t);
}

static void a_cell_that_does_not_begin_is_probed_for(void **state)
{
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        struct tracker *t = made();
        struct trk_cell *c = queue(t, A);
        trk_take(t, c, 5);
        int64_t at = trk_quiet_at(t);
        assert_int_equal(at, 5 + TRK_SENT_MS);
        assert_int_equal(trk_quiet(t, at), TRK_PROBE);
        assert_int_equal(trk_probed(t, true, at + 1), TRK_NOTHING);
        if (heard)
            say(t, JW_IOPUB, "status", "kernel_info_request", "probe", "{\"execution_state\":\"idle\"}", at + 2);
        // heard: the kernel is busy with something else; not heard: nothing of the cell would be either
        assert_int_equal(trk_quiet(t, trk_quiet_at(t)), heard ? TRK_NOTHING : TRK_BROKEN);
        assert_int_equal(c->phase, TRK_SENT);
        if (heard)
            assert_true(trk_quiet_at(t) > at + TRK_QUIET_MS && trk_quiet_at(t) < INT64_MAX);
        trk_free(t);
    }
}

static void an_execution_of_the_other_door_that_is_not_heard_breaks_the_kernel_too(void **state)
{
    (void)state;
    struct tracker *t = made();
    trk_jupyter_sent(t, "j1", "s", ck_slice_str("{}"));
    reply(t, "j1", OK);
    int64_t at = trk_quiet_at(t);
    assert_int_equal(trk_quiet(t, at), TRK_PROBE);
    trk_probed(t, true, at + 1);
    assert_int_equal(trk_quiet(t, trk_quiet_at(t)), TRK_BROKEN);
    trk_free(t);
}

static void a_reply_in_time_stops_the_clock_and_a_late_one_does_not(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct tracker *t = made();
        struct trk_cell *c = running(t, A);
        end_arm(&c->ending, 0, 1000);
        if (late)
            end_step(&c->ending, 1000);
        reply(t, A, OK);
        assert_int_equal(end_next(&c->ending) == INT64_MAX, !late); // its idle may never come: report in time
        assert_int_equal(trk_status(c), late ? CELL_TIMEOUT : CELL_OK);
        trk_free(t);
    }
}

static void the_reply_alone_says_whether_a_cell_failed(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A);
    say(t, JW_IOPUB, "error", "execute_request", A, "{\"ename\":7}", 15); // by code that writes messages itself
    reply(t, A, OK);
    idle(t, A);
    assert_int_equal(trk_status(c), CELL_OK);
    assert_false(c->out.has_error);
    trk_free(t);
}

static void a_late_start_of_a_cell_that_was_reported_is_told(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = queue(t, A);
    trk_take(t, c, 5);
    trk_wind(t, c);
    end(t, c);
    assert_true(busy(t, A).late_start);
    assert_false(busy(t, B).late_start);
    trk_free(t);
}

static void a_busy_that_was_lost_does_not_matter(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = queue(t, A);
    trk_take(t, c, 5);
    struct trk_step s = reply(t, A, OK);
    assert_true(s.started);
    assert_true(s.replied);
    assert_true(idle(t, A).closing);
    trk_free(t);
}

static void a_second_reply_or_idle_changes_nothing(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A);
    reply(t, A, FAILED);
    struct trk_step s = reply(t, A, OK);
    assert_false(s.replied);
    assert_false(s.closing);
    assert_int_equal(c->reply, TRK_REPLY_ERROR);
    assert_true(idle(t, A).closing);
    assert_false(idle(t, A).closing);
    trk_free(t);
}

static void errors_are_called_what_they_are(void **state)
{
    (void)state;
    static const struct {
        bool interrupt, cancel, timeout;
        const char *reply;
        enum cell_status want;
    } rows[] = {
        {false, false, false, FAILED, CELL_ERROR},     {true, false, false, FAILED, CELL_INTERRUPTED},
        {true, false, false, OK, CELL_OK},             {false, true, false, FAILED, CELL_CANCELLED},
        {false, true, false, OK, CELL_CANCELLED},      {false, false, true, FAILED, CELL_TIMEOUT},
        {false, false, true, OK, CELL_TIMEOUT},        {true, false, true, FAILED, CELL_TIMEOUT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tracker *t = made();
        struct trk_cell *c = running(t, A);
        end_arm(&c->ending, 0, 1000);
        if (rows[i].timeout)
            end_step(&c->ending, 1000);
        c->interrupted = rows[i].interrupt;
        c->cancelled = rows[i].cancel;
        if (rows[i].cancel)
            end_cancel(&c->ending, 5);
        reply(t, A, rows[i].reply);
        idle(t, A);
        assert_int_equal(trk_status(c), rows[i].want);
        trk_free(t);
    }
}

static void an_error_in_the_reply_alone_is_kept(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A); // a silent cell publishes no error message
    reply(t, A, FAILED);
    assert_true(c->out.has_error);
    assert_true(ck_slice_is(ck_buf_slice(&c->out.ename), "E"));
    trk_free(t);
}

static void input_is_wanted_until_the_reply(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A);
    assert_false(say(t, JW_STDIN, "input_request", "execute_request", "other", "{}", 1).input);
    assert_true(say(t, JW_STDIN, "input_request", "execute_request", A, "{}", 1).input);
    assert_true(c->wants_input);
    reply(t, A, OK);
    assert_false(c->wants_input);
    trk_free(t);
}

static void a_cell_reported_early_holds_the_others_until_the_kernel_rests(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct tracker *t = made();
        struct trk_cell *c = running(t, A), *next = queue(t, B);
        trk_wind(t, c);
        end(t, c);
        assert_null(trk_ready(t));
        assert_true(trk_busy(t));
        if (how == 0) {
            assert_null(reply(t, A, FAILED).cell);
            assert_null(trk_ready(t));
            idle(t, A);
        } else {
            trk_kernel_gone(t);
        }
        assert_false(trk_winding(t));
        assert_ptr_equal(trk_ready(t), next);
        trk_free(t);
    }
}

static void a_kernel_that_rests_before_the_report_is_out_is_ready_after_it(void **state)
{
    (void)state;
    struct tracker *t = made();
    struct trk_cell *c = running(t, A), *next = queue(t, B);
    reply(t, A, FAILED);
    trk_wind(t, c);
    c->phase = TRK_CLOSING; // its artifacts are being collected
    idle(t, A);
    assert_false(trk_winding(t));
    assert_null(trk_ready(t));
    end(t, c);
    assert_ptr_equal(trk_ready(t), next);
    trk_free(t);
}

static void what_a_restored_kernel_runs_holds_the_cells_back(void **state)
{
    (void)state;
    struct tracker *t = made();
    trk_inherited(t);
    assert_true(trk_busy(t));
    struct trk_cell *c = queue(t, A);
    assert_null(trk_ready(t));
    busy(t, "of before"); // its idle may come, or be lost with the connection
    idle(t, "of before");
    assert_null(trk_ready(t));
    trk_rested(t);
    assert_ptr_equal(trk_ready(t), c);
    trk_inherited(t);
    assert_null(trk_ready(t));
    trk_kernel_gone(t); // nothing of the past is left
    assert_ptr_equal(trk_ready(t), c);
    trk_free(t);
}

static void a_kernel_at_rest_is_not_busy_because_of_its_past(void **state)
{
    (void)state;
    struct tracker *t = made();
    trk_inherited(t);
    busy(t, "of before");
    trk_rested(t);
    assert_false(trk_busy(t));
    trk_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_ends_with_reply_and_idle_in_either_order),
        cmocka_unit_test(cells_go_one_after_the_other_and_the_queue_is_bounded),
        cmocka_unit_test(messages_of_others_do_not_touch_the_cell),
        cmocka_unit_test(a_cell_waits_for_the_jupyter_executions_before_it_only),
        cmocka_unit_test(a_lost_end_of_a_jupyter_execution_is_made_up_for_by_the_next),
        cmocka_unit_test(an_aborted_cell_is_queued_again_at_most_three_times),
        cmocka_unit_test(when_the_kernel_goes_a_cell_that_had_not_begun_waits_again),
        cmocka_unit_test(jupyter_executions_of_a_dead_kernel_are_handed_out),
        cmocka_unit_test(jupyter_executions_are_bounded),
        cmocka_unit_test(only_what_runs_code_makes_the_session_busy),
        cmocka_unit_test(a_kernel_that_says_only_half_of_an_end_is_probed_and_then_broken),
        cmocka_unit_test(a_probe_that_nobody_answers_is_a_broken_kernel_if_the_code_has_ended),
        cmocka_unit_test(an_end_that_comes_after_all_makes_the_probe_void),
        cmocka_unit_test(a_message_that_is_on_its_way_is_no_silence),
        cmocka_unit_test(a_message_that_never_becomes_whole_is_not_waited_for_for_ever),
        cmocka_unit_test(bytes_of_whole_messages_do_not_put_the_probe_off_for_ever),
        cmocka_unit_test(an_endless_talk_of_other_things_does_not_put_the_probe_off_for_ever),
        cmocka_unit_test(a_cell_that_does_not_begin_is_probed_for),
        cmocka_unit_test(an_execution_of_the_other_door_that_is_not_heard_breaks_the_kernel_too),
        cmocka_unit_test(a_reply_in_time_stops_the_clock_and_a_late_one_does_not),
        cmocka_unit_test(the_reply_alone_says_whether_a_cell_failed),
        cmocka_unit_test(a_late_start_of_a_cell_that_was_reported_is_told),
        cmocka_unit_test(an_answered_probe_proves_the_loss_of_an_idle_at_once),
        cmocka_unit_test(a_busy_that_was_lost_does_not_matter),
        cmocka_unit_test(a_second_reply_or_idle_changes_nothing),
        cmocka_unit_test(errors_are_called_what_they_are),
        cmocka_unit_test(an_error_in_the_reply_alone_is_kept),
        cmocka_unit_test(input_is_wanted_until_the_reply),
        cmocka_unit_test(a_cell_reported_early_holds_the_others_until_the_kernel_rests),
        cmocka_unit_test(a_kernel_that_rests_before_the_report_is_out_is_ready_after_it),
        cmocka_unit_test(what_a_restored_kernel_runs_holds_the_cells_back),
        cmocka_unit_test(a_kernel_at_rest_is_not_busy_because_of_its_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
