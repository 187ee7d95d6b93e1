// /v1 cells from the queue to their ending: sending, cancelling, input, and the finished cell. Every
// cell that was queued ends exactly once, whatever happens to kernel and VM. What is done to a cell
// that does not end by itself is in cell_endings.c.
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/artifacts.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/jscan.h"
#include "kernel-bridge/shown.h"

#include <inttypes.h>
#include <stdlib.h>

// From the start of a cell that was to be interrupted before it began, until it is told again. By then
// an interrupt that did reach it has shown its effect, on a slow machine too.
#define INTERRUPT_AGAIN_MS 1000

static void put_event(struct bridge *b, enum ev_kind kind, const char *cell, struct ck_blob *frame)
{
    struct ev_tag tag = {.kind = kind, .class = EV_OTHER, .cell = cell, .session = ""};
    br_append(b, &tag, frame);
}

static void reset_closing(struct bridge *b)
{
    b->closing = (struct closing){.decided = false};
    b->changes_until = 0;
}

// An agent that does not tell the peak of the time since it was last asked tells that of the session's life.
static int64_t peak_of(const struct bridge *b, const struct closing *how)
{
    int64_t peak = b->usage.recent_peak_bytes >= 0 ? b->usage.recent_peak_bytes : b->usage.peak_memory_bytes;
    return how->peak_memory_bytes > 0 && how->peak_memory_bytes > peak ? how->peak_memory_bytes : peak;
}

// Which limits that the guest keeps the cell ran into, as far as that can be told from what it left.
static unsigned limits_hit(const struct bridge *b, const struct artifacts *a)
{
    const struct usage *u = &b->usage;
    unsigned hits = a->too_many ? CELL_HIT(CELL_HIT_ARTIFACTS) : 0;
    if (a->too_large)
        hits |= CELL_HIT(CELL_HIT_ARTIFACT_SIZE);
    if (b->base.pids_refused >= 0 && u->pids_refused > b->base.pids_refused)
        hits |= CELL_HIT(CELL_HIT_PIDS);
    if (br_disk_full(b) && u->disk_bytes > b->base.disk_bytes)
        hits |= CELL_HIT(CELL_HIT_DISK);
    return hits;
}

// Logs the end of a cell and lets it go.
static void end_cell(struct bridge *b, struct trk_cell *c, const struct closing *how, struct artifacts *a)
{
    enum cell_status status = how->status;
    CK_CLEAN_BUF struct ck_buf json = CK_BUF_INIT, list = CK_BUF_INIT;
    int64_t end = c->ended_us ? c->ended_us : ck_mono_us();
    bool asked = c->started_us && b->base.cpu_ms >= 0, cpu_known = asked && b->usage.cpu_ms >= b->base.cpu_ms;
    shown_mark(&c->out, a);
    br_artifact_events(b, c->id, a);
    uint64_t seq = evlog_next(b->log);
    artifacts_array(a, &list);
    struct cell_facts f = {.id = c->id,
                           .seq_first = c->seq_first ? c->seq_first : seq,
                           .seq_last = seq,
                           .status = status,
                           .exit_code = cell_exit_code(status),
                           .out = &c->out,
                           .artifacts = list.n ? ck_buf_slice(&list) : ck_slice_str("[]"),
                           .artifacts_total = a->total,
                           .wall_ms = c->started_us ? (end - c->started_us) / 1000 : 0,
                           .cpu_ms = cpu_known ? b->usage.cpu_ms - b->base.cpu_ms : -1,
                           .peak_memory_bytes = peak_of(b, how),
                           .disk_bytes = b->usage.disk_bytes,
                           .artifacts_too_large = a->too_large,
                           .limits_hit = asked ? limits_hit(b, a) : 0,
                           .ended_by = how->ended_by,
                           .detail = how->detail};
    struct ck_blob *frame =
        cell_json(&f, &json) ? NULL
                             : evb_cell(seq, ck_wall_us() / 1000, c->id, cell_status_name(status), ck_buf_slice(&json));
    if (frame)
        cellbook_add(&b->book, c->id, status, frame);
    br_account_cell(b, status, f.wall_ms, f.cpu_ms);
    ck_log(CK_LOG_DEBUG, "bridge", "cell_end id=%s status=%s wall_ms=%" PRId64, c->id, cell_status_name(status),
           f.wall_ms);
    if (!strcmp(c->id, b->wound.id))
        br_wound_told(b, how->ended_by, how->detail);
    put_event(b, EV_CELL, c->id, frame);
    trk_finish(b->trk, c);
    trk_cell_free(c);
}

static void end_without_vm(struct bridge *b, struct trk_cell *c, enum cell_status status, const char *ended_by,
                           const char *detail)
{
    struct artifacts none = {.n = 0};
    struct closing how = {.status = status};
    snprintf(how.ended_by, sizeof how.ended_by, "%s", ended_by);
    snprintf(how.detail, sizeof how.detail, "%s", detail);
    b->base.cpu_ms = -1; // nobody was asked what it used
    end_cell(b, c, &how, &none);
}

