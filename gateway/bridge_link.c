// One connection to one bridge: frames in, frames out, flow control both ways. Never blocks; never
// reads ahead of what its owner takes: a paused link stops reading its socket, and the bridge stops
// encoding. It parses the header that the bridge made, nothing that a guest made.
#include "gateway/bridge_link.h"

#include "common/ck_json.h"

#include <stdlib.h>
#include <sys/un.h>

#define CONNECT_MS 5000
#define READ_ROOM (64 * 1024)
#define SILENT_MS 10000 // without a byte from a bridge of which something is expected: it is asked
#define PROBE_MS 15000  // for its answer; with SILENT_MS less than clients usually wait
#define PROBE_RID (-1)  // of that question; owners' are positive

struct bridge_link {
    uv_pipe_t pipe;
    uv_timer_t timer; // the connect deadline; later: deliver what is buffered
    uv_timer_t watch;
    uint64_t heard;   // uv_now() when bytes last went either way
    bool awaiting, watched, probing, mark_probe, patient;
    uv_connect_t connect;
    struct bridge_link_events ev;
    void *user;
    struct ck_buf in;
    size_t queued;
    int64_t next_rid;
    int open_handles;
    bool connected, paused, closed, over_mark, delivering;
    void (*ended)(void *owner);
    void *owner;
    struct write_req *early; // written before the connection stood, in order
    struct write_req **early_end;
};

struct write_req {
    uv_write_t req;
    struct bridge_link *link;
    struct ck_blob *blob;
    bool probe;  // our own question
    size_t done; // bytes of it that went out at once
    struct write_req *next;
};

static void on_handle_closed(uv_handle_t *h)
{
    struct bridge_link *l = h->data;
    if (--l->open_handles)
        return;
    while (l->early) {
        struct write_req *w = l->early;
        l->early = w->next;
        ck_blob_unref(w->blob);
        free(w);
    }
    ck_buf_free(&l->in);
    free(l);
}

void bridge_link_close(struct bridge_link *l)
{
    if (!l || l->closed)
        return;
    l->closed = true;
    if (l->ended)
        l->ended(l->owner);
    uv_close((uv_handle_t *)&l->pipe, on_handle_closed);
    uv_close((uv_handle_t *)&l->timer, on_handle_closed);
    uv_close((uv_handle_t *)&l->watch, on_handle_closed);
}

static void fail(struct bridge_link *l, const struct ck_err *err)
{
    if (l->closed)
        return;
    bridge_link_close(l);
    l->ev.on_close(l, l->user, err);
}

static void fail_uv(struct bridge_link *l, int rc)
{
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 503, "bridge_gone", "the session's process is gone (%s)", uv_strerror(rc));
    fail(l, &err);
}

// One frame to the owner. -1 when the link is over.
static int deliver_frame(struct bridge_link *l, const struct ck_frame *f)
{
    struct ck_err err = CK_ERR_INIT;
    struct ck_slice head = ck_frame_part(f, 0);
    json_t *j = ck_json_parse_object(head.p, head.n, false, &err);
    if (!j) {
        ck_fail(&err, 502, "bad_frame", "the session's process sent a frame that is not understood");
        fail(l, &err);
        return -1;
    }
    bool probe = ck_json_int(j, "re", 0, NULL) == PROBE_RID;
    l->awaiting &= probe;
    if (!probe)
        l->ev.on_frame(l, l->user, j, f);
    json_decref(j);
    return l->closed ? -1 : 0;
}

static void deliver(struct bridge_link *l)
{
    size_t at = 0;
    if (l->delivering)
        return;
    l->delivering = true;
    while (!l->closed && !l->paused) {
        struct ck_frame f;
        struct ck_err err = CK_ERR_INIT;
        size_t used = 0;
        int rc = ck_frame_parse(l->in.p + at, l->in.n - at, CK_FRAME_BODY_MAX, &f, &used, &err);
        if (rc < 0)
            fail(l, &err);
        if (rc > 0 && used > READ_ROOM)
            ck_buf_reserve(&l->in, used); // a big frame is read into room of its size at once
        if (rc || deliver_frame(l, &f))
            break;
        at += used;
    }
    l->delivering = false;
    ck_buf_consume(&l->in, at);
    if (!l->in.n && !l->closed)
        ck_buf_free(&l->in);
}

static void moved(struct bridge_link *l)
{
    l->heard = uv_now(l->pipe.loop);
    l->probing = false;
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    struct bridge_link *l = h->data;
    (void)suggested;
    if (l->in.room == l->in.n && ck_buf_reserve(&l->in, READ_ROOM))
        *out = uv_buf_init(NULL, 0);
    else
        *out = uv_buf_init((char *)l->in.p + l->in.n, (unsigned)(l->in.room - l->in.n));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct bridge_link *l = s->data;
    (void)buf;
    if (l->closed)
        return;
    if (n < 0) {
        fail_uv(l, (int)n);
        return;
    }
    l->in.n += (size_t)n;
    moved(l);
    deliver(l);
}

