// Cells that do not end by themselves: interrupts, the ladder of endings, and kernels that cannot be
// heard any more. A time-out is reported within a second after the deadline, whatever kernel and agent
// do; what becomes of the kernel after that is told by the finished cell, to those who ask for it again,
// and by the session's state.
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"

#include <inttypes.h>
#include <stdlib.h>

#define INTERRUPT_MS 1500  // for the next answer; cells and messages wait for it
#define PROBE_MS 60000     // a cell that holds Python's lock may keep a kernel from answering for long

// --- interrupts -----------------------------------------------------------------------------------

void br_interrupt_sent(struct bridge *b)
{
    b->interrupts++;
    b->interrupt_until = ck_mono_ms() + INTERRUPT_MS;
    br_retime(b);
}

static void all_arrived(struct bridge *b)
{
    b->interrupts = 0;
    b->interrupt_until = 0;
    if (br_kernel_ready(b))
        br_parked_flush(b);
}

void br_interrupt_arrived(struct bridge *b)
{
    if (!b->interrupt_until)
        return;
    if (--b->interrupts)
        b->interrupt_until = ck_mono_ms() + INTERRUPT_MS;
    else
        all_arrived(b);
    br_retime(b);
    br_cells_dispatch(b);
}

void br_interrupt(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (!kc_request(b->kc, JW_CONTROL, NULL, "interrupt_request", ck_slice_str("{}"), &err))
        br_interrupt_sent(b);
}

static void signalled(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    (void)answer;
    (void)payload;
    if (err)
        ck_log(CK_LOG_WARN, "bridge", "kernel_signal_failed reason=%s", err->reason);
    br_interrupt_arrived(user);
}

void br_cell_interrupted(struct bridge *b)
{
    struct trk_cell *c = trk_active(b->trk);
    if (!c || c->reply || (c->phase != TRK_SENT && c->phase != TRK_RUNNING))
        return;
    // A cell that was sent may run already, its busy being on its way; or the interrupt may find the
    // kernel idle and be without effect: then it is told again when the cell has begun.
    c->interrupted = true;
    c->interrupt_early |= c->phase == TRK_SENT;
}

static void interrupt_again(struct bridge *b)
{
    const struct trk_cell *c = trk_active(b->trk);
    b->interrupt_again_at = 0;
    if (c && c->interrupt_early && c->phase == TRK_RUNNING && !c->reply)
        br_interrupt(b);
}

// --- what became of a cell that was reported early ---------------------------------------------------

void br_wound_told(struct bridge *b, const char *ended_by, const char *detail)
{
    b->wound.told = true;
    snprintf(b->wound.ended_by, sizeof b->wound.ended_by, "%s", ended_by);
    snprintf(b->wound.detail, sizeof b->wound.detail, "%s", detail);
}

static void retell(struct bridge *b, const struct cell_ending *now)
{
    CK_CLEAN_BUF struct ck_buf json = CK_BUF_INIT;
    const struct cellbook_entry *e = cellbook_find(&b->book, b->wound.id);
    const struct cell_ending was = {b->wound.ended_by, b->wound.detail};
    struct ck_frame f;
    size_t used;
    if (e && !ck_frame_parse(e->frame->p, e->frame->n, e->frame->n, &f, &used, NULL) &&
        !cell_json_end_anew(ck_frame_part(&f, 1), &was, now, &json)) {
        struct ck_slice part = ck_buf_slice(&json);
        cellbook_replace(&b->book, b->wound.id, ck_frame_encode(ck_frame_part(&f, 0), &part, 1));
    }
}

void br_wound_outcome(struct bridge *b, const char *ended_by, const char *what)
{
    char detail[sizeof b->wound.detail];
    if (!b->wound.id[0])
        return;
    snprintf(detail, sizeof detail, "the cell ran longer than %" PRId64 " ms: %s", b->wound.timeout_ms, what);
    if (b->wound.told) {
        retell(b, &(struct cell_ending){ended_by, detail});
    } else { // its artifacts are still looked for
        snprintf(b->closing.ended_by, sizeof b->closing.ended_by, "%s", ended_by);
        snprintf(b->closing.detail, sizeof b->closing.detail, "%s", detail);
    }
    b->wound.id[0] = 0;
}

void br_wound_rests(struct bridge *b)
{
    br_wound_outcome(b, end_rung_name(END_REPORTED),
                     "an interrupt and SIGINT were sent; it came to rest late, but in time; variables are kept");
}

// --- the ladder -----------------------------------------------------------------------------------

void br_ending_detail(const struct trk_cell *c, char *out, size_t room)
{
    if (c->ending.why == END_CANCEL)
        snprintf(out, room, "the cell was cancelled: %s", end_tried(c->ending.rung));
    else
        snprintf(out, room, "the %s %" PRId64 " ms: %s",
                 c->started_us ? "cell ran longer than" : "kernel did not begin the cell within", c->timeout_ms,
                 end_tried(c->ending.rung));
}

// The cell's time is up and its kernel does not react at once: its client hears now, the kernel gets
// some seconds more.
static void report_early(struct bridge *b, struct trk_cell *c)
{
    char detail[320];
    br_ending_detail(c, detail, sizeof detail);
    b->winding = c->ending;
    b->wound.timeout_ms = c->timeout_ms;
    trk_wind(b->trk, c);
    b->wound.told = false;
    snprintf(b->wound.id, sizeof b->wound.id, "%s", c->id);
    br_cell_decide(b, CELL_TIMEOUT, end_rung_name(END_REPORTED), detail);
}

