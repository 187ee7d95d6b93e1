// One operation to a bridge and its one response, on a connection of its own.
#include "common/ck_json.h"
#include "gateway/bridge_link.h"

#include <stdlib.h>

struct bridge_call {
    uv_timer_t timer;
    struct bridge_link *link;
    int64_t rid;
    bridge_call_done done; // NULL once it was called or the call was cancelled
    void *user;
    int timeout_ms;
    struct ck_err start_error; // a failure before anything could start; told from the loop
};

static void on_timer_closed(uv_handle_t *h)
{
    free(h->data);
}

void bridge_call_cancel(struct bridge_call *c)
{
    if (!c || !c->done)
        return;
    c->done = NULL;
    bridge_link_close(c->link);
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

void bridge_call_patient(struct bridge_call *c)
{
    if (c->link)
        bridge_link_patient(c->link);
}

static void finish(struct bridge_call *c, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    bridge_call_done done = c->done;
    void *user = c->user;
    bridge_call_cancel(c); // frees when the loop comes round: what re and frame point to stays until then
    done(user, re, frame, err);
}

static void on_frame(struct bridge_link *l, void *user, const json_t *header, const struct ck_frame *frame)
{
    struct bridge_call *c = user;
    struct ck_err err = CK_ERR_INIT;
    (void)l;
    if (ck_json_int(header, "re", -1, NULL) != c->rid)
        return;
    if (bridge_error(header, &err))
        finish(c, NULL, NULL, &err);
    else
        finish(c, header, frame, NULL);
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    struct bridge_call *c = user;
    (void)l;
    c->link = NULL;
    finish(c, NULL, NULL, err);
}

static void on_timeout(uv_timer_t *t)
{
    struct bridge_call *c = t->data;
    if (!c->start_error.status)
        ck_fail(&c->start_error, 504, "bridge_timeout", "the session did not answer in time");
    struct ck_err err = c->start_error;
    finish(c, NULL, NULL, &err);
}

static void on_open(struct bridge_link *l, void *user)
{
    struct bridge_call *c = user;
    (void)l;
    uv_timer_start(&c->timer, on_timeout, (uint64_t)c->timeout_ms, 0);
}

static const struct bridge_link_events call_events = {.on_open = on_open, .on_frame = on_frame, .on_close = on_close};

struct bridge_call *bridge_call_over(uv_loop_t *loop, bridge_open_fn open, void *context, json_t *op,
                                     const struct ck_slice *parts, uint32_t nparts, int timeout_ms, bridge_call_done done,
                                     void *user)
{
    struct bridge_call *c = calloc(1, sizeof *c);
    if (!c)
        abort(); // a few hundred bytes: nothing useful can go on
    c->done = done;
    c->user = user;
    c->timeout_ms = timeout_ms;
    uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    c->rid = json_integer_value(json_object_get(op, "rid")); // the caller's, or else a fresh one
    c->link = open(context, &call_events, c, &c->start_error);
    if (!c->link)
        json_decref(op);
    else if (bridge_link_op(c->link, op, parts, nparts, &c->rid) < 0)
        ck_fail(&c->start_error, 413, "too_large", "the operation is too large for the session");
    if (c->start_error.status)
        uv_timer_start(&c->timer, on_timeout, 0, 0);
    return c;
}

struct at_socket {
    uv_loop_t *loop;
    const char *path;
};

static struct bridge_link *open_socket(void *context, const struct bridge_link_events *ev, void *user, struct ck_err *err)
{
    const struct at_socket *at = context;
    return bridge_link_open(at->loop, at->path, ev, user, err);
}

struct bridge_call *bridge_call(uv_loop_t *loop, const char *socket_path, json_t *op, const struct ck_slice *parts,
                                uint32_t nparts, int timeout_ms, bridge_call_done done, void *user)
{
    struct at_socket at = {loop, socket_path};
    return bridge_call_over(loop, open_socket, &at, op, parts, nparts, timeout_ms, done, user);
}