static void on_written(uv_write_t *req, int status)
{
    struct write_req *w = (struct write_req *)req;
    struct bridge_link *l = w->link;
    bool probe = w->probe;
    l->queued -= w->blob->n;
    ck_blob_unref(w->blob);
    free(w);
    if (l->closed)
        return;
    if (status < 0) {
        fail_uv(l, status);
        return;
    }
    if (!probe) // which goes into the socket of a hung process too
        moved(l);
    if (l->over_mark && l->queued < BRIDGE_LINK_HIGH_WATER / 2) {
        l->over_mark = false;
        if (l->ev.on_drain)
            l->ev.on_drain(l, l->user);
    }
}

// Bytes that the socket takes at once: nearly always all of them, without a turn of the loop.
static size_t write_now(struct bridge_link *l, const struct ck_blob *b)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)b->p, (unsigned)b->n);
    int n = l->queued ? 0 : uv_try_write((uv_stream_t *)&l->pipe, &buf, 1);
    return n > 0 ? (size_t)n : 0;
}

static void start_write(struct bridge_link *l, struct write_req *w)
{
    uv_buf_t b = uv_buf_init((char *)w->blob->p + w->done, (unsigned)(w->blob->n - w->done));
    int rc = uv_write(&w->req, (uv_stream_t *)&l->pipe, &b, 1, on_written);
    if (rc) { // only for a bad handle; the reading side tells the owner
        l->queued -= w->blob->n;
        ck_blob_unref(w->blob);
        free(w);
    }
}

static void on_connected(uv_connect_t *req, int status)
{
    struct bridge_link *l = req->handle->data;
    if (l->closed)
        return;
    if (status < 0) {
        fail_uv(l, status);
        return;
    }
    l->connected = true;
    uv_timer_stop(&l->timer);
    while (l->early) {
        struct write_req *w = l->early;
        l->early = w->next;
        start_write(l, w);
    }
    if (!l->paused)
        uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read);
    if (l->ev.on_open)
        l->ev.on_open(l, l->user);
}

static void on_timer(uv_timer_t *t)
{
    struct bridge_link *l = t->data;
    struct ck_err err = CK_ERR_INIT;
    if (l->connected) {
        deliver(l);
        return;
    }
    ck_fail(&err, 504, "bridge_timeout", "the session's process does not accept connections");
    fail(l, &err);
}

static void watch_for(struct bridge_link *l, uint64_t ms)
{
    uv_timer_start(&l->watch, l->watch.timer_cb, ms, 0);
}

static void on_watch(uv_timer_t *t)
{
    struct bridge_link *l = t->data;
    struct ck_err err = CK_ERR_INIT;
    uint64_t silent = uv_now(t->loop) - l->heard;
    if ((!l->awaiting && !l->watched) || l->patient)
        return;
    if (l->paused || !l->connected) {
        l->heard = uv_now(t->loop);
        watch_for(l, SILENT_MS);
    } else if (l->probing) {
        ck_fail(&err, 504, "bridge_timeout",
                "the session's process does not answer; try again, or delete the session and create a new one");
        fail(l, &err);
    } else if (silent < SILENT_MS) {
        watch_for(l, SILENT_MS - silent);
    } else {
        l->probing = true;
        watch_for(l, PROBE_MS);
        json_t *op = json_pack("{s:s,s:i}", "op", "info", "rid", PROBE_RID);
        l->mark_probe = true;
        bridge_link_op(l, op, NULL, 0, NULL);
        l->mark_probe = false;
    }
}

static void begin_watch(struct bridge_link *l)
{
    if (l->closed || uv_is_active((uv_handle_t *)&l->watch))
        return;
    l->heard = uv_now(l->pipe.loop);
    watch_for(l, SILENT_MS);
}

void bridge_link_patient(struct bridge_link *l)
{
    l->patient = true;
}

void bridge_link_watch(struct bridge_link *l, bool on)
{
    l->watched = on;
    if (on)
        begin_watch(l);
}

static bool fits(const char *socket_path)
{
    return strlen(socket_path) < sizeof((struct sockaddr_un *)0)->sun_path;
}

