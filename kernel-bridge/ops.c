// Operations of the bridge protocol that are answered from what the bridge knows, and the hand-over
// of the rest. Every operation with a rid gets exactly one answer (transfers and commands: a stream
// with one end).
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define INTERRUPT_ANSWER_MS 1500
#define CLAIM_MS 20000

struct wait {
    struct bridge *b;
    struct reply_to to;
    unsigned open;         // of a claim: answers that are not there yet
    struct ck_err failed;  // the same: the first that went wrong
    char cell[CK_UUID_MAX]; // of an interrupt: what ran then
};

static struct wait *wait_new(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    struct wait *w = calloc(1, sizeof *w);
    if (w)
        *w = (struct wait){.b = b, .to = conn_reply_to(c, op->rid)};
    else
        ck_fail(err, 500, "no_memory", "no memory for another request");
    return w;
}

static int reply_json(struct bridge *b, struct conn *c, const struct bop *op, const char *key, json_t *value,
                      struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf f = CK_BUF_INIT;
    int bad = !value || ck_buf_printf(&f, "\"%s\":", key) || ck_json_dump(value, &f);
    json_decref(value);
    if (bad)
        return ck_fail(err, 500, "no_memory", "no memory for an answer");
    svc_reply(b->svc, conn_reply_to(c, op->rid), ck_buf_slice(&f), NULL, 0);
    return 0;
}

static const char *kernel_word(const struct bridge *b)
{
    if (b->state == BR_RESTARTING)
        return "restarting";
    return b->state == BR_READY ? (trk_busy(b->trk) ? "busy" : "idle") : br_state_word(b);
}

static int op_info(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    json_t *info = json_pack("{s:s,s:s,s:i,s:i,s:s,s:i,s:s,s:I,s:I,s:{s:s,s:I,s:I},s:i,s:i,s:I,s:o}", "id", b->conf.id,
                             "state", br_state_word(b), "pid", (int)getpid(), "qemu_pid",
                             b->machine ? (int)ck_machine_proc(b->machine).pid : 0, "accelerator",
                             ck_vm_accel_name(b->template.accel), "memory_mb", (int)b->template.memory_mb, "template",
                             b->template.hash, "first_seq", (json_int_t)evlog_first(b->log), "last_seq",
                             (json_int_t)(evlog_next(b->log) - 1), "kernel", "state", kernel_word(b), "execution_count",
                             (json_int_t)b->execution_count, "pid", (json_int_t)b->kernel_pid, "queue",
                             (int)trk_queued(b->trk), "connections", (int)cons_attached(b->cons), "last_activity_us",
                             (json_int_t)b->last_activity_us, "usage", br_usage_json(b));
    if (info && b->state == BR_DEAD)
        json_object_set_new(info, "reason", json_string(b->reason));
    return reply_json(b, c, op, "info", info, err);
}

// Guest and kernel have said what they have to say.
static void claim_step(struct wait *w, const struct ck_err *err)
{
    struct bridge *b = w->b;
    if (err && !w->failed.status)
        w->failed = *err;
    if (--w->open)
        return;
    if (w->failed.status) {
        svc_reply_error(b->svc, w->to, &w->failed);
    } else {
        b->pool = false;
        br_account_begin(b);
        br_cpu_share(b);
        br_active(b);
        br_state_event(b, "");
        svc_reply_ok(b->svc, w->to);
    }
    free(w);
}

// An agent that does not know the question is of a template older than us. what: that it asks for.
static void agent_step(struct wait *w, const char *what, const struct ck_err *err)
{
    struct ck_err e = CK_ERR_INIT;
    if (err && !strcmp(err->reason, "unknown_op"))
        ck_fail(&e, 409, "template_not_built", "the template is older than %s: it must be built again", what);
    claim_step(w, e.status ? &e : err);
}

static void limited(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    (void)answer;
    (void)payload;
    agent_step(user, "these limits", err);
}

static void watched(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    (void)answer;
    (void)payload;
    agent_step(user, "artifact_ignore", err);
}

static void claimed(void *user, const struct ck_slice *content, const struct ck_err *err)
{
    char status[16] = "";
    struct ck_err e = CK_ERR_INIT;
    if (!err) {
        jscan_field_str(*content, "status", status, sizeof status);
        if (strcmp(status, "ok"))
            ck_fail(&e, 400, "bad_environment", "the kernel could not take over its environment or folder");
    }
    claim_step(user, e.status ? &e : err);
}

