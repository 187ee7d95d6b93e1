// A timer that outlives its owner by one turn of the loop, as libuv wants it. A hung bridge must not
// leave a client waiting for ever.
#include "gateway/v1_deadline.h"

#include <stdlib.h>

struct v1_deadline {
    uv_timer_t timer;
    void (*expired)(void *user, const struct ck_err *err);
    void *user;
};

struct v1_deadline *v1_deadline_new(uv_loop_t *loop, void (*expired)(void *user, const struct ck_err *err), void *user)
{
    struct v1_deadline *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->expired = expired;
    d->user = user;
    uv_timer_init(loop, &d->timer);
    d->timer.data = d;
    return d;
}

static void on_timer(uv_timer_t *t)
{
    struct v1_deadline *d = t->data;
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "session_timeout", "the session did not answer in time: try again, or restart it");
    d->expired(d->user, &err);
}

void v1_deadline_arm_after(struct v1_deadline *d, int64_t extra_ms)
{
    if (d)
        uv_timer_start(&d->timer, on_timer, V1_ANSWER_MS + (uint64_t)extra_ms, 0);
}

void v1_deadline_arm(struct v1_deadline *d) { v1_deadline_arm_after(d, 0); }

void v1_deadline_stop(struct v1_deadline *d)
{
    if (d)
        uv_timer_stop(&d->timer);
}

static void on_closed(uv_handle_t *h) { free(h->data); }

void v1_deadline_free(struct v1_deadline *d)
{
    if (d)
        uv_close((uv_handle_t *)&d->timer, on_closed);
}