void br_cell_finish(struct bridge *b, struct artifacts *a)
{
    struct trk_cell *c = trk_active(b->trk);
    struct closing how = b->closing;
    if (!c)
        return;
    if (!how.decided) { // it came to its own end
        how.status = trk_status(c);
        if (end_begun(&c->ending) && how.status != CELL_OK && how.status != CELL_ERROR) {
            snprintf(how.ended_by, sizeof how.ended_by, "%s", end_rung_name(c->ending.rung));
            br_ending_detail(c, how.detail, sizeof how.detail);
        } else if (how.status == CELL_INTERRUPTED) {
            snprintf(how.ended_by, sizeof how.ended_by, "interrupt");
        }
    }
    reset_closing(b);
    end_cell(b, c, &how, a);
    br_state_event(b, "");
    br_restart_settled(b);
    br_retime(b);
    br_cells_dispatch(b);
}

void br_cell_decide(struct bridge *b, enum cell_status status, const char *ended_by, const char *detail)
{
    struct trk_cell *c = trk_active(b->trk);
    if (!c || b->closing.decided)
        return;
    b->closing.decided = true;
    b->closing.status = status;
    snprintf(b->closing.ended_by, sizeof b->closing.ended_by, "%s", ended_by);
    snprintf(b->closing.detail, sizeof b->closing.detail, "%s", detail);
    c->phase = TRK_CLOSING;
    c->ended_us = ck_mono_us();
    c->wants_input = false;
    end_off(&c->ending);
    br_changes_for_cell(b);
}

int br_cell_queue(struct bridge *b, const struct bop *op, uint64_t *seq, struct ck_err *err)
{
    struct trk_cell *c;
    const struct blimits *l = &b->conf.limits;
    struct trk_spec s = {.id = op->cell, .url_prefix = op->url_prefix, .code = ck_frame_part(&op->frame, 1),
                         .timeout_ms = op->timeout_ms ? op->timeout_ms : l->cell_ms ? l->cell_ms : l->cell_max_ms,
                         .silent = op->silent, .allow_stdin = op->allow_stdin};
    if (br_check_alive(b, err))
        return -1;
    if (l->cell_max_ms && op->timeout_ms > l->cell_max_ms)
        return ck_fail(err, 400, "bad_field", "field \"timeout_s\" may be at most %" PRId64
                       ": that is this server's maximum for a cell", l->cell_max_ms / 1000);
    if (cellbook_find(&b->book, op->cell))
        return ck_fail(err, 409, "cell_exists", "a cell with this id has run already");
    if (trk_queue(b->trk, &s, &c, err))
        return -1;
    *seq = evlog_next(b->log);
    br_active(b);
    br_state_event(b, "");
    return 0;
}

static int send_cell(struct bridge *b, const struct trk_cell *c, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf content = CK_BUF_INIT;
    int bad =
        ck_buf_add_str(&content, "{\"code\":") || ck_buf_add_json_str(&content, (const char *)c->code->p, c->code->n) ||
        ck_buf_printf(&content,
                      ",\"silent\":%s,\"store_history\":%s,\"user_expressions\":{},\"allow_stdin\":%s,"
                      "\"stop_on_error\":false}", // an error must not abort the cells of others
                      c->silent ? "true" : "false", c->silent ? "false" : "true", c->allow_stdin ? "true" : "false");
    if (bad)
        return ck_fail(err, 500, "no_memory", "no memory to send the cell");
    return kc_request(b->kc, JW_SHELL, c->id, "execute_request", ck_buf_slice(&content), err);
}

void br_cells_dispatch(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (b->client_wrote && br_kernel_ready(b) && trk_ready(b->trk))
        br_changes_for_jupyter(b); // files of clients must not crowd a cell's own out of its list
    // Not while an interrupt is on its way: it is meant for the cell before.
    for (struct trk_cell *c;
         br_kernel_ready(b) && !b->jupyter_changes && !b->interrupt_until && (c = trk_ready(b->trk));) {
        if (c->cancelled) {
            end_without_vm(b, c, CELL_CANCELLED, "", "the cell was cancelled before it began");
            continue;
        }
        reset_closing(b);
        b->base = b->usage;
        trk_take(b->trk, c, ck_mono_ms());
        if (!send_cell(b, c, &err)) {
            end_arm(&c->ending, ck_mono_ms(), c->timeout_ms); // a kernel that never begins it is bounded too
            br_retime(b);
            return;
        }
        end_without_vm(b, c, CELL_CANCELLED, "", err.text);
    }
    if (b->state == BR_READY)
        br_state_event(b, "");
}

int br_cell_cancel(struct bridge *b, const char *id, struct ck_err *err)
{
    struct trk_cell *c = trk_find(b->trk, id);
    if (!c)
        return cellbook_find(&b->book, id)
                   ? 0
                   : ck_fail(err, 404, "no_such_cell", "no cell with this id is waiting or running");
    if (c->reply || (c == trk_active(b->trk) && b->closing.decided))
        return 0; // it has ended, and says how as soon as its artifacts are known
    c->cancelled = true;
    if (c->phase == TRK_QUEUED) {
        end_without_vm(b, c, CELL_CANCELLED, "", "the cell was cancelled before it began");
        br_state_event(b, "");
    } else if (c->phase == TRK_RUNNING) {
        end_cancel(&c->ending, ck_mono_ms());
        br_retime(b);
    }
    return 0;
}

