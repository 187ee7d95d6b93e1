// Files between gateway and agent. Single questions are relayed; contents stream in chunks with a
// few under way, so that neither a large file nor a slow client ever fills memory. An upload becomes
// visible with its commit or not at all.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_name.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/fileinfo.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK BOP_CHUNK_MAX
#define WINDOW 4 // chunks under way
#define FILE_MS 30000

struct relay {
    struct bridge *b;
    struct reply_to to;
    char *moved_to; // of file_move, else NULL
};

// What of the agent's answer goes to the client, as fields of ours.
static int answer_fields(const json_t *answer, struct ck_buf *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    const json_t *stat = json_object_get(answer, "stat"), *entries = json_object_get(answer, "entries");
    const json_t *created = json_object_get(answer, "created");
    json_t *clean = stat ? fileinfo_stat(stat) : entries ? fileinfo_entries(entries) : json_true();
    json_t *o = clean ? json_pack("{s:o}", stat ? "stat" : entries ? "entries" : "ok", clean) : NULL;
    if (o && entries && !stat)
        json_object_set_new(o, "truncated", json_boolean(json_is_true(json_object_get(answer, "truncated"))));
    if (o && json_is_boolean(created))
        json_object_set_new(o, "created", json_boolean(json_is_true(created)));
    int bad = !o || ck_json_dump(o, &text) || ck_buf_add(out, text.p + 1, text.n - 2);
    json_decref(o);
    return bad ? ck_fail(err, 502, "bad_agent", "the VM's agent said about this file what cannot be") : 0;
}

static void relay_answer(struct bridge *b, struct reply_to to, const json_t *answer, const struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf f = CK_BUF_INIT;
    struct ck_err e = CK_ERR_INIT;
    if (!err && !answer_fields(answer, &f, &e) && f.n > CK_FRAME_HEADER_MAX - 256)
        ck_fail(&e, 507, "answer_too_large", "the answer is too large; list fewer entries at a time (\"limit\")");
    if (!err && e.status)
        err = &e;
    if (err)
        svc_reply_error(b->svc, to, err);
    else
        svc_reply(b->svc, to, ck_buf_slice(&f), NULL, 0);
}

static void relayed(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct relay *r = user;
    (void)payload;
    if (!err && r->moved_to)
        br_client_wrote(r->b, r->moved_to, answer);
    relay_answer(r->b, r->to, answer, err);
    free(r->moved_to);
    free(r);
}

// A request of the agent about a path, whatever bytes it has. NULL = no memory.
static json_t *path_request(const char *op, const char *key, const char *path)
{
    json_t *o = json_pack("{s:s}", "op", op);
    if (!o || !ck_name_set(o, key, path))
        return o;
    json_decref(o);
    return NULL;
}

static json_t *relay_request(const struct bop *op)
{
    bool move = op->kind == BOP_FILE_MOVE;
    const char *word = op->kind == BOP_FILE_STAT     ? "stat"
                       : op->kind == BOP_FILE_REMOVE ? "remove"
                       : op->kind == BOP_FILE_MKDIR  ? "mkdir"
                       : move                        ? "move"
                                                     : "list";
    json_t *o = path_request(word, move ? "from" : "path", op->path);
    if (move && o && ck_name_set(o, "to", op->to)) {
        json_decref(o);
        return NULL;
    }
    if (o && op->kind == BOP_FILE_REMOVE)
        json_object_set_new(o, "recursive", json_boolean(op->recursive));
    if (o && op->kind == BOP_FILE_LIST && op->limit >= 0)
        json_object_set_new(o, "limit", json_integer(op->limit));
    return o;
}

int br_file_relay(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    if (br_check_alive(b, err))
        return -1;
    struct relay *r = calloc(1, sizeof *r);
    if (!r)
        return ck_fail(err, 500, "no_memory", "no memory for another request");
    *r = (struct relay){b, conn_reply_to(c, op->rid), op->kind == BOP_FILE_MOVE ? strdup(op->to) : NULL};
    br_active(b);
    if (ac_request(b->ac, relay_request(op), ck_slice("", 0), FILE_MS, relayed, r, err) < 0) {
        free(r->moved_to);
        free(r);
        return -1;
    }
    return 0;
}

// ---- reading ----

