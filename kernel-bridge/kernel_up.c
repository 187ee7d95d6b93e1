// Connecting to a kernel and proving that it can be heard: a fresh SUB socket misses what is
// published before its subscription arrives, so kernel_info is asked, again and again with growing
// pauses, until both its reply and an iopub message came; then one silent execution warms up what a
// first cell would otherwise pay for.
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/jscan.h"

#define NUDGE_FIRST_MS 100
#define NUDGE_MAX_MS 2000

static void on_hostile(void *user)
{
    br_dead(user, "the kernel sent a thousand malformed or wrongly signed messages, so its VM was stopped");
}

int br_kernel_connect(struct bridge *b, const char *key, struct ck_err *err)
{
    struct kc_opts o = {.loop = b->loop, .zctx = b->zctx, .port = b->port, .key = key, .session = b->own_session,
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
    b->up.saw_iopub = b->up.saw_reply = false;
    b->up.deadline = deadline;
    b->up.done = done;
    b->up.nudge_ms = NUDGE_FIRST_MS / 2;
    nudge(&b->up.timer);
}

bool br_kernel_up_message(struct bridge *b, const struct kc_message *m)
{
    bool proved = b->up.saw_iopub && b->up.saw_reply;
    if (!b->up.active)
        return false;
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
