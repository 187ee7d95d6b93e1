// A session's whole event log as a stream: GET .../events (server-sent events) and WS .../stream
// (one JSON text message an event; the client may also send cells and answers). One feed, one link;
// a slow client pauses the link, so that what it has not read stays in the bridge's log. A feed outlasts
// a pause of its session: it lets go of the bridge and goes on after the last event when the session
// runs again, which a message of its client makes it do.
#include "gateway/v1_feed.h"

#include "common/ck_json.h"
#include "gateway/v1.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_event.h"

#include <stddef.h>
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
    struct session_watch watch;
    struct bridge_link *link; // NULL when the bridge has gone, and while the session is paused
    uint64_t next; // the next event's number, as far as known
    struct v1_deadline *deadline; // for the attachment
    bool websocket, streaming;
    bool from_now; // until the bridge has said what that is
    int64_t attach_rid;
    const char *url_prefix; // the gateway's base URL; lives as long as the gateway
    struct pending pending[FEED_PENDING_MAX];
};

static void feed_free(struct v1_feed *fd)
{
    bridge_link_close(fd->link);
    v1_deadline_free(fd->deadline);
    session_unwatch(&fd->watch);
    session_unref(fd->s);
    for (size_t i = 0; i < FEED_PENDING_MAX; i++)
        free(fd->pending[i].ref);
    free(fd);
}

static void send_object(struct v1_feed *fd, json_t *o)
{
    struct ck_buf b = CK_BUF_INIT;
    if (!ck_json_dump(o, &b) && fd->w && ws_send(fd->w, false, b.p, b.n) && fd->link)
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
    int64_t seq = ck_json_int(h, "to", ck_json_int(h, "seq", 0, NULL), NULL); // a gap has both
    if (seq > 0 && (uint64_t)seq >= fd->next)
        fd->next = (uint64_t)seq + 1;
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

// The link is gone with what had not been answered.
static void refuse_pending(struct v1_feed *fd, const struct ck_err *err)
{
    for (size_t i = 0; i < FEED_PENDING_MAX; i++) {
        struct pending *p = &fd->pending[i];
        if (p->rid)
            send_refused(fd, p->ref, err);
        free(p->ref);
        *p = (struct pending){.rid = 0};
    }
}

static int feed_attach(struct v1_feed *fd, struct ck_err *err);

static json_t *message_op(struct v1_feed *fd, const struct v1_feed_message *m, struct pending *p)
{
    switch (m->verb) {
    case V1_FEED_EXECUTE:
        ck_uuid4(p->cell);
        return json_pack("{s:s,s:s,s:I,s:b,s:b,s:s}", "op", "execute", "cell", p->cell, "timeout_ms",
                         (json_int_t)session_cell_ms(fd->s, m->execute.timeout_ms), "silent", m->execute.silent, "allow_stdin",
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
    if (!rc && !fd->link) // it is paused: this resumes it
        rc = feed_attach(fd, &err);
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
    struct v1_feed *fd = user;
    if (fd->link)
        bridge_link_resume(fd->link);
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

static void feed_end(struct v1_feed *fd, const struct ck_err *err)
{
    bridge_link_close(fd->link);
    fd->link = NULL;
    if (fd->w) {
        fd->streaming = false;
        ws_resume(fd->w);
        ws_close(fd->w, 1011, "the session ended"); // ws_closed frees
        return;
    }
    if (fd->streaming)
        http_stream_end(fd->r);
    else
        v1_reply_err(fd->r, err);
    feed_free(fd);
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
        feed_end(fd, &err);
    } else {
        fd->from_now = false;
        fd->next = (uint64_t)ck_json_int(h, "from", 0, NULL);
        if (!fd->streaming)
            feed_attached(fd);
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_feed *fd = user;
    struct ck_err again = CK_ERR_INIT;
    bool paused = session_wait_ms(fd->s) > 0;
    fd->link = NULL;
    if (paused && fd->streaming)
        refuse_pending(fd, err); // asleep
    else if (!paused || strncmp(err->reason, "bridge_", 7) != 0)
        feed_end(fd, err);
    else if (feed_attach(fd, &again)) // it was paused while it was being attached
        feed_end(fd, &again);
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static int feed_attach(struct v1_feed *fd, struct ck_err *err)
{
    fd->link = session_link_open(fd->s, SESSION_LINK_FEED, &link_events, fd, err);
    if (!fd->link)
        return -1;
    json_t *op = json_pack("{s:s,s:s}", "op", "attach", "mode", "all");
    json_object_set_new(op, "from", fd->from_now ? json_string("now") : json_integer((json_int_t)fd->next));
    bridge_link_op(fd->link, op, NULL, 0, &fd->attach_rid);
    return 0;
}

static void feed_sleep(struct v1_feed *fd)
{
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 503, "session_paused", "the session was paused meanwhile: try again");
    bridge_link_close(fd->link);
    fd->link = NULL;
    refuse_pending(fd, &err);
}

static void on_watch(struct session_watch *w, enum session_event what)
{
    struct v1_feed *fd = (struct v1_feed *)((char *)w - offsetof(struct v1_feed, watch));
    struct ck_err err = CK_ERR_INIT;
    if (!fd->streaming)
        return; // its link waits, or is opened again
    if (fd->w && what == SESSION_SETTLES)
        ws_pause(fd->w); // what the client sends now is read when it is clear what becomes of it
    else if (fd->w)
        ws_resume(fd->w);
    ck_fail(&err, 410, "session_dead", "the session was deleted");
    if (what == SESSION_SLEEPS)
        feed_sleep(fd);
    else if (what == SESSION_ENDED && !fd->link)
        feed_end(fd, &err);
    else if ((what == SESSION_RUNS || what == SESSION_GOES_ON) && !fd->link && feed_attach(fd, &err))
        feed_end(fd, &err);
}

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
    fd->from_now = pos == 1;
    fd->next = pos == 1 ? 0 : from;
    fd->deadline = v1_deadline_new(http_gateway(r)->loop, expired, fd);
    if (feed_attach(fd, &err)) {
        http_reply_err(r, &err);
        feed_free(fd);
        return;
    }
    session_watch(s, &fd->watch, on_watch);
    v1_deadline_arm_after(fd->deadline, session_wait_ms(s));
    http_set_user(r, fd);
    http_on_gone(r, on_gone);
}

void v1_feed_events(struct http_req *r) { feed_start(r, false); }
void v1_feed_stream(struct http_req *r) { feed_start(r, true); }