// c: the active cell; for END_KILLED and above it may be reported and gone already.
static void climb(struct bridge *b, struct trk_cell *c, enum end_rung rung)
{
    struct ck_err err = CK_ERR_INIT;
    ck_log(CK_LOG_INFO, "bridge", "cell_ending step=%s", end_rung_name(rung));
    switch (rung) {
    case END_INTERRUPTED:
        br_interrupt(b); // when it fails: the next rung follows anyway
        break;
    case END_SIGNALLED:
        if (ac_request(b->ac, json_pack("{s:s,s:s,s:b}", "op", "kernel_signal", "signal", "INT", "group", 1),
                       ck_slice("", 0), BR_AGENT_MS, signalled, b, &err) > 0)
            br_interrupt_sent(b);
        break;
    case END_REPORTED:
        if (c)
            report_early(b, c);
        break;
    case END_KILLED:
        br_kernel_kill(b, c ? "a cancelled cell did not come to rest"
                            : "a cell that had timed out did not come to rest");
        break;
    case END_VM_KILLED:
        br_kernel_unkillable(b);
        break;
    case END_OFF:
    case END_ARMED:
    case END_RUNGS:
        break;
    }
}

// --- a kernel that cannot be heard ------------------------------------------------------------------

void br_kernel_broken(struct bridge *b)
{
    static const char what[] = "the kernel can no longer be heard (was one of its sockets closed?), so output and the "
                               "end of what it ran are lost; it was killed: a fresh kernel starts, files are kept, "
                               "variables are lost";
    const struct trk_cell *c = trk_active(b->trk);
    if (!br_kernel_ready(b))
        return; // it is being replaced already
    ck_log(CK_LOG_WARN, "bridge", "kernel_unheard id=%s", b->conf.id);
    br_kernel_kill(b, "it could not be heard any more"); // first, so that no other cell goes to it
    if (c && c->phase != TRK_CLOSING) {
        enum cell_status status = trk_status(c);
        bool own = status == CELL_OK || status == CELL_ERROR || status == CELL_INTERRUPTED;
        br_cell_decide(b, own ? CELL_KERNEL_DIED : status, own ? "sigkill" : end_rung_name(c->ending.rung), what);
    }
}

static void probed(void *user, const struct ck_slice *content, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)content;
    if (b->state == BR_READY && trk_probed(b->trk, !err, ck_mono_ms()) == TRK_BROKEN)
        br_kernel_broken(b);
    br_retime(b);
}

static void look_for_silence(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (br_kernel_ready(b) && trk_quiet_at(b->trk) <= ck_mono_ms()) {
        kc_drain(b->kc); // we may have been what was slow
        trk_moved(b->trk, kc_received(b->kc), ck_mono_ms());
    }
    enum trk_due due = br_kernel_ready(b) ? trk_quiet(b->trk, ck_mono_ms()) : TRK_NOTHING;
    if (due == TRK_PROBE &&
        kc_call(b->kc, JW_CONTROL, "kernel_info_request", ck_slice_str("{}"), PROBE_MS, probed, b, &err))
        due = trk_probed(b->trk, false, ck_mono_ms());
    if (due == TRK_BROKEN)
        br_kernel_broken(b);
}

void br_endings_reset(struct bridge *b)
{
    b->wound.id[0] = 0;
    b->restart_done = false;
    b->interrupts = 0;
    b->doomed_until = b->interrupt_until = b->interrupt_again_at = 0;
}

// --- time -----------------------------------------------------------------------------------------

static int64_t sooner(int64_t a, int64_t b) { return b && b < a ? b : a; } // b: 0 = never

void br_retime(struct bridge *b)
{
    const struct trk_cell *c = trk_active(b->trk);
    int64_t at = br_kernel_ready(b) ? trk_quiet_at(b->trk) : INT64_MAX, now = ck_mono_ms();
    if (c)
        at = sooner(at, end_next(&c->ending));
    if (trk_winding(b->trk))
        at = sooner(at, end_next(&b->winding));
    at = sooner(sooner(at, b->interrupt_until), b->interrupt_again_at);
    at = sooner(sooner(at, b->changes_until), b->doomed_until);
    if (b->state == BR_CLOSING || b->state == BR_DEAD || at == INT64_MAX)
        uv_timer_stop(&b->tick);
    else
        uv_timer_start(&b->tick, br_tick, at > now ? (uint64_t)(at - now) : 0, 0);
}

void br_tick(uv_timer_t *t)
{
    struct bridge *b = t->data;
    int64_t now = ck_mono_ms();
    struct trk_cell *c = trk_active(b->trk);
    enum end_rung rung = c ? end_step(&c->ending, now) : END_OFF;
    if (rung == END_OFF && trk_winding(b->trk))
        rung = end_step(&b->winding, now);
    if (rung != END_OFF)
        climb(b, c, rung);
    if (b->interrupt_again_at && now >= b->interrupt_again_at)
        interrupt_again(b);
    if (b->interrupt_until && now >= b->interrupt_until)
        all_arrived(b);
    if (b->changes_until && now >= b->changes_until)
        br_changes_give_up(b);
    if (b->doomed_until && now >= b->doomed_until)
        br_kernel_unkillable(b);
    look_for_silence(b);
    if (b->state == BR_READY) {
        br_cells_dispatch(b);
        br_state_event(b, "");
    }
    br_retime(b);
}