struct reading {
    struct job job; // first
    struct bridge *b;
    struct reply_to to;
    char *path;
    char etag[208];
    int64_t want, next, end; // want: -1 = to the end of the file; next: offset of the next request
    unsigned under_way;
    bool first_seen, orphan; // orphan: nobody listens any more
};

static void reading_free(struct reading *r)
{
    if (r->under_way)
        return; // its answers still name it
    free(r->path);
    free(r);
}

static void reading_end(struct reading *r)
{
    if (!r->orphan)
        conn_job_remove(&r->job);
    r->orphan = true;
    reading_free(r);
}

// The answer comes last: writing it may close the connection, which ends all of its jobs.
static void reading_fail(struct reading *r, const struct ck_err *err)
{
    struct service *svc = r->orphan ? NULL : r->b->svc;
    struct reply_to to = r->to;
    reading_end(r);
    svc_reply_error(svc, to, err);
}

static void reading_more(struct reading *r);

static void send_chunk(struct reading *r, struct ck_slice data, bool last)
{
    svc_reply(r->b->svc, r->to, ck_slice_str(last ? "\"data\":true,\"last\":true" : "\"data\":true"), &data, 1);
}

struct chunk {
    struct reading *r;
    int64_t offset, length;
};

// As much as was asked for, up to the end of the file: less means that the file is not what it was.
static int chunk_whole(const struct reading *r, const struct chunk *k, struct ck_slice *data, struct ck_err *err)
{
    int64_t expect = k->length < r->end - k->offset ? k->length : r->end - k->offset;
    if (data->n > (size_t)expect)
        data->n = (size_t)expect;
    if (data->n < (size_t)expect)
        return ck_fail(err, 409, "file_changed", "the file became shorter while it was read");
    return 0;
}

// The first answer tells the file's size: how much there will be. It is passed on with the first bytes, as long
// as the client can still be told of an error.
static int reading_begin(struct reading *r, const json_t *stat, const struct chunk *k, struct ck_slice *data,
                         struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf f = CK_BUF_INIT;
    int64_t size = ck_json_int(stat, "size", -1, NULL), start = k->offset < size ? k->offset : size;
    if (size < 0)
        return ck_fail(err, 502, "bad_agent", "the VM's agent gave no size");
    r->end = r->want < 0 || r->want > size - start ? size : start + r->want;
    snprintf(r->etag, sizeof r->etag, "%s", ck_json_str(stat, "etag", "", NULL));
    if (r->end > start && chunk_whole(r, k, data, err))
        return -1;
    if (ck_buf_add_str(&f, "\"stat\":") || ck_json_dump(stat, &f) ||
        ck_buf_printf(&f, ",\"length\":%" PRId64, r->end - start))
        return ck_fail(err, 500, "no_memory", "no memory for an answer");
    r->first_seen = true;
    svc_reply(r->b->svc, r->to, ck_buf_slice(&f), NULL, 0);
    if (r->end <= start)
        send_chunk(r, ck_slice("", 0), true);
    return 0;
}

// 1 = there are no bytes to send.
static int chunk_check(struct reading *r, const struct chunk *k, const json_t *answer, struct ck_slice *data,
                       struct ck_err *err)
{
    const json_t *said = ck_json_obj(answer, "stat", NULL);
    if (!said)
        return ck_fail(err, 502, "bad_agent", "the VM's agent gave no file status");
    if (!r->first_seen) {
        json_t *stat = fileinfo_stat(said);
        int rc = reading_begin(r, stat, k, data, err);
        json_decref(stat);
        return rc ? rc : r->end <= k->offset;
    }
    if (strcmp(ck_json_str(said, "etag", "", NULL), r->etag))
        return ck_fail(err, 409, "file_changed", "the file changed while it was read");
    return chunk_whole(r, k, data, err);
}

static void chunk_read(void *user, const json_t *answer, struct ck_slice data, const struct ck_err *err)
{
    struct chunk k = *(struct chunk *)user;
    struct reading *r = k.r;
    struct ck_err e = CK_ERR_INIT;
    free(user);
    // It counts as under way until the end of this function, which keeps r while answers are sent.
    int rc = r->orphan ? 1 : err ? -1 : chunk_check(r, &k, answer, &data, &e);
    bool last = rc > 0 || k.offset + (int64_t)data.n == r->end;
    if (!rc)
        send_chunk(r, data, last);
    r->under_way--;
    if (r->orphan)
        reading_free(r);
    else if (rc < 0)
        reading_fail(r, err ? err : &e);
    else if (last)
        reading_end(r);
    else
        reading_more(r);
}

