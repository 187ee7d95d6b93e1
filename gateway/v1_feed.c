// A session's whole event log as a stream: GET .../events (server-sent events) and WS .../stream
// (one JSON text message an event; the client may also send cells and answers). One feed, one link;
// a slow client pauses the link, so that what it has not read stays in the bridge's log.
#include "gateway/v1_feed.h"

#include "common/ck_json.h"
#include "gateway/v1.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_event.h"

#include <stdlib.h>

#define FEED_PENDING_MAX 128              // operations of one client that wait for their answer
#define FEED_MESSAGE_MAX (1024 * 1024)    // larger cells go by POST .../cells, parsed off the loop

struct pending {
    int64_t rid; // 0 = free
    char *ref;   // owned, may be NULL
    char cell[CK_UUID_MAX];
};

struct v1_feed {
    struct http_req *r; // until the answer begins for a WebSocket, to the end for SSE
    struct ws_conn *w;
    struct session *s; // ref
    struct bridge_link *link; // NULL when the bridge has gone
    struct v1_deadline *deadline; // for the attachment
    bool websocket, streaming;
    int64_t attach_rid;
    const char *url_prefix; // the gateway's base URL; lives as long as the gateway
    struct pending pending[FEED_PENDING_MAX];
};

static void feed_free(struct v1_feed *fd)
{
    bridge_link_close(fd->link);
    v1_deadline_free(fd->deadline);
    session_unref(fd->s);
    for (size_t i = 0; i < FEED_PENDING_MAX; i++)
        free(fd->pending[i].ref);
    free(fd);
}

static void send_object(struct v1_feed *fd, json_t *o)
{
    struct ck_buf b = CK_BUF_INIT;
    if (!ck_json_dump(o, &b) && fd->w && ws_send(fd->w, false, b.p, b.n))
        bridge_link_pause(fd->link);
    ck_buf_free(&b);
    json_decref(o);
}

static void send_refused(struct v1_feed *fd, const char *ref, const struct ck_err *err)
{
    send_object(fd, json_pack("{s:s,s:s*,s:i,s:s,s:s}", "type", "refused", "ref", ref, "status", err->status, "reason",
                              err->reason, "message", err->text));
}

// --- events to the client --------------------------------------------------------------------------
static void feed_event(struct v1_feed *fd, const json_t *h, const struct ck_frame *f)
{
    struct v1_event ev;
    if (!fd->streaming || v1_event_read(h, f, &ev) || ev.kind == V1_EVENT_SKIP)
        return;
    struct ck_buf b = CK_BUF_INIT;
    int full = 0;
    if (v1_event_json(h, f, &ev, &b))
        full = 0; // out of memory: the client sees the hole in the numbers
    else if (fd->websocket)
        full = ws_send(fd->w, false, b.p, b.n);
    else
        full = http_sse_send(fd->r, ev.type, ev.seq ? (int64_t)ev.seq : -1, b.p, b.n);
    if (full)
        bridge_link_pause(fd->link);
    ck_buf_free(&b);
}

// --- messages of the client ------------------------------------------------------------------------
static struct pending *pending_new(struct v1_feed *fd, const char *ref)
{
    for (size_t i = 0; i < FEED_PENDING_MAX; i++)
        if (!fd->pending[i].rid) {
            struct pending *p = &fd->pending[i];
            p->ref = ref ? strdup(ref) : NULL;
            p->cell[0] = '\0';
            return p;
        }
    return NULL;
}

static void feed_answer(struct v1_feed *fd, int64_t rid, const json_t *h)
{
    for (size_t i = 0; i < FEED_PENDING_MAX; i++) {
        struct pending *p = &fd->pending[i];
        if (!rid || p->rid != rid)
            continue;
        struct ck_err err = CK_ERR_INIT;
        if (bridge_error(h, &err))
            send_refused(fd, p->ref, &err);
        else
            send_object(fd, json_pack("{s:s,s:s*,s:s*}", "type", "accepted", "ref", p->ref, "cell",
                                      p->cell[0] ? p->cell : NULL));
        free(p->ref);
        *p = (struct pending){.rid = 0};
        return;
    }
}

static json_t *message_op(struct v1_feed *fd, const struct v1_feed_message *m, struct pending *p)
{
    switch (m->verb) {
    case V1_FEED_EXECUTE:
        ck_uuid4(p->cell);
        return json_pack("{s:s,s:s,s:I,s:b,s:b,s:s}", "op", "execute", "cell", p->cell, "timeout_ms",
                         (json_int_t)m->execute.timeout_ms, "silent", m->execute.silent, "allow_stdin",
                         m->execute.stdin_mode == V1_STDIN_INTERACTIVE, "url_prefix", fd->url_prefix);
    case V1_FEED_STDIN:
        return json_pack("{s:s,s:s,s:s}", "op", "stdin", "cell", m->cell, "value", m->value);
    case V1_FEED_CANCEL:
        return json_pack("{s:s,s:s}", "op", "cancel", "cell", m->cell);
    default:
        return json_pack("{s:s}", "op", "interrupt");
    }
}

