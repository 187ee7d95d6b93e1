// POST /v1/sessions/{id}/cells: runs code and answers with the finished cell, or streams its events.
//
// One run owns one link to the bridge: execute, then attach to that cell's events from its own
// sequence number, so nothing is missed in between. A client that leaves does not end its cell: the
// link is closed and the bridge goes on, or, when the request brought lines for input(), the run
// stays until the cell ends to hand them out. What the client does not take stays in the bridge's log;
// a bounded copy of the output is kept for the case that the bridge dies (v1_partial.h).
#include "gateway/v1.h"

#include "common/ck_json.h"
#include "common/ck_time.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_event.h"
#include "gateway/v1_partial.h"

#include <stdlib.h>

#define EOF_OF_INPUT "\x04" // ipykernel raises EOFError for it

struct v1_run {
    struct http_req *r; // NULL when the client has left
    struct gateway *gw;
    struct session *s; // ref
    struct bridge_link *link;
    struct v1_deadline *deadline; // for the bridge to accept the cell; the cell has its own
    struct v1_cell_body body;
    size_t next_line;
    bool sse, accepted, streaming;
    int64_t execute_rid, attach_rid, query_rid, stdin_rid;
    char cell[CK_UUID_MAX];
    uint64_t first_seq, gap_from, gap_to;
    struct v1_partial partial;
};

static void run_free(struct v1_run *run)
{
    bridge_link_close(run->link);
    v1_deadline_free(run->deadline);
    session_unref(run->s);
    v1_cell_body_free(&run->body);
    v1_partial_free(&run->partial);
    free(run);
}

static void run_fail(struct v1_run *run, const struct ck_err *err)
{
    if (run->r && run->streaming) {
        json_t *o = json_pack("{s:s,s:s,s:s}", "type", "failed", "message", err->text, "reason", err->reason);
        struct ck_buf b = CK_BUF_INIT;
        ck_json_dump(o, &b);
        json_decref(o);
        http_sse_send(run->r, "failed", -1, b.p, b.n);
        ck_buf_free(&b);
        http_stream_end(run->r);
    } else if (run->r) {
        if (err->status == 429)
            http_header_add(run->r, "Retry-After", "1");
        v1_reply_err(run->r, err);
    }
    run_free(run);
}

// The end: `finished` is the cell as JSON.
static void run_done(struct v1_run *run, uint64_t seq, struct ck_slice finished)
{
    if (run->r && run->streaming) {
        struct ck_buf b = CK_BUF_INIT;
        if (!ck_buf_add(&b, finished.p, finished.n))
            v1_flatten(&b, 0);
        http_sse_send(run->r, "done", seq ? (int64_t)seq : -1, b.p, b.n);
        ck_buf_free(&b);
        http_stream_end(run->r);
    } else if (run->r) {
        http_reply_bytes(run->r, 200, "application/json", finished.p, finished.n);
    }
    run_free(run);
}

// The bridge went away before it could report the cell's end, and with it the VM. The client gets an
// ending all the same, in the shape of every other, with the output that had arrived.
static void run_lost(struct v1_run *run)
{
    const struct v1_partial *p = &run->partial;
    bool ended = run->s->deleted; // on purpose; the bridge did not answer in time, so it was killed
    char detail[320];
    snprintf(detail, sizeof detail, "%s %s; what had arrived of its output is here",
             !ended                ? "the session's process ended unexpectedly"
             : run->gw->draining   ? "the gateway was stopped with --on-exit kill, which ended the session,"
                                   : "the session was deleted",
             p->started_ms ? "while the cell ran" : "before the cell began");
    struct v1_partial_end end = {.cell = run->cell,
                                 .status = ended ? "cancelled" : "vm_died",
                                 .exit_code = ended ? 130 : 137,
                                 .detail = detail,
                                 .seq = run->first_seq,
                                 .wall_ms = p->started_ms ? ck_mono_ms() - p->started_ms : 0};
    struct ck_buf b = CK_BUF_INIT;
    struct ck_err err = CK_ERR_INIT;
    if (v1_partial_json(p, &end, &b)) {
        ck_fail(&err, 503, "no_memory", "%s", detail);
        run_fail(run, &err);
    } else {
        run_done(run, 0, ck_buf_slice(&b));
    }
    ck_buf_free(&b);
}

