// A kernel's end and its successor: exits that the agent reports, kills, restarts. A fresh kernel
// has a new key, new sockets and the session's environment; what waited for a kernel goes to it.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/service.h"

#include <signal.h>
#include <stdlib.h>

#define POLITE_MS 1500 // for a kernel that is asked to shut down
#define ATTEMPTS_MAX 3
#define CODE_LEFT 79 // the kernel was told to leave by its own code and began nothing after (PROTOCOL.md section 1)

static void start_kernel(struct bridge *b);

static void answer_waiters(struct bridge *b, const struct ck_err *err)
{
    unsigned n = b->restart_waiters;
    b->restart_waiters = 0;
    for (unsigned i = 0; i < n; i++)
        if (err)
            svc_reply_error(b->svc, b->restart_waiter[i], err);
        else
            svc_reply_ok(b->svc, b->restart_waiter[i]);
}

void br_restart_fail(struct bridge *b, const struct ck_err *err) { answer_waiters(b, err); }

void br_restart_settled(struct bridge *b)
{
    if (!b->restart_done || b->state != BR_READY || trk_active(b->trk))
        return;
    b->restart_done = false;
    answer_waiters(b, NULL);
}

static void give_up(struct bridge *b, const struct ck_err *err)
{
    char text[256];
    snprintf(text, sizeof text, "a fresh kernel did not start: %.200s", err->text);
    br_dead(b, text);
}

static void kernel_proved(struct bridge *b, const struct ck_err *err)
{
    if (b->state != BR_RESTARTING)
        return;
    if (err && b->start_attempts < ATTEMPTS_MAX) { // files and session are worth another try: br_kernel_exit goes on
        ck_log(CK_LOG_WARN, "bridge", "kernel_start_failed id=%s attempt=%u reason=%s", b->conf.id, b->start_attempts,
               err->reason);
        br_kernel_kill(b, "it did not answer after its start");
        return;
    }
    if (err) {
        give_up(b, err);
        return;
    }
    b->state = BR_READY;
    b->start_attempts = 0;
    b->execution_count = 0;
    ck_log(CK_LOG_INFO, "bridge", "kernel_restarted id=%s pid=%lld", b->conf.id, (long long)b->kernel_pid);
    br_changes_for_jupyter(b); // nobody's files, and what the next cell is measured from
    br_parked_flush(b);
    br_state_event(b, "");
    b->restart_done = true;
    br_restart_settled(b); // so that whoever asked finds the session as it is now
    br_cells_dispatch(b);
    br_retime(b);
}

static void kernel_started(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)payload;
    if (b->state != BR_RESTARTING)
        return;
    if (err && err->status != 410 && b->start_attempts < ATTEMPTS_MAX) {
        ck_log(CK_LOG_WARN, "bridge", "kernel_start_failed id=%s attempt=%u reason=%s", b->conf.id, b->start_attempts,
               err->reason);
        start_kernel(b);
        return;
    }
    if (err) {
        give_up(b, err);
        return;
    }
    struct ck_err e = CK_ERR_INIT;
    b->kernel_pid = ck_json_int(answer, "pid", 0, NULL);
    int rc = br_kernel_connect(b, b->next_key, &e);
    explicit_bzero(b->next_key, sizeof b->next_key);
    if (rc)
        give_up(b, &e);
    else
        br_kernel_prove(b, b->start_deadline, kernel_proved);
}

// The key goes to both ends; the sockets are opened when the kernel listens: earlier, they would be
// in the middle of a pause between two attempts when it does.
static void start_kernel(struct bridge *b)
{
    uint8_t raw[32];
    struct ck_err err = CK_ERR_INIT;
    ck_random(raw, sizeof raw);
    ck_hex(raw, sizeof raw, b->next_key);
    explicit_bzero(raw, sizeof raw);
    kc_close(b->kc);
    b->kc = NULL;
    json_t *env = b->kernel_env ? json_loads(b->kernel_env, 0, NULL) : json_object();
    json_t *o = json_pack("{s:s,s:s,s:o}", "op", "kernel_start", "key", b->next_key, "env", env);
    if (o && b->kernel_cwd[0])
        json_object_set_new(o, "cwd", json_string(b->kernel_cwd));
    b->start_attempts++;
    b->start_deadline = ck_mono_ms() + b->conf.limits.kernel_start_ms;
    if (ac_request(b->ac, o, ck_slice("", 0), (unsigned)b->conf.limits.kernel_start_ms, kernel_started, b, &err) < 0)
        give_up(b, &err);
}