int br_cell_stdin(struct bridge *b, const struct bop *op, struct ck_err *err)
{
    struct trk_cell *c = trk_find(b->trk, op->cell);
    CK_CLEAN_BUF struct ck_buf content = CK_BUF_INIT;
    if (br_check_alive(b, err))
        return -1;
    if (!c && !cellbook_find(&b->book, op->cell))
        return ck_fail(err, 404, "no_such_cell", "no cell with this id is known");
    if (!c || !c->wants_input || !br_kernel_ready(b))
        return ck_fail(err, 409, "no_input_wanted", "the cell does not wait for input");
    if (ck_buf_add_str(&content, "{\"value\":") || ck_buf_add_json_str(&content, op->value, (size_t)op->length) ||
        ck_buf_add_str(&content, "}"))
        return ck_fail(err, 500, "no_memory", "no memory to send the input");
    if (kc_request(b->kc, JW_STDIN, NULL, "input_reply", ck_buf_slice(&content), err))
        return -1;
    c->wants_input = b->asks = false;
    br_active(b);
    return 0;
}

static void input_event(struct bridge *b, const struct trk_cell *c, struct ck_slice content)
{
    struct ck_slice prompt, password;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (jscan_field(content, "prompt", &prompt))
        jscan_text(prompt, &text);
    bool hidden = jscan_field(content, "password", &password) && jscan_true(password);
    put_event(b, EV_INPUT, c->id,
              evb_input(evlog_next(b->log), ck_wall_us() / 1000, c->id, hidden, ck_buf_slice(&text)));
}

static void cell_started(struct bridge *b, struct trk_cell *c)
{
    int64_t now = ck_mono_ms();
    c->seq_first = evlog_next(b->log);
    put_event(b, EV_CELL_START, c->id, evb_cell_start(c->seq_first, ck_wall_us() / 1000, c->id, -1));
    if (c->reply) // its busy was lost: it has ended as well
        return;
    if (!end_begun(&c->ending))
        end_arm(&c->ending, now, c->timeout_ms);
    if (c->cancelled)
        end_cancel(&c->ending, now);
    if (c->interrupt_early)
        b->interrupt_again_at = now + INTERRUPT_AGAIN_MS;
}

void br_cells_step(struct bridge *b, const struct trk_step *s, const struct kc_message *m)
{
    if (s->started)
        cell_started(b, s->cell);
    if (s->input)
        input_event(b, s->cell, m->msg.part[JW_CONTENT]);
    if (s->replied || s->closing)
        br_changes_for_cell(b);
    if (s->broken)
        br_kernel_broken(b);
    if (s->late_start) // of a cell that was reported as timed out before the kernel got to it
        br_interrupt(b);
    // Whatever made the kernel come to rest, a late end of a cell that was reported before included: the
    // session stays busy then, because others wait, so busy_changed does not tell.
    if (s->busy_changed || trk_ready(b->trk))
        br_cells_dispatch(b);
}

void br_cells_cancel_queued(struct bridge *b, const char *detail)
{
    for (struct trk_cell *c; (c = trk_first_queued(b->trk));)
        end_without_vm(b, c, CELL_CANCELLED, "", detail);
}

// The VM is gone, or goes now: what runs or waits ends like `how`, unless it had an ending already.
static void end_all(struct bridge *b, const struct closing *how)
{
    struct trk_cell *c = trk_active(b->trk);
    struct closing had = b->closing;
    bool died = how->status == CELL_VM_DIED;
    reset_closing(b);
    if (c && had.decided)
        end_without_vm(b, c, had.status, had.ended_by, had.detail);
    else if (c && c->reply) // its code had ended; only the look for artifacts was cut short
        end_without_vm(b, c, trk_status(c), "", died
                       ? "the VM died right after the cell ended; artifacts were not collected"
                       : "the session was ended right after the cell; artifacts were not collected");
    else if (c && died && c->ending.rung == END_VM_KILLED) {
        br_ending_detail(c, had.detail, sizeof had.detail);
        end_without_vm(b, c, trk_status(c), "vm_kill", had.detail);
    } else if (c)
        end_without_vm(b, c, how->status, how->ended_by, how->detail);
    while ((c = trk_first_queued(b->trk)))
        end_without_vm(b, c, how->status, died ? how->ended_by : "", how->detail);
    br_retime(b);
}

void br_cells_vm_died(struct bridge *b)
{
    struct closing how = {.status = CELL_VM_DIED};
    snprintf(how.detail, sizeof how.detail, "%s", b->reason);
    end_all(b, &how);
}

void br_cells_shut_down(struct bridge *b, const char *why)
{
    struct closing how = {.status = CELL_CANCELLED, .ended_by = "shutdown"};
    snprintf(how.detail, sizeof how.detail, "%s", why);
    end_all(b, &how);
}