static void run_answer_input(struct v1_run *run)
{
    if (run->body.stdin_mode != V1_STDIN_LINES)
        return; // the client answers, with POST .../stdin
    const char *value = EOF_OF_INPUT;
    if (run->next_line < json_array_size(run->body.lines))
        value = json_string_value(json_array_get(run->body.lines, run->next_line++));
    json_t *op = json_pack("{s:s,s:s,s:s}", "op", "stdin", "cell", run->cell, "value", value);
    bridge_link_op(run->link, op, NULL, 0, &run->stdin_rid);
}

static void run_send_event(struct v1_run *run, const json_t *h, const struct ck_frame *f, const struct v1_event *ev)
{
    struct ck_buf b = CK_BUF_INIT;
    if (!v1_event_json(h, f, ev, &b) && http_sse_send(run->r, ev->type, ev->seq ? (int64_t)ev->seq : -1, b.p, b.n))
        bridge_link_pause(run->link);
    ck_buf_free(&b);
}

// The log dropped events, the end of this cell perhaps among them: ask.
static void run_after_gap(struct v1_run *run, const struct v1_event *ev)
{
    run->gap_from = ev->gap_from;
    run->gap_to = ev->gap_to;
    bridge_link_op(run->link, json_pack("{s:s,s:s}", "op", "cell", "cell", run->cell), NULL, 0, &run->query_rid);
}

// True when the run has ended and is gone.
static bool run_query_answer(struct v1_run *run, const struct ck_frame *f)
{
    if (f->nparts < 2)
        return false; // still queued or running: its end is still to come
    struct ck_slice finished = ck_frame_part(f, 1);
    json_t *o = json_loadb((const char *)finished.p, finished.n, 0, NULL);
    uint64_t last = (uint64_t)json_integer_value(json_array_get(json_object_get(o, "seq"), 1));
    json_decref(o);
    if (last < run->gap_from || last > run->gap_to)
        return false; // its end is behind the gap and will be read
    run_done(run, last, finished);
    return true;
}

static void run_event(struct v1_run *run, const json_t *h, const struct ck_frame *f)
{
    struct v1_event ev;
    if (v1_event_read(h, f, &ev) || (ev.cell[0] && strcmp(ev.cell, run->cell)))
        return;
    if (ev.kind == V1_EVENT_DONE) {
        run_done(run, ev.seq, ev.finished);
        return;
    }
    if (ev.kind == V1_EVENT_SKIP)
        return;
    if (run->r)
        v1_partial_take(&run->partial, f, &ev, ck_mono_ms());
    if (run->r && run->streaming)
        run_send_event(run, h, f, &ev);
    if (ev.kind == V1_EVENT_INPUT)
        run_answer_input(run);
    else if (ev.kind == V1_EVENT_GAP)
        run_after_gap(run, &ev);
}

static void on_drain(struct http_req *r, void *user)
{
    (void)r;
    struct v1_run *run = user;
    bridge_link_resume(run->link);
}