// Python text that gives a running kernel its environment and folder. JSON string literals as
// ck_buf_add_json_str writes them are Python string literals too.
static int claim_code(const struct bop *op, struct ck_buf *out)
{
    const char *key;
    json_t *value;
    int bad = ck_buf_add_str(out, "import os as _o\n_o.environ.update({");
    json_object_foreach(op->env, key, value) {
        bad |= ck_buf_add_json_str(out, key, strlen(key)) | ck_buf_add_str(out, ":") |
               ck_buf_add_json_str(out, json_string_value(value), json_string_length(value)) | ck_buf_add_str(out, ",");
    }
    bad |= ck_buf_add_str(out, "})\n");
    if (op->cwd[0]) // the folder of a notebook on its client's side: often there is none of that name
        bad |= ck_buf_add_str(out, "_d = ") | ck_buf_add_json_str(out, op->cwd, strlen(op->cwd)) |
               ck_buf_add_str(out, "\nif _o.path.isdir(_d): _o.chdir(_d)\ndel _d\n");
    return bad | ck_buf_add_str(out, "del _o\n");
}

static int claim_kernel(struct bridge *b, struct wait *w, const struct bop *op, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf code = CK_BUF_INIT, content = CK_BUF_INIT;
    char *env = op->env ? json_dumps(op->env, JSON_COMPACT) : NULL;
    if ((op->env && !env) || claim_code(op, &code) || ck_buf_add_str(&content, "{\"code\":") ||
        ck_buf_add_json_str(&content, (const char *)code.p, code.n) ||
        ck_buf_add_str(&content,
                       ",\"silent\":true,\"store_history\":false,\"user_expressions\":{},\"allow_stdin\":false,"
                       "\"stop_on_error\":false}")) {
        free(env);
        return ck_fail(err, 500, "no_memory", "no memory for the session's environment");
    }
    free(b->kernel_env);
    b->kernel_env = env;
    snprintf(b->kernel_cwd, sizeof b->kernel_cwd, "%s", op->cwd);
    return kc_call(b->kc, JW_SHELL, "execute_request", ck_buf_slice(&content), CLAIM_MS, claimed, w, err);
}

static int op_claim(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    struct blimits limits = b->conf.limits;
    struct ck_err e = CK_ERR_INIT;
    if (br_check_alive(b, err) || blimits_apply(&limits, op->limits, err))
        return -1;
    if (!b->pool)
        return ck_fail(err, 409, "already_claimed", "this bridge is a session already");
    if (!br_kernel_ready(b))
        return ck_fail(err, 503, "not_ready", "this bridge is not ready yet");
    b->conf.limits = limits;
    evlog_set_cap(b->log, limits.log_bytes);
    trk_limits(b->trk, limits.queue_max, limits.output_bytes);
    kc_set_message_max(b->kc, limits.message_bytes);
    struct wait *w = wait_new(b, c, op, err);
    if (!w)
        return -1;
    json_t *guest = br_guest_limits(&limits);
    bool own = json_object_size(op->env) || op->cwd[0];
    json_t *watch = op->ignore ? json_pack("{s:s,s:O}", "op", "watch", "ignore", op->ignore) : NULL;
    w->open = 1; // until all that there is to ask has been asked
    w->open += watch && ac_request(b->ac, watch, ck_slice("", 0), CLAIM_MS, watched, w, &e) >= 0;
    w->open += guest && ac_request(b->ac, guest, ck_slice("", 0), CLAIM_MS, limited, w, &e) >= 0;
    w->open += own && !claim_kernel(b, w, op, &e);
    claim_step(w, e.status ? &e : NULL);
    return 0;
}

static int op_execute(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    struct reply_to to = conn_reply_to(c, op->rid);
    uint64_t seq;
    char text[128];
    if (br_cell_queue(b, op, &seq, err))
        return -1;
    if (op->attach)
        conn_follow_cell(c, op->cell, seq);
    br_cells_dispatch(b); // first: the kernel need not wait for the answer to be written
    snprintf(text, sizeof text, "\"cell\":\"%s\",\"seq\":%" PRIu64 "%s", op->cell, seq, op->attach ? ",\"attached\":true" : "");
    svc_reply(b->svc, to, ck_slice_str(text), NULL, 0);
    return 0;
}

