// Connecting to a kernel and proving that it can be heard: a fresh SUB socket misses what is
// published before its subscription arrives, so kernel_info is asked, again and again with growing
// pauses, until both its reply and an iopub message came; then one silent execution warms up what a
// first cell would otherwise pay for. A kernel with a past is heard first and asked next: it may be
// busy for hours with what it ran when it was frozen.
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/jscan.h"

#define NUDGE_FIRST_MS 100
#define NUDGE_MAX_MS 2000
#define REST_MS 1000        // for a kernel that was at rest when it was frozen, to say so
#define ASK_AGAIN_MS 600000 // one that is busy for longer is asked again: no wait without an end

static void on_hostile(void *user)
{
    br_dead(user, "the kernel sent a thousand malformed or wrongly signed messages, so its VM was stopped");
}

int br_kernel_connect(struct bridge *b, const char *key, struct ck_err *err)
{
    struct kc_opts o = {.loop = b->loop, .zctx = b->zctx, .port = b->port, .key = key, .session = b->own_session,
                        .identity = b->frozen.kernel_identity[0] ? b->frozen.kernel_identity : NULL,
                        .topic = b->frozen.kernel_identity[0] ? b->topic : NULL,
                        .message_max = b->conf.limits.message_bytes, .on_message = br_kernel_message,
                        .on_oversize = br_kernel_oversize, .on_hostile = on_hostile, .user = b};
    kc_close(b->kc);
    b->kc = kc_open(&o, err);
    return b->kc ? 0 : -1;
}

void br_kernel_up_stop(struct bridge *b)
{
    b->up.active = false;
    uv_timer_stop(&b->up.timer);
}

static void finish(struct bridge *b, const struct ck_err *err)
{
    br_kernel_up_stop(b);
    b->up.done(b, err);
}

static void timed_out(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "kernel_timeout", "the kernel did not answer on %s in time",
            b->up.saw_reply ? "iopub" : "its shell channel");
    finish(b, &err);
}

static void warmed_up(void *user, const struct ck_slice *content, const struct ck_err *err)
{
    struct bridge *b = user;
    char status[16] = "";
    struct ck_err e = CK_ERR_INIT;
    if (!b->up.active)
        return;
    if (!err) {
        jscan_field_str(*content, "status", status, sizeof status);
        if (strcmp(status, "ok"))
            err = ck_fail(&e, 502, "kernel_broken", "the kernel could not execute an empty cell") ? &e : NULL;
    }
    finish(b, err);
}

static void warm_up(struct bridge *b)
{
    static const char content[] = "{\"code\":\"pass\",\"silent\":true,\"store_history\":false,\"user_expressions\":{},"
                                  "\"allow_stdin\":false,\"stop_on_error\":false}";
    struct ck_err err = CK_ERR_INIT;
    int64_t left = b->up.deadline - ck_mono_ms();
    uv_timer_stop(&b->up.timer);
    if (kc_call(b->kc, JW_SHELL, "execute_request", ck_slice_str(content), left > 0 ? (unsigned)left : 1, warmed_up, b,
                &err))
        finish(b, &err);
}

static void nudge(uv_timer_t *t)
{
    struct bridge *b = t->data;
    struct ck_err err = CK_ERR_INIT;
    if (ck_mono_ms() >= b->up.deadline) {
        timed_out(b);
        return;
    }
    kc_request(b->kc, JW_SHELL, NULL, "kernel_info_request", ck_slice_str("{}"), &err); // a full queue: the next one
    b->up.nudge_ms = b->up.nudge_ms * 2 < NUDGE_MAX_MS ? b->up.nudge_ms * 2 : NUDGE_MAX_MS;
    uv_timer_start(&b->up.timer, nudge, b->up.nudge_ms, 0);
}

void br_kernel_prove(struct bridge *b, int64_t deadline, void (*done)(struct bridge *b, const struct ck_err *err))
{
    b->up.active = true;
    b->up.past = false;
    b->up.saw_iopub = b->up.saw_reply = false;
    b->up.deadline = deadline;
    b->up.done = done;
    b->up.nudge_ms = NUDGE_FIRST_MS / 2;
    nudge(&b->up.timer);
}

// ---- a kernel with a past ---------------------------------------------------------------------

static void returned(struct bridge *b, bool patience_over)
{
    if (b->up.active && b->up.saw_iopub && (b->up.saw_reply || b->up.busy || patience_over))
        finish(b, NULL);
}

static void no_longer(uv_timer_t *t)
{
    struct bridge *b = t->data;
    if (!b->up.saw_iopub) {
        timed_out(b);
        return;
    }
    returned(b, true);
}

static void ask_rest(struct bridge *b);

// The kernel answers on its shell channel: what was begun before the restore has ended.
static void rested(void *user, const struct ck_slice *content, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)content;
    if (err && err->status == 504)
        ask_rest(b);
    if (err)
        return; // the kernel is gone: whoever ended it has told the tracker
    trk_rested(b->trk);
    b->up.saw_reply = true;
    returned(b, false);
    if (b->state == BR_READY) {
        br_state_event(b, "");
        br_cells_dispatch(b);
    }
}

static void ask_rest(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (kc_call(b->kc, JW_SHELL, "kernel_info_request", ck_slice_str("{}"), ASK_AGAIN_MS, rested, b, &err))
        ck_log(CK_LOG_WARN, "bridge", "kernel_not_asked id=%s reason=%s", b->conf.id, err.reason);
}

static void interrupt_question(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (kc_request(b->kc, JW_CONTROL, NULL, "interrupt_request", ck_slice_str("{}"), &err))
        ck_log(CK_LOG_WARN, "bridge", "kernel_not_interrupted id=%s reason=%s", b->conf.id, err.reason);
}

void br_kernel_return(struct bridge *b, int64_t deadline, void (*done)(struct bridge *b, const struct ck_err *err))
{
    b->up.active = b->up.past = true;
    b->up.saw_iopub = b->up.saw_reply = false;
    b->up.busy = b->frozen.busy;
    b->up.deadline = deadline;
    b->up.done = done;
    trk_inherited(b->trk);
    if (b->frozen.asks) // nobody is left who could answer: it would wait for ever
        interrupt_question(b);
    ask_rest(b);
    uv_timer_start(&b->up.timer, no_longer, (uint64_t)(deadline - ck_mono_ms()), 0);
}

// Everything it says is taken like any other message.
static void heard(struct bridge *b, const struct kc_message *m)
{
    if (m->channel != JW_IOPUB || b->up.saw_iopub)
        return;
    b->up.saw_iopub = true;
    int64_t left = b->up.deadline - ck_mono_ms();
    uv_timer_start(&b->up.timer, no_longer, left > REST_MS ? REST_MS : left > 0 ? (uint64_t)left : 0, 0);
    returned(b, false);
}

bool br_kernel_up_message(struct bridge *b, const struct kc_message *m)
{
    bool proved = b->up.saw_iopub && b->up.saw_reply;
    if (!b->up.active)
        return false;
    if (b->up.past) {
        heard(b, m);
        return false;
    }
    if (m->channel == JW_IOPUB) {
        b->up.saw_iopub = true;
        memcpy(b->kernel_session, m->head.session, sizeof b->kernel_session);
    } else if (!strcmp(m->head.type, "kernel_info_reply")) {
        b->up.saw_reply = true;
    }
    if (!proved && b->up.saw_iopub && b->up.saw_reply)
        warm_up(b);
    return !strcmp(m->parent.session, b->own_session) || !m->parent.session[0];
}