static void run_accepted(struct v1_run *run, const json_t *h)
{
    if (!run->r && run->body.stdin_mode != V1_STDIN_LINES) {
        run_free(run); // the client left before its cell was accepted; it runs all the same
        return;
    }
    run->accepted = true;
    v1_deadline_stop(run->deadline);
    run->first_seq = (uint64_t)ck_json_int(h, "seq", 0, NULL);
    json_t *op = json_pack("{s:s,s:s,s:I,s:s}", "op", "attach", "mode", "cell", "from", (json_int_t)run->first_seq,
                           "cell", run->cell);
    bridge_link_op(run->link, op, NULL, 0, &run->attach_rid);
    bridge_link_watch(run->link, true);
    if (!run->r)
        return;
    http_header_add(run->r, "X-Cell-Id", run->cell);
    if (!run->sse)
        return;
    run->streaming = true;
    http_sse_begin(run->r);
    http_on_drain(run->r, on_drain);
    struct ck_buf b = CK_BUF_INIT;
    ck_buf_printf(&b, "{\"type\":\"queued\",\"cell\":\"%s\"}", run->cell);
    http_sse_send(run->r, "queued", -1, b.p, b.n);
    ck_buf_free(&b);
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct v1_run *run = user;
    struct ck_err err = CK_ERR_INIT;
    json_t *re = json_object_get(h, "re");
    if (!re) {
        run_event(run, h, f);
        return;
    }
    int64_t rid = json_integer_value(re);
    bool failed = bridge_error(h, &err);
    if (failed && (rid == run->execute_rid || rid == run->attach_rid))
        run_fail(run, &err);
    else if (!failed && rid == run->execute_rid)
        run_accepted(run, h);
    else if (!failed && rid == run->query_rid)
        run_query_answer(run, f);
    // A refused answer to input() needs nothing: the cell was interrupted meanwhile, its end follows.
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_run *run = user;
    struct ck_err hangs = CK_ERR_INIT;
    run->link = NULL;
    if (run->accepted && err->status == 504) {
        ck_fail(&hangs, 504, err->reason, "%s; the cell has been accepted: look for it with GET .../cells/%s", err->text,
                run->cell);
        run_fail(run, &hangs);
    } else if (run->accepted) {
        run_lost(run);
    } else {
        run_fail(run, err);
    }
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    struct v1_run *run = user;
    run->r = NULL;
    bool lines_left = run->body.stdin_mode == V1_STDIN_LINES;
    if ((lines_left || !run->accepted) && !run->gw->draining)
        bridge_link_resume(run->link); // what waited for the client's queue need not wait any more
    else
        run_free(run);
}

static void expired(void *user, const struct ck_err *err) { run_fail(user, err); }

static void run_start(struct v1_run *run)
{
    struct ck_err err = CK_ERR_INIT;
    run->link = session_link_open(run->s, SESSION_LINK_REQUEST, &link_events, run, &err);
    if (!run->link) {
        run_fail(run, &err);
        return;
    }
    json_t *op = json_pack("{s:s,s:s,s:I,s:b,s:b,s:s}", "op", "execute", "cell", run->cell, "timeout_ms",
                           (json_int_t)run->body.timeout_ms, "silent", run->body.silent, "allow_stdin",
                           run->body.stdin_mode != V1_STDIN_NONE, "url_prefix", http_base_url(run->r));
    struct ck_slice code = {(const uint8_t *)run->body.code, run->body.code_n};
    if (bridge_link_op(run->link, op, &code, 1, &run->execute_rid) < 0) {
        ck_fail(&err, 503, "no_memory", "the code could not be sent to the session: try again");
        run_fail(run, &err);
        return;
    }
    run->deadline = v1_deadline_new(run->gw->loop, expired, run);
    v1_deadline_arm_after(run->deadline, session_wait_ms(run->s));
    session_touch(run->s);
    json_decref(run->body.body); // the code is on its way; up to 32 MiB need not wait for the cell
    run->body.body = NULL;
    http_set_user(run->r, run);
    http_on_gone(run->r, on_gone);
}

static int parse(struct ck_slice body, void *user, struct ck_err *err)
{
    struct v1_run *run = user;
    return v1_cell_body_parse(body, &run->body, err);
}

static void parsed(struct http_req *r, void *user, int rc, const struct ck_err *err)
{
    struct v1_run *run = user;
    struct session *s = rc ? NULL : v1_session(r, true); // the session may have gone meanwhile
    if (rc) {
        run_fail(run, err);
    } else if (!s) {
        run->r = NULL; // answered
        run_free(run);
    } else {
        run->s = session_ref(s);
        run_start(run);
    }
}

void v1_cells_run(struct http_req *r)
{
    if (!v1_session(r, true))
        return;
    struct v1_run *run = calloc(1, sizeof *run);
    if (!run) {
        http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
        return;
    }
    run->r = r;
    run->gw = http_gateway(r);
    run->sse = v1_wants_sse(r);
    run->execute_rid = run->attach_rid = run->query_rid = run->stdin_rid = -1;
    ck_uuid4(run->cell);
    v1_parse_body(r, parse, parsed, run);
}