static int op_cell(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    const struct cellbook_entry *e = cellbook_find(&b->book, op->cell);
    const struct trk_cell *waiting = trk_find(b->trk, op->cell);
    char text[128];
    struct ck_frame f;
    struct ck_slice json = ck_slice("", 0);
    size_t used;
    if (!e && !waiting)
        return ck_fail(err, 404, "no_such_cell", "no cell with this id is known here (only the latest %d are kept)",
                       CELLBOOK_MAX);
    if (e && !ck_frame_parse(e->frame->p, e->frame->n, e->frame->n, &f, &used, err))
        json = ck_frame_part(&f, 1);
    const char *status = e                                                            ? cell_status_name(e->status)
                         : waiting->phase == TRK_QUEUED || waiting->phase == TRK_SENT ? "queued"
                                                                                      : "running";
    snprintf(text, sizeof text, "\"cell\":\"%s\",\"status\":\"%s\"", op->cell, status);
    svc_reply(b->svc, conn_reply_to(c, op->rid), ck_slice_str(text), &json, e ? 1 : 0);
    return 0;
}

static void interrupt_signalled(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct wait *w = user;
    (void)answer;
    (void)payload;
    if (err)
        svc_reply_error(w->b->svc, w->to, err);
    else
        svc_reply_ok(w->b->svc, w->to);
    br_interrupt_arrived(w->b);
    free(w);
}

static const char *running_cell(const struct bridge *b)
{
    const struct trk_cell *c = trk_active(b->trk);
    return c && !c->reply ? c->id : "";
}

static void interrupt_answered(void *user, const struct ck_slice *content, const struct ck_err *err)
{
    struct wait *w = user;
    struct ck_err e = CK_ERR_INIT;
    (void)content;
    // A kernel whose control thread is stuck gets the signal from outside; but not when it has ended, nor
    // when what was meant has.
    if (!err || err->status != 504 || strcmp(w->cell, running_cell(w->b)) != 0) {
        if (br_check_alive(w->b, &e))
            svc_reply_error(w->b->svc, w->to, &e);
        else
            svc_reply_ok(w->b->svc, w->to);
        free(w);
        return;
    }
    json_t *o = json_pack("{s:s,s:s,s:b}", "op", "kernel_signal", "signal", "INT", "group", 1);
    if (ac_request(w->b->ac, o, ck_slice("", 0), BR_ASKED_MS, interrupt_signalled, w, &e) < 0)
        interrupt_signalled(w, NULL, ck_slice("", 0), &e);
    else
        br_interrupt_sent(w->b);
}

static int op_interrupt(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    if (br_check_alive(b, err))
        return -1;
    if (!br_kernel_ready(b))
        return ck_fail(err, 503, "kernel_starting", "a fresh kernel is starting: there is nothing to interrupt");
    struct wait *w = wait_new(b, c, op, err);
    if (!w)
        return -1;
    snprintf(w->cell, sizeof w->cell, "%s", running_cell(b));
    if (kc_call(b->kc, JW_CONTROL, "interrupt_request", ck_slice_str("{}"), INTERRUPT_ANSWER_MS, interrupt_answered, w,
                err)) {
        free(w);
        return -1;
    }
    br_cell_interrupted(b);
    br_interrupt_sent(b);
    return 0;
}

static void usage_answered(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct wait *w = user;
    CK_CLEAN_BUF struct ck_buf f = CK_BUF_INIT;
    (void)payload;
    if (!err)
        br_usage_read(&w->b->usage, answer);
    json_t *u = err ? NULL : br_usage_json(w->b);
    if (err)
        svc_reply_error(w->b->svc, w->to, err);
    else if (u && !ck_buf_add_str(&f, "\"usage\":") && !ck_json_dump(u, &f))
        svc_reply(w->b->svc, w->to, ck_buf_slice(&f), NULL, 0);
    json_decref(u);
    free(w);
}

static int op_usage(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    struct wait *w = br_check_alive(b, err) ? NULL : wait_new(b, c, op, err);
    if (!w)
        return -1;
    if (ac_request(b->ac, json_pack("{s:s}", "op", "usage"), ck_slice("", 0), BR_ASKED_MS, usage_answered, w, err) <
        0) {
        free(w);
        return -1;
    }
    return 0;
}

