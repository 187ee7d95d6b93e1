// The way of one cell: one operation that runs it and attaches the link to its events from their first
// number, so nothing is missed in between. The link is the session's kept one, or a new one while that is
// in use. A client that leaves does not end its cell: the
// link is closed and the bridge goes on, or, when the request brought lines for input(), the run
// stays until the cell ends to hand them out. What the client does not take stays in the bridge's log;
// a bounded copy of the output is kept for the case that the bridge dies (v1_partial.h).
#include "gateway/cell_run.h"

#include "common/ck_json.h"
#include "common/ck_time.h"
#include "gateway/life.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_partial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EOF_OF_INPUT "\x04" // ipykernel raises EOFError for it

struct cell_run {
    struct gateway *gw;
    struct session *s; // ref
    struct bridge_link *link;
    struct v1_deadline *deadline; // for the bridge to accept the cell; the cell has its own
    struct v1_cell_body body;
    const struct cell_run_events *ev; // NULL when nobody waits any more
    void *user;
    size_t next_line;
    bool accepted;
    int64_t execute_rid, attach_rid, query_rid, stdin_rid;
    char cell[CK_UUID_MAX];
    uint64_t first_seq, gap_from, gap_to;
    struct v1_partial partial;
};

static void run_free(struct cell_run *run)
{
    bridge_link_close(run->link);
    v1_deadline_free(run->deadline);
    session_unref(run->s);
    v1_cell_body_free(&run->body);
    v1_partial_free(&run->partial);
    free(run);
}

// The bridge has sent the last that it has for the cell. What it sent is still there to be read.
static void run_release(struct cell_run *run)
{
    struct bridge_link *l = run->link;
    run->link = NULL;
    session_link_give(l);
}

static void run_fail(struct cell_run *run, const struct ck_err *err)
{
    if (run->ev)
        run->ev->on_fail(run->user, err);
    run_free(run);
}

static void run_done(struct cell_run *run, uint64_t seq, struct ck_slice finished)
{
    if (run->ev)
        run->ev->on_done(run->user, seq, finished);
    run_free(run);
}

// The bridge went away before it could report the cell's end, and with it the VM. The client gets an
// ending all the same, in the shape of every other, with the output that had arrived.
static void run_lost(struct cell_run *run)
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

static void run_answer_input(struct cell_run *run)
{
    if (run->body.stdin_mode != V1_STDIN_LINES)
        return; // the client answers, with POST .../stdin
    const char *value = EOF_OF_INPUT;
    if (run->next_line < json_array_size(run->body.lines))
        value = json_string_value(json_array_get(run->body.lines, run->next_line++));
    json_t *op = json_pack("{s:s,s:s,s:s}", "op", "stdin", "cell", run->cell, "value", value);
    bridge_link_op(run->link, op, NULL, 0, &run->stdin_rid);
}

// The log dropped events, the end of this cell perhaps among them: ask.
static void run_after_gap(struct cell_run *run, const struct v1_event *ev)
{
    run->gap_from = ev->gap_from;
    run->gap_to = ev->gap_to;
    bridge_link_op(run->link, json_pack("{s:s,s:s}", "op", "cell", "cell", run->cell), NULL, 0, &run->query_rid);
}

static void run_query_answer(struct cell_run *run, const struct ck_frame *f)
{
    if (f->nparts < 2)
        return; // still queued or running: its end is still to come
    struct ck_slice finished = ck_frame_part(f, 1);
    json_t *o = json_loadb((const char *)finished.p, finished.n, 0, NULL);
    uint64_t last = (uint64_t)json_integer_value(json_array_get(json_object_get(o, "seq"), 1));
    json_decref(o);
    if (last >= run->gap_from && last <= run->gap_to) // else its end is behind the gap and will be read
        run_done(run, last, finished);
}

static void run_event(struct cell_run *run, const json_t *h, const struct ck_frame *f)
{
    struct v1_event ev;
    if (v1_event_read(h, f, &ev) || (ev.cell[0] && strcmp(ev.cell, run->cell)))
        return;
    if (ev.kind == V1_EVENT_DONE) {
        run_release(run); // before the answer, after which the next cell may come at once
        run_done(run, ev.seq, ev.finished);
        return;
    }
    if (ev.kind == V1_EVENT_SKIP)
        return;
    if (run->ev)
        v1_partial_take(&run->partial, f, &ev, ck_mono_ms());
    if (run->ev && run->ev->on_event && run->ev->on_event(run->user, h, f, &ev))
        bridge_link_pause(run->link);
    if (ev.kind == V1_EVENT_INPUT)
        run_answer_input(run);
    else if (ev.kind == V1_EVENT_GAP)
        run_after_gap(run, &ev);
}