static void say_how(const json_t *push, const char *more, char *out, size_t room)
{
    int64_t sig = ck_json_int(push, "signal", 0, NULL), code = ck_json_int(push, "code", -1, NULL);
    if (sig > 0 && sig < 65)
        snprintf(out, room, "the kernel process was ended by signal %lld (%s)%s", (long long)sig, strsignal((int)sig),
                 more);
    else
        snprintf(out, room, "the kernel process exited with code %lld%s", (long long)code, more);
}

// A cell before told the kernel to end, and this one came too late: the next kernel gets it, once.
static bool goes_on_elsewhere(struct trk_cell *c, const json_t *push)
{
    if (c->phase != TRK_SENT || c->resent || end_begun(&c->ending) || ck_json_int(push, "signal", 0, NULL) ||
        ck_json_int(push, "code", -1, NULL) != CODE_LEFT)
        return false;
    c->resent = true;
    return true;
}

// The kernel is gone, and with it the cell that it had. One that it had only just been given may have
// run in part without a sign of it having come through, so it is not given to another kernel, unless
// the kernel's exit code says that it was not begun.
static void decide_running_cell(struct bridge *b, const json_t *push)
{
    struct trk_cell *c = trk_active(b->trk);
    char detail[320];
    bool begun = c && c->phase != TRK_SENT;
    if (!c || b->closing.decided)
        return;
    if (c->reply) { // its code had ended by itself
        if (c->phase == TRK_RUNNING)
            br_cell_decide(b, trk_status(c), end_begun(&c->ending) ? end_rung_name(c->ending.rung) : "",
                           "the kernel ended right after the cell's code; the last output may be missing");
    } else if (b->restart_wanted) {
        br_cell_decide(b, begun ? CELL_INTERRUPTED : CELL_CANCELLED, "restart",
                       begun ? "the kernel was restarted while the cell ran"
                             : "the kernel was restarted when it had just been given the cell");
    } else if (goes_on_elsewhere(c, push)) {
        ck_log(CK_LOG_INFO, "bridge", "cell_resent id=%s", c->id);
    } else if (end_begun(&c->ending)) {
        br_ending_detail(c, detail, sizeof detail);
        br_cell_decide(b, trk_status(c), end_rung_name(c->ending.rung), detail);
    } else if (ck_json_bool(push, "oom", false, NULL)) {
        b->closing.peak_memory_bytes = ck_json_int(push, "peak_memory_bytes", 0, NULL);
        br_cell_decide(b, CELL_OOM, "oom",
                       "the session ran out of memory, so the kernel was ended; a fresh kernel starts, files are kept, "
                       "variables are lost; use less memory at a time, or a session with a larger memory_mb (the "
                       "gateway's --memory-mb, or a template of that size)");
    } else {
        say_how(push,
                begun ? "; a fresh kernel starts, files are kept, variables are lost"
                      : " when it had just been given the cell, which may have run in part; a fresh kernel starts, "
                        "files are kept, variables are lost",
                detail, sizeof detail);
        br_cell_decide(b, CELL_KERNEL_DIED, "", detail);
    }
}

// A cell that was reported before its kernel rested: now it is known what became of it.
static void decide_wound(struct bridge *b, const json_t *push)
{
    char what[320];
    if (b->restart_wanted) {
        br_wound_outcome(b, "restart", "it was interrupted, and then the kernel was restarted; variables are lost");
    } else if (b->doomed) {
        br_wound_outcome(b, end_rung_name(END_KILLED), end_tried(END_KILLED));
    } else {
        say_how(push, " before the cell came to rest; a fresh kernel starts, files are kept, variables are lost", what,
                sizeof what);
        br_wound_outcome(b, end_rung_name(END_REPORTED), what);
    }
}

// What clients read in the session's state while the fresh kernel starts.
static void tell_why(struct bridge *b)
{
    char text[200] = "a fresh kernel is starting";
    if (b->doomed && !b->restart_wanted && b->doomed_why[0])
        snprintf(text, sizeof text,
                 "the kernel was killed, because %s; a fresh kernel is starting, files are kept, variables are lost",
                 b->doomed_why);
    br_state_event(b, text);
}

// What the kernel said before it died may have come already, perhaps even the end of its cell. Nothing
// new may be given to it meanwhile.
static void hear_last_words(struct bridge *b)
{
    bool doomed = b->doomed;
    b->doomed = true;
    kc_drain(b->kc);
    b->doomed = doomed;
}

