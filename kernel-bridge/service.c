// Accepts connections and keeps the table of them: a slot and a generation name one for ever, so
// that late answers for a closed connection go nowhere. Must never hold more than SVC_CONNS_MAX.
#include "common/ck_clean.h"
#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/conn.h"

#include <stdlib.h>

static void on_check_closed(uv_handle_t *h)
{
    struct service *s = h->data;
    if (--s->handles == 0)
        free(s);
}

bool svc_tell(struct service *s)
{
    bool writing = false;
    s->news = false;
    for (unsigned i = 0; i < s->room; i++) {
        if (!s->slot[i].conn)
            continue;
        conn_pump(s->slot[i].conn);
        writing |= s->slot[i].conn && s->slot[i].conn->writing;
    }
    return writing;
}

static void pump_all(uv_prepare_t *h)
{
    struct service *s = h->data;
    if ((!s->news && !s->flushed) || svc_tell(s) || !s->flushed)
        return;
    void (*flushed)(void *) = s->flushed;
    s->flushed = NULL;
    flushed(s->flush_user);
}

static int take_slot(struct service *s, struct conn *c)
{
    unsigned i = 0;
    while (i < s->room && s->slot[i].conn)
        i++;
    if (i == SVC_CONNS_MAX)
        return -1;
    if (i == s->room)
        s->room++;
    s->slot[i].conn = c;
    c->slot = i;
    c->generation = ++s->slot[i].generation;
    s->count++;
    return 0;
}

void svc_release_slot(struct service *s, struct conn *c)
{
    if (s->slot[c->slot].conn == c) {
        s->slot[c->slot].conn = NULL;
        s->count--;
    }
}

static void refused(uv_handle_t *h) { free(h->data); }

static void on_connection(uv_stream_t *listener, int status)
{
    struct service *s = listener->data;
    if (status < 0)
        return;
    struct conn *c = conn_new(s);
    if (!c)
        return;
    if (uv_accept(listener, (uv_stream_t *)&c->pipe) || take_slot(s, c)) {
        ck_log(CK_LOG_WARN, "bridge", "connection_refused count=%u", s->count);
        c->pipe.data = c;
        uv_close((uv_handle_t *)&c->pipe, refused);
        return;
    }
    conn_start(c);
}

struct service *svc_new(struct bridge *b, int listen_fd, struct ck_err *err)
{
    CK_CLEAN_FD int fd = listen_fd;
    struct service *s = calloc(1, sizeof *s);
    if (!s) {
        ck_fail(err, 500, "no_memory", "no memory for the bridge's service");
        return NULL;
    }
    s->b = b;
    uv_pipe_init(b->loop, &s->listener, 0);
    uv_prepare_init(b->loop, &s->prepare);
    s->listener.data = s->prepare.data = s;
    s->handles = 2;
    uv_prepare_start(&s->prepare, pump_all);
    uv_unref((uv_handle_t *)&s->prepare);
    int rc = uv_pipe_open(&s->listener, fd);
    if (!rc)
        ck_take_fd(&fd);
    if (!rc)
        rc = uv_listen((uv_stream_t *)&s->listener, 128, on_connection);
    if (rc) {
        ck_fail(err, 500, "cannot_listen", "cannot listen on the bridge's socket: %s", uv_strerror(rc));
        svc_close(s);
        return NULL;
    }
    return s;
}

void svc_close(struct service *s)
{
    if (!s || s->closing)
        return;
    s->closing = true;
    s->flushed = NULL;
    for (unsigned i = 0; i < s->room; i++)
        if (s->slot[i].conn)
            conn_close(s->slot[i].conn);
    uv_close((uv_handle_t *)&s->listener, on_check_closed);
    uv_close((uv_handle_t *)&s->prepare, on_check_closed);
}

void svc_wake(struct service *s)
{
    if (s)
        s->news = true;
}

void svc_flush(struct service *s, void (*done)(void *user), void *user)
{
    s->flushed = done;
    s->flush_user = user;
}

unsigned svc_connections(const struct service *s) { return s->count; }

bool svc_quiet(const struct service *s)
{
    for (unsigned i = 0; i < s->room; i++) {
        const struct conn *c = s->slot[i].conn;
        if (c && (c->in.n || c->njobs || c->holds))
            return false;
    }
    return true;
}

void svc_presume(struct service *s)
{
    for (unsigned i = 0; i < s->room; i++)
        if (s->slot[i].conn)
            conn_peer_gone(s->slot[i].conn);
}

void svc_hold(struct service *s, bool on)
{
    if (s->held == on)
        return;
    s->held = on;
    for (unsigned i = 0; i < s->room; i++)
        if (s->slot[i].conn)
            (on ? conn_hold : conn_release)(s->slot[i].conn);
}

static struct conn *find(struct service *s, struct reply_to to)
{
    if (!s || to.slot >= s->room || s->slot[to.slot].generation != to.generation)
        return NULL;
    return s->slot[to.slot].conn;
}

void svc_reply(struct service *s, struct reply_to to, struct ck_slice fields, const struct ck_slice *parts, uint32_t n)
{
    struct conn *c = find(s, to);
    CK_CLEAN_BUF struct ck_buf h = CK_BUF_INIT;
    if (!c)
        return;
    if (ck_buf_printf(&h, "{\"re\":%lld,", (long long)to.rid) || ck_buf_add(&h, fields.p, fields.n) ||
        ck_buf_add_str(&h, "}"))
        conn_close(c);
    else
        conn_send(c, ck_frame_encode(ck_buf_slice(&h), parts, n));
}

void svc_reply_ok(struct service *s, struct reply_to to) { svc_reply(s, to, ck_slice_str("\"ok\":true"), NULL, 0); }

void svc_reply_error(struct service *s, struct reply_to to, const struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf f = CK_BUF_INIT;
    if (!ck_buf_printf(&f, "\"error\":{\"status\":%d,\"reason\":", err->status) &&
        !ck_buf_add_json_str(&f, err->reason, strlen(err->reason)) && !ck_buf_add_str(&f, ",\"message\":") &&
        !ck_buf_add_json_str(&f, err->text, strlen(err->text)) && !ck_buf_add_str(&f, "}"))
        svc_reply(s, to, ck_buf_slice(&f), NULL, 0);
}
