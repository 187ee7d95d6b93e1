// POST /v1/sessions/{id}/cells: runs code and answers with the finished cell, or streams its events.
// The cell itself is cell_run.c's; this file reads the request and writes the answer.
#include "gateway/cell_run.h"
#include "gateway/cell_view.h"
#include "gateway/v1.h"

#include "common/ck_json.h"

#include <stdlib.h>
#include <string.h>

struct v1_run {
    struct http_req *r; // NULL when the client left while its answer was rewritten
    struct session *s;  // ref, once the cell has been sent
    struct cell_run *run;
    struct cell_view *view;
    struct v1_cell_body body; // until the run has it
    bool sse, streaming;
    struct v1_output output; // what is wanted of the finished cell
    uint64_t seq;
    struct ck_buf wanted;
};

static void run_free(struct v1_run *v)
{
    v1_cell_body_free(&v->body);
    v1_output_free(&v->output);
    ck_buf_free(&v->wanted);
    session_unref(v->s);
    free(v);
}

static void on_fail(void *user, const struct ck_err *err)
{
    struct v1_run *v = user;
    if (v->streaming) {
        json_t *o = json_pack("{s:s,s:s,s:s}", "type", "failed", "message", err->text, "reason", err->reason);
        struct ck_buf b = CK_BUF_INIT;
        ck_json_dump(o, &b);
        json_decref(o);
        http_sse_send(v->r, "failed", -1, b.p, b.n);
        ck_buf_free(&b);
        http_stream_end(v->r);
    } else {
        if (err->status == 429)
            http_header_add(v->r, "Retry-After", "1");
        v1_reply_err(v->r, err);
    }
    run_free(v);
}

static void reply_done(struct v1_run *v, uint64_t seq, struct ck_slice finished)
{
    if (v->streaming) {
        struct ck_buf b = CK_BUF_INIT;
        if (!ck_buf_add(&b, finished.p, finished.n))
            v1_flatten(&b, 0);
        http_sse_send(v->r, "done", seq ? (int64_t)seq : -1, b.p, b.n);
        ck_buf_free(&b);
        http_stream_end(v->r);
    } else {
        http_reply_bytes(v->r, 200, "application/json", finished.p, finished.n);
    }
    run_free(v);
}

// --- the cell as it is wanted --------------------------------------------------------------------------

static int view_make(void *user, const json_t *cell)
{
    struct v1_run *v = user;
    return ck_json_dump(cell, &v->wanted);
}

static void view_done(void *user, int rc)
{
    struct v1_run *v = user;
    struct ck_err err = CK_ERR_INIT;
    v->view = NULL;
    if (!v->r) {
        run_free(v);
    } else if (rc) {
        ck_fail(&err, 503, "no_memory",
                "the gateway is out of memory; the cell has ended: look for it with GET .../cells");
        on_fail(v, &err);
    } else {
        reply_done(v, v->seq, ck_buf_slice(&v->wanted));
    }
}

static const struct cell_view_events view_events = {.make = view_make, .done = view_done};

static void on_done(void *user, uint64_t seq, struct ck_slice finished)
{
    struct v1_run *v = user;
    v->run = NULL;
    if (!v->output.wanted) {
        reply_done(v, seq, finished);
        return;
    }
    v->seq = seq;
    v->view = cell_view_start(http_gateway(v->r), v->s, &v->output, finished, &view_events, v);
    if (!v->view)
        view_done(v, -1);
}

static int on_event(void *user, const json_t *h, const struct ck_frame *f, const struct v1_event *ev)
{
    struct v1_run *v = user;
    struct ck_buf b = CK_BUF_INIT;
    int full = v->streaming && !v1_event_json(h, f, ev, &b) &&
               http_sse_send(v->r, ev->type, ev->seq ? (int64_t)ev->seq : -1, b.p, b.n);
    ck_buf_free(&b);
    return full;
}

static void on_drain(struct http_req *r, void *user)
{
    (void)r;
    struct v1_run *v = user;
    if (v->run)
        cell_run_resume(v->run);
}

static void on_accepted(void *user)
{
    struct v1_run *v = user;
    http_header_add(v->r, "X-Cell-Id", cell_run_id(v->run));
    if (!v->sse)
        return;
    v->streaming = true;
    http_sse_begin(v->r);
    http_on_drain(v->r, on_drain);
    struct ck_buf b = CK_BUF_INIT;
    ck_buf_printf(&b, "{\"type\":\"queued\",\"cell\":\"%s\"}", cell_run_id(v->run));
    http_sse_send(v->r, "queued", -1, b.p, b.n);
    ck_buf_free(&b);
}

static const struct cell_run_events run_events = {
    .on_accepted = on_accepted, .on_event = on_event, .on_done = on_done, .on_fail = on_fail};

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    struct v1_run *v = user;
    v->r = NULL;
    if (v->view) {
        cell_view_hurry(v->view); // run_free() with its end
        return;
    }
    cell_run_leave(v->run);
    run_free(v);
}

static int parse(struct ck_slice body, void *user, struct ck_err *err)
{
    struct v1_run *v = user;
    return v1_cell_body_parse(body, &v->body, err);
}

static void parsed(struct http_req *r, void *user, int rc, const struct ck_err *err)
{
    struct v1_run *v = user;
    struct ck_err failed = CK_ERR_INIT;
    struct session *s = rc ? NULL : v1_session(r, true); // the session may have gone meanwhile
    if (rc) {
        on_fail(v, err);
        return;
    }
    if (!s) { // answered
        run_free(v);
        return;
    }
    v->output = v->body.output;
    memset(&v->body.output, 0, sizeof v->body.output);
    v->run = cell_run_start(http_gateway(r), s, &v->body, http_base_url(r), &run_events, v, &failed);
    if (!v->run) {
        on_fail(v, &failed);
        return;
    }
    v->s = session_ref(s);
    http_set_user(r, v);
    http_on_gone(r, on_gone);
}

void v1_cells_run(struct http_req *r)
{
    if (!v1_session(r, true))
        return;
    struct v1_run *v = calloc(1, sizeof *v);
    if (!v) {
        http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
        return;
    }
    v->r = r;
    v->sse = v1_wants_sse(r);
    v1_parse_body(r, parse, parsed, v);
}