static void run_attach(struct cell_run *run)
{
    json_t *op = json_pack("{s:s,s:s,s:I,s:s}", "op", "attach", "mode", "cell", "from", (json_int_t)run->first_seq,
                           "cell", run->cell);
    bridge_link_op(run->link, op, NULL, 0, &run->attach_rid);
}

static void run_accepted(struct cell_run *run, const json_t *h)
{
    if (!run->ev && run->body.stdin_mode != V1_STDIN_LINES) {
        run_free(run); // the client left before its cell was accepted; it runs all the same
        return;
    }
    run->accepted = true;
    v1_deadline_stop(run->deadline);
    run->first_seq = (uint64_t)ck_json_int(h, "seq", 0, NULL);
    if (!json_is_true(json_object_get(h, "attached"))) // a bridge that an older version started
        run_attach(run);
    bridge_link_watch(run->link, true);
    if (run->ev && run->ev->on_accepted)
        run->ev->on_accepted(run->user);
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct cell_run *run = user;
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
    struct cell_run *run = user;
    struct ck_err hangs = CK_ERR_INIT;
    run->link = NULL;
    if (run->accepted && err->status == 504) {
        ck_fail(&hangs, 504, err->reason, "%s; the cell has been accepted: look for it with GET .../cells/%s",
                err->text, run->cell);
        run_fail(run, &hangs);
    } else if (run->accepted) {
        run_lost(run);
    } else {
        run_fail(run, err);
    }
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static void expired(void *user, const struct ck_err *err) { run_fail(user, err); }

static int send_cell(struct cell_run *run, const char *url_prefix, struct ck_err *err)
{
    run->link = session_link_take(run->s, &link_events, run, err);
    if (!run->link)
        return -1;
    json_t *op = json_pack("{s:s,s:s,s:I,s:b,s:b,s:s,s:b}", "op", "execute", "cell", run->cell, "timeout_ms",
                           (json_int_t)session_cell_ms(run->s, run->body.timeout_ms), "silent", run->body.silent, "allow_stdin",
                           run->body.stdin_mode != V1_STDIN_NONE, "url_prefix", url_prefix, "attach", 1);
    struct ck_slice code = {(const uint8_t *)run->body.code, run->body.code_n};
    if (bridge_link_op(run->link, op, &code, 1, &run->execute_rid) < 0)
        return ck_fail(err, 503, "no_memory", "the code could not be sent to the session: try again");
    return 0;
}

struct cell_run *cell_run_start(struct gateway *gw, struct session *s, struct v1_cell_body *body,
                                const char *url_prefix, const struct cell_run_events *ev, void *user,
                                struct ck_err *err)
{
    struct cell_run *run = calloc(1, sizeof *run);
    if (!run) {
        v1_cell_body_free(body);
        ck_fail(err, 503, "no_memory", "the gateway is out of memory: try again");
        return NULL;
    }
    *run = (struct cell_run){.gw = gw, .s = session_ref(s), .body = *body, .ev = ev, .user = user};
    memset(body, 0, sizeof *body);
    run->execute_rid = run->attach_rid = run->query_rid = run->stdin_rid = -1;
    ck_uuid4(run->cell);
    if (send_cell(run, url_prefix, err)) {
        run_free(run);
        return NULL;
    }
    run->deadline = v1_deadline_new(gw->loop, expired, run);
    v1_deadline_arm_after(run->deadline, session_wait_ms(s));
    session_touch(s);
    json_decref(run->body.body); // the code is on its way; up to 32 MiB need not wait for the cell
    run->body.body = NULL;
    return run;
}

const char *cell_run_id(const struct cell_run *run) { return run->cell; }

void cell_run_cancel(struct cell_run *run)
{
    int64_t rid; // its answer needs nothing: when the cell has ended already, that is on its way
    bridge_link_op(run->link, json_pack("{s:s,s:s}", "op", "cancel", "cell", run->cell), NULL, 0, &rid);
    bridge_link_resume(run->link); // its end is to be read
}

void cell_run_resume(struct cell_run *run) { bridge_link_resume(run->link); }

void cell_run_leave(struct cell_run *run)
{
    run->ev = NULL;
    bool lines_left = run->body.stdin_mode == V1_STDIN_LINES;
    if ((lines_left || !run->accepted) && !run->gw->draining)
        bridge_link_resume(run->link); // what waited for the client's queue need not wait any more
    else
        run_free(run);
}