static int request_chunk(struct reading *r, struct ck_err *err)
{
    struct chunk *k = malloc(sizeof *k);
    json_t *o = k ? path_request("read", "path", r->path) : NULL;
    if (!o || json_object_set_new(o, "offset", json_integer(r->next))) {
        json_decref(o);
        free(k);
        return ck_fail(err, 500, "no_memory", "no memory for another request");
    }
    int64_t most = r->first_seen ? r->end - r->next : r->want < 0 ? CHUNK : r->want;
    *k = (struct chunk){r, r->next, most < CHUNK ? most : CHUNK};
    json_object_set_new(o, "length", json_integer(k->length));
    if (r->etag[0])
        json_object_set_new(o, "etag", json_string(r->etag));
    if (ac_request(r->b->ac, o, ck_slice("", 0), FILE_MS, chunk_read, k, err) < 0) {
        free(k);
        return -1;
    }
    r->next += k->length;
    r->under_way++;
    return 0;
}

static void reading_more(struct reading *r)
{
    struct ck_err err = CK_ERR_INIT;
    while (r->first_seen && r->next < r->end && r->under_way < WINDOW && conn_queued(r->job.conn) < SVC_QUEUE_HIGH)
        if (request_chunk(r, &err)) {
            reading_fail(r, &err);
            return;
        }
}

static void reading_closed(struct job *j)
{
    struct reading *r = (struct reading *)j;
    r->orphan = true;
    reading_free(r);
}

static void reading_drained(struct job *j) { reading_more((struct reading *)j); }
static void no_data(struct job *j, const struct bop *op)
{
    (void)j;
    (void)op;
}
static const struct job_ops reading_ops = {reading_closed, reading_drained, no_data};

int br_file_read(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    if (br_check_alive(b, err))
        return -1;
    struct reading *r = calloc(1, sizeof *r);
    if (r)
        r->path = strdup(op->path);
    if (!r || !r->path || conn_job_add(c, &r->job, op->rid, &reading_ops, err)) {
        if (r)
            free(r->path);
        free(r);
        return err->status ? -1 : ck_fail(err, 500, "no_memory", "no memory for a transfer");
    }
    r->b = b;
    r->to = conn_reply_to(c, op->rid);
    r->next = op->offset;
    r->want = op->length;
    snprintf(r->etag, sizeof r->etag, "%s", op->etag);
    br_active(b);
    if (request_chunk(r, err)) {
        reading_end(r);
        return -1;
    }
    return 0;
}

// ---- writing ----

struct writing {
    struct job job; // first
    struct bridge *b;
    struct reply_to to;
    char *path;
    int64_t handle;     // -1 = not open yet
    unsigned under_way; // chunks
    bool opening, committing, data_end, held, failed, orphan;
};

static void writing_abort_answered(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    (void)user;
    (void)answer;
    (void)payload;
    if (err && err->status != 410)
        ck_log(CK_LOG_WARN, "bridge", "write_abort_failed reason=%s", err->reason);
}

static void writing_hold(struct writing *w, bool hold)
{
    if (w->held == hold || w->orphan)
        return;
    w->held = hold;
    if (hold)
        conn_hold(w->job.conn);
    else
        conn_release(w->job.conn);
}

static void writing_free(struct writing *w)
{
    if (w->opening || w->committing || w->under_way)
        return;
    free(w->path);
    free(w);
}

// Ends the transfer; without a commit the agent's temporary file goes.
static void writing_end(struct writing *w, bool abort)
{
    struct ck_err err = CK_ERR_INIT;
    if (abort && w->handle >= 0 && w->b->ac) {
        json_t *o = json_pack("{s:s,s:I}", "op", "write_abort", "handle", (json_int_t)w->handle);
        if (ac_request(w->b->ac, o, ck_slice("", 0), FILE_MS, writing_abort_answered, NULL, &err) < 0)
            ck_log(CK_LOG_WARN, "bridge", "write_abort_failed reason=%s", err.reason);
        w->handle = -1;
    }
    struct conn *held = w->held && !w->orphan ? w->job.conn : NULL;
    if (!w->orphan)
        conn_job_remove(&w->job);
    w->failed = w->orphan = true;
    w->held = false;
    writing_free(w);
    if (held)
        conn_release(held);
}

