// One connection: frames in, answers and events out. Reading stops while an operation asks for it
// (a file's chunks under way) and while too many answers wait; writing takes answers first, then
// events straight from the log.
#include "kernel-bridge/conn.h"

#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"

#include <stdlib.h>

static void parse_input(struct conn *c);

struct conn *conn_new(struct service *s)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->s = s;
    c->in.cap = SVC_FRAME_MAX + 65536;
    uv_pipe_init(s->b->loop, &c->pipe, 0);
    c->pipe.data = c;
    c->write.data = c;
    return c;
}

static void on_closed(uv_handle_t *h)
{
    struct conn *c = h->data;
    for (unsigned i = 0; i < c->batch_n; i++)
        ck_blob_unref(c->batch[i]);
    for (size_t i = 0; i < c->out_n; i++)
        ck_blob_unref(c->out[(c->out_at + i) % c->out_room]);
    free(c->out);
    ck_buf_free(&c->in);
    free(c);
}

void conn_close(struct conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    svc_release_slot(c->s, c);
    conn_detach(c);
    while (c->jobs) {
        struct job *j = c->jobs;
        conn_job_remove(j);
        j->ops->conn_closed(j);
    }
    uv_close((uv_handle_t *)&c->pipe, on_closed);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct conn *c = h->data;
    (void)suggested;
    // Straight into the frame buffer: what is missing of a large frame in one go, up to a megabyte.
    size_t used = 0, want = 65536;
    struct ck_frame f;
    if (ck_frame_parse(c->in.p ? c->in.p : (const uint8_t *)"", c->in.n, SVC_FRAME_MAX, &f, &used, NULL) == 1 &&
        used > want)
        want = used < 1048576 ? used : 1048576;
    if (ck_buf_reserve(&c->in, want)) {
        *buf = uv_buf_init(NULL, 0);
        return;
    }
    *buf = uv_buf_init((char *)c->in.p + c->in.n,
                       (unsigned)(c->in.room - c->in.n < 1048576 ? c->in.room - c->in.n : 1048576));
}

static void on_read(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = h->data;
    (void)buf;
    if (n < 0) {
        conn_peer_gone(c);
        conn_close(c);
        return;
    }
    c->in.n += (size_t)n;
    parse_input(c);
}

static void set_reading(struct conn *c, bool on)
{
    if (c->closing || on == c->reading)
        return;
    c->reading = on;
    if (on)
        uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    else
        uv_read_stop((uv_stream_t *)&c->pipe);
}

static void parse_input(struct conn *c)
{
    size_t at = 0;
    c->parsing = true;
    while (!c->closing && !c->holds) {
        struct ck_frame f;
        size_t used;
        struct ck_err err = CK_ERR_INIT;
        int rc = ck_frame_parse(c->in.p + at, c->in.n - at, SVC_FRAME_MAX, &f, &used, &err);
        if (rc > 0)
            break;
        if (rc < 0 || !br_operation(c->s->b, c, &f)) {
            ck_log(CK_LOG_WARN, "bridge", "connection_closed reason=%s", rc < 0 ? err.reason : "bad_operation");
            conn_close(c);
            break;
        }
        at += used;
    }
    c->parsing = false;
    if (at)
        ck_buf_consume(&c->in, at);
    if (!c->in.n && c->in.room > 262144)
        ck_buf_free(&c->in);
    set_reading(c, !c->holds);
}

void conn_start(struct conn *c)
{
    if (c->s->held)
        c->holds++;
    set_reading(c, !c->holds);
}

void conn_hold(struct conn *c)
{
    c->holds++;
    set_reading(c, false);
}

void conn_release(struct conn *c)
{
    c->holds--;
    if (!c->holds && !c->closing && !c->parsing) // while parsing, that loop goes on by itself
        parse_input(c);
}

static bool push_out(struct conn *c, struct ck_blob *frame)
{
    if (c->out_n == c->out_room) {
        size_t room = c->out_room ? c->out_room * 2 : 16;
        struct ck_blob **bigger = malloc(room * sizeof *bigger);
        if (!bigger)
            return false;
        for (size_t i = 0; i < c->out_n; i++)
            bigger[i] = c->out[(c->out_at + i) % c->out_room];
        free(c->out);
        c->out = bigger;
        c->out_room = room;
        c->out_at = 0;
    }
    c->out[(c->out_at + c->out_n++) % c->out_room] = frame;
    c->out_bytes += frame->n;
    return true;
}