struct bridge_link *bridge_link_hold(uv_loop_t *loop, const struct bridge_link_events *ev, void *user, struct ck_err *err)
{
    struct bridge_link *l = calloc(1, sizeof *l);
    if (!l) {
        ck_fail(err, 503, "no_memory", "out of memory");
        return NULL;
    }
    l->ev = *ev;
    l->user = user;
    l->next_rid = 1;
    l->early_end = &l->early;
    uv_pipe_init(loop, &l->pipe, 0);
    uv_timer_init(loop, &l->timer);
    uv_timer_init(loop, &l->watch);
    l->watch.timer_cb = on_watch;
    l->pipe.data = l->timer.data = l->watch.data = l;
    l->open_handles = 3;
    return l;
}

void bridge_link_begin(struct bridge_link *l, const char *socket_path)
{
    struct ck_err err = CK_ERR_INIT;
    if (!fits(socket_path)) {
        ck_fail(&err, 500, "path_too_long", "the state folder's path is too long for a unix socket");
        fail(l, &err);
        return;
    }
    uv_timer_start(&l->timer, on_timer, CONNECT_MS, 0);
    uv_pipe_connect(&l->connect, &l->pipe, socket_path, on_connected);
}

void bridge_link_fail(struct bridge_link *l, const struct ck_err *err)
{
    fail(l, err);
}

void bridge_link_on_end(struct bridge_link *l, void (*ended)(void *owner), void *owner)
{
    l->ended = ended;
    l->owner = owner;
}

void *bridge_link_owner(const struct bridge_link *l)
{
    return l->owner;
}

struct bridge_link *bridge_link_open(uv_loop_t *loop, const char *socket_path,
                                     const struct bridge_link_events *ev, void *user, struct ck_err *err)
{
    if (!fits(socket_path)) {
        ck_fail(err, 500, "path_too_long", "the state folder's path is too long for a unix socket");
        return NULL;
    }
    struct bridge_link *l = bridge_link_hold(loop, ev, user, err);
    if (l)
        bridge_link_begin(l, socket_path);
    return l;
}

void bridge_link_rebind(struct bridge_link *l, const struct bridge_link_events *ev, void *user)
{
    l->ev = *ev;
    l->user = user;
}

bool bridge_link_idle(const struct bridge_link *l)
{
    return l->connected && !l->closed && !l->paused && !l->queued && !l->patient;
}

int bridge_link_send(struct bridge_link *l, struct ck_blob *frame)
{
    size_t done = frame && !l->closed && l->connected ? write_now(l, frame) : 0;
    if (frame && done == frame->n) {
        if (!l->mark_probe)
            moved(l);
        ck_blob_unref(frame);
        return 0;
    }
    struct write_req *w = frame && !l->closed ? calloc(1, sizeof *w) : NULL;
    if (!w || l->queued + frame->n > BRIDGE_LINK_QUEUE_MAX) {
        free(w);
        ck_blob_unref(frame);
        return -1;
    }
    w->link = l;
    w->probe = l->mark_probe;
    w->blob = frame;
    w->done = done;
    l->queued += frame->n;
    if (l->queued > BRIDGE_LINK_HIGH_WATER)
        l->over_mark = true;
    if (l->connected) {
        start_write(l, w);
    } else {
        *l->early_end = w;
        l->early_end = &w->next;
    }
    return l->over_mark;
}

int bridge_link_op(struct bridge_link *l, json_t *header, const struct ck_slice *parts, uint32_t nparts, int64_t *rid)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (rid && !json_object_get(header, "rid")) {
        *rid = l->next_rid++;
        json_object_set_new(header, "rid", json_integer(*rid));
    }
    int rc = ck_json_dump(header, &text);
    json_decref(header);
    if (rc)
        return -1;
    l->awaiting = true;
    begin_watch(l);
    return bridge_link_send(l, ck_frame_encode(ck_buf_slice(&text), parts, nparts));
}

size_t bridge_link_queued(const struct bridge_link *l)
{
    return l->queued;
}

void bridge_link_pause(struct bridge_link *l)
{
    if (l->closed || l->paused)
        return;
    l->paused = true;
    if (l->connected)
        uv_read_stop((uv_stream_t *)&l->pipe);
}

void bridge_link_resume(struct bridge_link *l)
{
    if (l->closed || !l->paused)
        return;
    l->paused = false;
    if (!l->connected)
        return;
    uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read);
    if (l->in.n && !l->delivering)
        uv_timer_start(&l->timer, on_timer, 0, 0);
}

bool bridge_error(const json_t *header, struct ck_err *out)
{
    const json_t *e = json_object_get(header, "error");
    if (!json_is_object(e))
        return false;
    int64_t status = ck_json_int(e, "status", 500, NULL);
    ck_fail(out, status >= 400 && status <= 599 ? (int)status : 500, ck_json_str(e, "reason", "session_failed", NULL), "%s",
            ck_json_str(e, "message", "the session could not do this", NULL));
    return true;
}