static int op_shutdown(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    (void)err;
    svc_reply_ok(b->svc, conn_reply_to(c, op->rid));
    b->on_shutdown(b, op->why);
    return 0;
}

static int op_data(struct conn *c, const struct bop *op)
{
    struct job *j = conn_job(c, op->rid);
    if (j) // else: of a transfer that has failed meanwhile, and was answered
        j->ops->data(j, op);
    return 0;
}

static int ok(struct bridge *b, struct conn *c, const struct bop *op, int rc)
{
    if (!rc)
        svc_reply_ok(b->svc, conn_reply_to(c, op->rid));
    return rc;
}

// While an older VM takes the session's place there is nobody to ask; what only needs the log, or may
// wait in a queue, goes on.
static int check_vm(const struct bridge *b, const struct bop *op, struct ck_err *err)
{
    switch (op->kind) {
    case BOP_INTERRUPT:
    case BOP_RESTART:
    case BOP_FILE_STAT:
    case BOP_FILE_LIST:
    case BOP_FILE_READ:
    case BOP_FILE_WRITE:
    case BOP_FILE_REMOVE:
    case BOP_FILE_MKDIR:
    case BOP_FILE_MOVE:
    case BOP_COMMAND:
    case BOP_USAGE:
        if (b->state == BR_ROLLBACK)
            return ck_fail(err, 409, "life_busy", "the session is being rolled back; wait for its end");
        break;
    default: break;
    }
    return 0;
}

static int handle(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    switch (op->kind) {
    case BOP_INFO: return op_info(b, c, op, err);
    case BOP_CLAIM: return op_claim(b, c, op, err);
    case BOP_ATTACH: return conn_attach(c, op, err);
    case BOP_ACK: conn_ack(c, op->seq, op->sent); return 0;
    case BOP_SEND: return br_jupyter_send(b, op, conn_consumer(c), c, err);
    case BOP_EXECUTE: return op_execute(b, c, op, err);
    case BOP_CELL: return op_cell(b, c, op, err);
    case BOP_CANCEL: return ok(b, c, op, br_cell_cancel(b, op->cell, err));
    case BOP_STDIN: return ok(b, c, op, br_cell_stdin(b, op, err));
    case BOP_INTERRUPT: return op_interrupt(b, c, op, err);
    case BOP_RESTART: return br_restart(b, conn_reply_to(c, op->rid), err);
    case BOP_FILE_STAT:
    case BOP_FILE_LIST:
    case BOP_FILE_REMOVE:
    case BOP_FILE_MKDIR:
    case BOP_FILE_MOVE: return br_file_relay(b, c, op, err);
    case BOP_FILE_READ: return br_file_read(b, c, op, err);
    case BOP_FILE_WRITE: return br_file_write(b, c, op, err);
    case BOP_DATA:
    case BOP_DATA_END:
    case BOP_DATA_ABORT: return op_data(c, op);
    case BOP_COMMAND: return br_command(b, c, op, err);
    case BOP_USAGE: return op_usage(b, c, op, err);
    case BOP_CHECKPOINT: return br_checkpoint(b, conn_reply_to(c, op->rid), op->layer, err);
    case BOP_ROLLBACK: return br_rollback(b, conn_reply_to(c, op->rid), op->layer, err);
    case BOP_PAUSE: return br_pause(b, conn_reply_to(c, op->rid), op->layer, err);
    case BOP_SHUTDOWN: return op_shutdown(b, c, op, err);
    case BOP_KINDS: break;
    }
    return ck_fail(err, 400, "unknown_op", "there is no such operation");
}

bool br_operation(struct bridge *b, struct conn *c, const struct ck_frame *f)
{
    struct bop op;
    struct ck_err err = CK_ERR_INIT;
    int rc = bop_parse(f, &op, &err);
    bool answerable = op.has_rid;
    if (!rc)
        b->ops += op.kind != BOP_ACK;
    if (!rc && !(rc = check_vm(b, &op, &err)))
        rc = handle(b, c, &op, &err);
    if (rc && answerable)
        svc_reply_error(b->svc, conn_reply_to(c, op.rid), &err);
    bop_free(&op);
    return !rc || answerable;
}