static void ws_message(struct ws_conn *w, void *user, bool binary, struct ck_slice msg)
{
    (void)w;
    (void)binary;
    struct v1_feed *fd = user;
    struct ck_err err = CK_ERR_INIT;
    struct v1_feed_message m;
    int rc = v1_feed_message_parse(msg, &m, &err);
    struct pending *p = rc ? NULL : pending_new(fd, m.ref);
    if (!rc && !p)
        rc = ck_fail(&err, 429, "too_many_operations", "wait for the answers to earlier messages first");
    if (!rc && !fd->link)
        rc = ck_fail(&err, 410, "session_dead", "the session has ended");
    if (!rc) {
        struct ck_slice code = {(const uint8_t *)m.execute.code, m.execute.code_n};
        p->rid = 0;
        rc = bridge_link_op(fd->link, message_op(fd, &m, p), &code, m.verb == V1_FEED_EXECUTE, &p->rid);
        rc = rc < 0 ? ck_fail(&err, 503, "no_memory", "the message could not be sent to the session") : 0;
        session_touch(fd->s);
    }
    if (rc) {
        send_refused(fd, m.ref, &err);
        if (p) {
            free(p->ref);
            *p = (struct pending){.rid = 0};
        }
    }
    v1_feed_message_free(&m);
}

static void ws_drain(struct ws_conn *w, void *user)
{
    (void)w;
    struct v1_feed *fd = user;
    if (fd->link)
        bridge_link_resume(fd->link);
}

static void ws_closed(struct ws_conn *w, void *user, int code)
{
    (void)w;
    (void)code;
    feed_free(user);
}

static const struct ws_events ws_events = {.on_message = ws_message, .on_drain = ws_drain, .on_close = ws_closed};

static void sse_drain(struct http_req *r, void *user)
{
    (void)r;
    bridge_link_resume(((struct v1_feed *)user)->link);
}

// --- the link --------------------------------------------------------------------------------------
static void feed_attached(struct v1_feed *fd)
{
    fd->streaming = true;
    v1_deadline_stop(fd->deadline);
    if (!fd->websocket) {
        http_sse_begin(fd->r);
        http_on_drain(fd->r, sse_drain);
        return;
    }
    struct http_req *r = fd->r;
    fd->r = NULL;
    http_on_gone(r, NULL);
    fd->w = http_ws_accept(r, NULL, &ws_events, fd);
    ws_set_max_message(fd->w, FEED_MESSAGE_MAX);
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct v1_feed *fd = user;
    struct ck_err err = CK_ERR_INIT;
    json_t *re = json_object_get(h, "re");
    if (!re) {
        feed_event(fd, h, f);
    } else if (json_integer_value(re) != fd->attach_rid) {
        feed_answer(fd, json_integer_value(re), h);
    } else if (bridge_error(h, &err)) {
        http_reply_err(fd->r, &err);
        feed_free(fd);
    } else {
        feed_attached(fd);
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_feed *fd = user;
    fd->link = NULL;
    if (fd->w) {
        ws_close(fd->w, 1011, "the session ended"); // ws_closed frees
        return;
    }
    if (fd->streaming)
        http_stream_end(fd->r);
    else
        v1_reply_err(fd->r, err);
    feed_free(fd);
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static void expired(void *user, const struct ck_err *err)
{
    struct v1_feed *fd = user;
    http_reply_err(fd->r, err);
    feed_free(fd);
}

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    feed_free(user);
}

static void feed_start(struct http_req *r, bool websocket)
{
    struct session *s = v1_session(r, true);
    if (!s)
        return;
    struct ck_err err = CK_ERR_INIT;
    uint64_t from;
    int pos = v1_event_position(http_header_in(r, "Last-Event-ID"), http_query(r, "from"), &from, &err);
    struct v1_feed *fd = pos < 0 ? NULL : calloc(1, sizeof *fd);
    if (!fd) {
        http_reply_err(r, &err);
        return;
    }
    fd->r = r;
    fd->websocket = websocket;
    fd->s = session_ref(s);
    fd->url_prefix = http_gateway(r)->config->base_url;
    fd->link = bridge_link_open(http_gateway(r)->loop, s->socket, &link_events, fd, &err);
    if (!fd->link) {
        http_reply_err(r, &err);
        feed_free(fd);
        return;
    }
    fd->deadline = v1_deadline_new(http_gateway(r)->loop, expired, fd);
    v1_deadline_arm(fd->deadline);
    json_t *op = json_pack("{s:s,s:s}", "op", "attach", "mode", "all");
    json_object_set_new(op, "from", pos == 1 ? json_string("now") : json_integer((json_int_t)from));
    bridge_link_op(fd->link, op, NULL, 0, &fd->attach_rid);
    http_set_user(r, fd);
    http_on_gone(r, on_gone);
}

void v1_feed_events(struct http_req *r) { feed_start(r, false); }
void v1_feed_stream(struct http_req *r) { feed_start(r, true); }