void br_kernel_exit(struct bridge *b, const json_t *push)
{
    int64_t pid = ck_json_int(push, "pid", 0, NULL);
    if (b->state == BR_STARTING || b->state == BR_ROLLBACK) {
        br_dead(b, "the kernel ended while the session was being set up");
        return;
    }
    if ((b->state != BR_READY && b->state != BR_RESTARTING) || (b->kernel_pid && pid != b->kernel_pid))
        return;
    if (b->state == BR_RESTARTING && !b->kernel_pid)
        return; // of a start that kernel_started hears of
    ck_log(CK_LOG_WARN, "bridge", "kernel_exit id=%s pid=%lld code=%lld signal=%lld oom=%d", b->conf.id, (long long)pid,
           (long long)ck_json_int(push, "code", -1, NULL), (long long)ck_json_int(push, "signal", 0, NULL),
           ck_json_bool(push, "oom", false, NULL));
    hear_last_words(b);
    if (b->state != BR_READY && b->state != BR_RESTARTING)
        return; // they were too much
    b->kernel_pid = 0;
    bool again = b->state == BR_RESTARTING;
    if (!again) {
        b->state = BR_RESTARTING;
        b->start_attempts = 0;
    }
    uv_timer_stop(&b->restart_timer);
    br_kernel_up_stop(b);
    decide_running_cell(b, push);
    decide_wound(b, push);
    trk_kernel_gone(b->trk);
    br_fail_jupyter(b, b->restart_wanted ? "KernelRestarted" : "KernelDied",
                    b->restart_wanted ? "the kernel was restarted" : "the kernel died; a fresh one is starting");
    if (!b->restart_wanted && !again) // a restart that was asked for is told by the REST answer
        br_inject_status(b, "restarting");
    tell_why(b);
    b->doomed = b->restart_wanted = false;
    br_endings_reset(b);
    if (again && b->start_attempts >= ATTEMPTS_MAX) {
        br_dead(b, "the kernel keeps dying while it starts");
        return;
    }
    start_kernel(b);
}

static void killed(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    (void)user;
    (void)answer;
    (void)payload;
    if (err)
        ck_log(CK_LOG_WARN, "bridge", "kernel_kill_failed reason=%s", err->reason);
}

void br_kernel_unkillable(struct bridge *b)
{
    br_wound_outcome(b, end_rung_name(END_VM_KILLED), end_tried(END_VM_KILLED));
    br_dead(b, "the kernel could be ended neither by interrupt nor by SIGKILL, so its VM was stopped");
}

void br_kernel_kill(struct bridge *b, const char *why)
{
    struct ck_err err = CK_ERR_INIT;
    b->doomed = true;
    b->doomed_until = ck_mono_ms() + END_GRACE_MS;
    snprintf(b->doomed_why, sizeof b->doomed_why, "%s", why);
    json_t *o = json_pack("{s:s,s:s,s:b}", "op", "kernel_signal", "signal", "KILL", "group", 1);
    if (ac_request(b->ac, o, ck_slice("", 0), BR_AGENT_MS, killed, b, &err) < 0)
        killed(b, NULL, ck_slice("", 0), &err);
    br_retime(b);
}

static void not_polite(uv_timer_t *t)
{
    struct bridge *b = t->data;
    if (b->restart_wanted && b->state == BR_READY)
        br_kernel_kill(b, "it was to be restarted");
}

int br_restart(struct bridge *b, struct reply_to to, struct ck_err *err)
{
    if (br_check_alive(b, err))
        return -1;
    if (b->restart_waiters == BR_WAITERS_MAX)
        return ck_fail(err, 429, "too_many_restarts", "%d restarts are waiting already", BR_WAITERS_MAX);
    b->restart_waiter[b->restart_waiters++] = to;
    if (b->state != BR_READY || b->restart_wanted)
        return 0; // a fresh kernel is on its way: it answers this one too
    struct ck_err ignored = CK_ERR_INIT;
    bool idle = !trk_busy(b->trk);
    b->restart_wanted = true;
    b->restart_done = false;
    b->start_attempts = 0;
    br_cells_cancel_queued(b, "the kernel was restarted before the cell began");
    // An idle kernel gets the chance to run its exit handlers; a busy one would not look anyway.
    if (idle && !kc_request(b->kc, JW_CONTROL, NULL, "shutdown_request", ck_slice_str("{\"restart\":true}"), &ignored))
        uv_timer_start(&b->restart_timer, not_polite, POLITE_MS, 0);
    else
        uv_timer_start(&b->restart_timer, not_polite, 0, 0);
    b->doomed = true; // no new work for it
    return 0;
}