void conn_send(struct conn *c, struct ck_blob *frame)
{
    if (c->closing || !frame || c->out_bytes + frame->n > SVC_QUEUE_MAX || !push_out(c, frame)) {
        ck_blob_unref(frame);
        if (!c->closing)
            conn_close(c);
        return;
    }
    conn_pump(c);
}

static void drop_batch(struct conn *c)
{
    for (unsigned i = 0; i < c->batch_n; i++)
        ck_blob_unref(c->batch[i]);
    c->batch_n = 0;
}

static void on_written(uv_write_t *w, int status)
{
    struct conn *c = w->data;
    drop_batch(c);
    if (status < 0 && c->reading && !c->closing)
        return; // its last words may still be unread: the end is found by reading
    c->writing = false;
    if (status < 0)
        conn_close(c);
    if (c->closing)
        return;
    conn_pump(c);
    for (struct job *j = c->jobs, *next; j && !c->closing && c->out_bytes < SVC_QUEUE_HIGH; j = next) {
        next = j->next;
        if (j->ops->drained)
            j->ops->drained(j);
    }
}

static struct ck_blob *next_frame(struct conn *c, size_t bytes)
{
    if (c->out_n) {
        struct ck_blob *b = c->out[c->out_at];
        c->out_at = (c->out_at + 1) % c->out_room;
        c->out_n--;
        c->out_bytes -= b->n;
        return b;
    }
    return c->attached && bytes < CONN_BATCH_BYTES ? conn_next_event(c) : NULL;
}

static size_t gather(struct conn *c, uv_buf_t bufs[CONN_BATCH_MAX])
{
    size_t bytes = 0;
    while (c->batch_n < CONN_BATCH_MAX) {
        struct ck_blob *b = next_frame(c, bytes);
        if (!b)
            break;
        bufs[c->batch_n] = uv_buf_init((char *)b->p, (unsigned)b->n);
        c->batch[c->batch_n++] = b;
        bytes += b->n;
    }
    return bytes;
}

// What the socket takes at once: nearly always all of it, without a turn of the loop. Not while jobs
// wait to be told that something went out. Returns how many of bufs are done; what is left of the next
// one is in it.
static unsigned write_now(struct conn *c, uv_buf_t *bufs)
{
    int n = c->jobs ? 0 : uv_try_write((uv_stream_t *)&c->pipe, bufs, c->batch_n);
    size_t left = n > 0 ? (size_t)n : 0;
    unsigned i = 0;
    for (; i < c->batch_n && left >= bufs[i].len; i++)
        left -= bufs[i].len;
    if (left) {
        bufs[i].base += left;
        bufs[i].len -= left;
    }
    return i;
}

void conn_pump(struct conn *c)
{
    uv_buf_t bufs[CONN_BATCH_MAX];
    for (int at_once = 0; !c->writing && !c->closing && gather(c, bufs); at_once++) {
        unsigned done = at_once < CONN_AT_ONCE ? write_now(c, bufs) : 0;
        if (done == c->batch_n) {
            drop_batch(c);
            continue;
        }
        c->writing = true;
        if (uv_write(&c->write, (uv_stream_t *)&c->pipe, bufs + done, c->batch_n - done, on_written)) {
            c->writing = false;
            conn_close(c);
        }
    }
}

int conn_job_add(struct conn *c, struct job *j, int64_t rid, const struct job_ops *ops, struct ck_err *err)
{
    if (c->njobs == SVC_JOBS_MAX)
        return ck_fail(err, 429, "too_many_jobs", "at most %d transfers and commands share a connection", SVC_JOBS_MAX);
    *j = (struct job){c->jobs, ops, c, rid};
    c->jobs = j;
    c->njobs++;
    return 0;
}

void conn_job_remove(struct job *j)
{
    struct conn *c = j->conn;
    for (struct job **at = &c->jobs; *at; at = &(*at)->next)
        if (*at == j) {
            *at = j->next;
            c->njobs--;
            return;
        }
}

struct job *conn_job(const struct conn *c, int64_t rid)
{
    struct job *j = c->jobs;
    while (j && j->rid != rid)
        j = j->next;
    return j;
}

size_t conn_queued(const struct conn *c) { return c->out_bytes; }
struct service *conn_service(const struct conn *c) { return c->s; }
struct reply_to conn_reply_to(const struct conn *c, int64_t rid)
{
    return (struct reply_to){c->slot, c->generation, rid};
}