// As with reading: the answer comes last.
static void writing_fail(struct writing *w, const struct ck_err *err)
{
    struct service *svc = w->orphan ? NULL : w->b->svc;
    struct reply_to to = w->to;
    writing_end(w, true);
    svc_reply_error(svc, to, err);
}

static void committed(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct writing *w = user;
    (void)payload;
    struct bridge *b = w->b;
    struct reply_to to = w->to;
    bool tell = !w->orphan;
    w->committing = false;
    if (!err)
        br_client_wrote(b, w->path, answer);
    writing_end(w, false);
    if (tell)
        relay_answer(b, to, answer, err);
}

static void commit(struct writing *w)
{
    struct ck_err err = CK_ERR_INIT;
    json_t *o = json_pack("{s:s,s:I}", "op", "write_commit", "handle", (json_int_t)w->handle);
    w->committing = true;
    if (ac_request(w->b->ac, o, ck_slice("", 0), FILE_MS, committed, w, &err) < 0) {
        w->committing = false;
        writing_fail(w, &err);
    }
}

static void chunk_written(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct writing *w = user;
    (void)answer;
    (void)payload;
    w->under_way--;
    if (w->failed || w->orphan)
        writing_free(w);
    else if (err)
        writing_fail(w, err);
    else if (w->data_end && !w->under_way)
        commit(w);
    else if (w->under_way < WINDOW)
        writing_hold(w, false);
}

static void opened(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct writing *w = user;
    (void)payload;
    w->opening = false;
    if (!err)
        w->handle = ck_json_int(answer, "handle", -1, NULL);
    if (w->orphan) {
        writing_end(w, true);
    } else if (err) {
        writing_fail(w, err);
    } else {
        svc_reply(w->b->svc, w->to, ck_slice_str("\"ok\":true,\"go\":true"), NULL, 0);
    }
}

static void writing_data(struct job *j, const struct bop *op)
{
    struct writing *w = (struct writing *)j;
    struct ck_err err = CK_ERR_INIT;
    if (op->kind == BOP_DATA_ABORT) {
        ck_fail(&err, 400, "aborted", "the upload was aborted");
        writing_fail(w, &err);
    } else if (w->handle < 0 || w->data_end) {
        ck_fail(&err, 409, "bad_transfer", "data came before \"go\" or after \"data_end\"");
        writing_fail(w, &err);
    } else if (op->kind == BOP_DATA_END) {
        w->data_end = true;
        if (!w->under_way)
            commit(w);
    } else {
        json_t *o = json_pack("{s:s,s:I}", "op", "write", "handle", (json_int_t)w->handle);
        if (ac_request(w->b->ac, o, ck_frame_part(&op->frame, 1), FILE_MS, chunk_written, w, &err) < 0) {
            writing_fail(w, &err);
            return;
        }
        if (++w->under_way == WINDOW)
            writing_hold(w, true);
    }
}

static void writing_closed(struct job *j)
{
    struct writing *w = (struct writing *)j;
    w->orphan = true;
    w->held = false;
    if (!w->committing && !w->opening) // a commit under way is let through: the bytes were all here
        writing_end(w, true);
}

static const struct job_ops writing_ops = {writing_closed, NULL, writing_data};

int br_file_write(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    if (br_check_alive(b, err))
        return -1;
    struct writing *w = calloc(1, sizeof *w);
    if (w)
        w->path = strdup(op->path);
    if (!w || !w->path || conn_job_add(c, &w->job, op->rid, &writing_ops, err)) {
        if (w)
            free(w->path);
        free(w);
        return err->status ? -1 : ck_fail(err, 500, "no_memory", "no memory for a transfer");
    }
    w->b = b;
    w->to = conn_reply_to(c, op->rid);
    w->handle = -1;
    json_t *o = path_request("write_open", "path", op->path);
    if (o && op->file_mode >= 0)
        json_object_set_new(o, "mode", json_integer(op->file_mode));
    br_active(b);
    w->opening = true;
    if (ac_request(b->ac, o, ck_slice("", 0), FILE_MS, opened, w, err) < 0) {
        w->opening = false;
        writing_end(w, false);
        return -1;
    }
    return 0;
}
