// Execution tracker: which cells wait, which one the kernel runs, and when one is finished. Follows
// executions of both doors: /v1 cells (its own queue, output collected) and execute_requests of
// Jupyter clients (only that they run, for the session's state and for artifacts). Pure: messages
// and times are passed in, it sends nothing. One thread.
//
//  phase        legal next
//  TRK_QUEUED   trk_take, cancel, kernel gone (stays), session dead
//  TRK_SENT     started by the kernel, aborted (back to QUEUED), kernel gone (back to QUEUED)
//  TRK_RUNNING  execute_reply and idle, in any order -> TRK_CLOSING; kernel gone, session dead
//  TRK_CLOSING  artifacts are being collected; trk_finish
#pragma once
#include "common/ck_crypto.h"
#include "common/ck_error.h"
#include "common/ck_frame.h"
#include "kernel-bridge/celljson.h"
#include "kernel-bridge/endings.h"
#include "kernel-bridge/jwire.h"

#define TRK_JUPYTER_MAX 1024      // executions of Jupyter clients under way; beyond, the oldest is forgotten
#define TRK_ABORT_RETRIES 3       // a cell aborted by another's error is sent again
#define TRK_QUIET_MS 4000         // silence after half of an end until the kernel is probed
#define TRK_GIVE_UP_MS 20000      // and then, although the probe was answered, until it is given up
#define TRK_LATE_MS 120000        // either, when iopub goes on speaking
#define TRK_MOVED_BYTES 8192      // more than what a probe makes a kernel say: a larger message is on its way
#define TRK_MOVED_MS 900000       // how long that counts
#define TRK_SENT_MS 10000         // silence after a cell was sent and does not begin
#define TRK_URL_PREFIX_MAX 512

enum trk_phase { TRK_QUEUED, TRK_SENT, TRK_RUNNING, TRK_CLOSING };
enum trk_reply { TRK_NO_REPLY, TRK_REPLY_OK, TRK_REPLY_ERROR };

struct trk_cell {
    char id[CK_UUID_MAX];
    char url_prefix[TRK_URL_PREFIX_MAX];
    struct ck_blob *code;      // owned
    int64_t timeout_ms;        // 0 = none
    bool silent, allow_stdin;
    enum trk_phase phase;
    uint64_t seq_first;        // of its first event
    uint64_t order;            // Jupyter executions older than this go first
    int64_t sent_ms, started_us, ended_us; // 0 = not yet; on the clock that the caller passes in
    enum trk_reply reply;
    bool idle, wants_input, cancelled, interrupted;
    bool interrupt_early;      // the interrupt was asked for before the kernel had said that the cell began
    unsigned aborts;
    bool resent;               // given to a second kernel, because the first one left without beginning it
    int64_t half_ms;           // when the first of reply and idle came, 0 = neither yet
    struct ending ending;
    struct cout out;
    struct trk_cell *next;     // in the queue
};

struct trk_spec {
    const char *id, *url_prefix;
    struct ck_slice code;
    int64_t timeout_ms;
    bool silent, allow_stdin;
};

// What a message meant.
struct trk_step {
    struct trk_cell *cell; // the /v1 cell it belongs to, while that is not finished
    bool started;          // the kernel began the cell
    bool replied;          // its code has ended: time to look for artifacts
    bool closing;          // reply and idle are both here
    bool broken;           // the kernel says other things on iopub, but never the cell's idle
    bool late_start;       // it begins a cell that was reported as ended already
    bool aborted;          // the kernel refused it because another cell failed: it is queued again
    bool input;            // it waits for stdin
    bool jupyter_replied;  // an execution of a Jupyter client has ended
    bool busy_changed;     // trk_busy changed
};

struct tracker;
struct tracker *trk_new(unsigned queue_max, size_t output_bytes);
void trk_free(struct tracker *t);
void trk_limits(struct tracker *t, unsigned queue_max, size_t output_bytes);

// 429 queue_full, 409 cell_exists (waiting or running). *out stays owned by the tracker.
int trk_queue(struct tracker *t, const struct trk_spec *spec, struct trk_cell **out, struct ck_err *err);
struct trk_cell *trk_find(const struct tracker *t, const char *id); // not finished ones only
struct trk_cell *trk_active(const struct tracker *t);               // sent, running or closing; NULL = none
unsigned trk_queued(const struct tracker *t);
struct trk_cell *trk_first_queued(const struct tracker *t); // NULL = none waits
// The cell that may be sent now: none is active and the Jupyter executions before it are through.
struct trk_cell *trk_ready(const struct tracker *t);
void trk_take(struct tracker *t, struct trk_cell *c, int64_t now_ms); // QUEUED -> SENT; must be trk_ready's
// The active cell is reported as ended while the kernel still runs it: until the kernel has come to
// rest (its reply and idle are here, or it is gone) nothing else is ready and the session is busy.
void trk_wind(struct tracker *t, const struct trk_cell *c);
bool trk_winding(const struct tracker *t);
// Takes a finished (or cancelled while queued) cell out; the caller then owns it.
void trk_finish(struct tracker *t, struct trk_cell *c);
void trk_cell_free(struct trk_cell *c);

// A Jupyter client's execute_request went to the kernel. header: its header, kept to answer for a
// kernel that dies (up to 4 KiB, else forgotten).
void trk_jupyter_sent(struct tracker *t, const char *msg_id, const char *session, struct ck_slice header);
bool trk_jupyter_running(const struct tracker *t);
// Pops the executions of Jupyter clients that were under way, oldest first, when their kernel is gone.
// header is valid until the next call. false = none left.
bool trk_jupyter_pop(struct tracker *t, char msg_id[JW_ID_MAX], char session[JW_ID_MAX], struct ck_slice *header);

void trk_message(struct tracker *t, enum jw_channel ch, const struct jw_head *head, const struct jw_head *parent,
                 struct ck_slice content, int64_t now_us, struct trk_step *out);

// The kernel of a restored VM may run something that this tracker has not sent: from trk_inherited
// until trk_rested (or the kernel is gone) the session is busy and nothing is ready.
void trk_inherited(struct tracker *t);
void trk_rested(struct tracker *t);

// The kernel is gone: a SENT cell goes back to the head of the queue. A RUNNING or CLOSING one stays
// active: the caller ends it. Nothing is busy any more.
void trk_kernel_gone(struct tracker *t);
bool trk_busy(const struct tracker *t);

// Watches for what never comes: the other half of an end, or the start of a cell that was sent.
// TRK_PROBE: ask the kernel something on its control channel, which makes it speak on iopub too, and
// tell trk_probed what came of it. TRK_BROKEN: it answers, but what the client waits for cannot come
// any more: the kernel has to be replaced, and the active cell (if any) ended.
// A message that is on its way is no silence, however large and slow: before trk_quiet is asked when
// its time has come, trk_moved is told how many bytes the kernel has sent until now.
enum trk_due { TRK_NOTHING, TRK_PROBE, TRK_BROKEN };
void trk_moved(struct tracker *t, uint64_t received, int64_t now_ms);
enum trk_due trk_quiet(struct tracker *t, int64_t now_ms);
enum trk_due trk_probed(struct tracker *t, bool answered, int64_t now_ms); // false: not within its deadline
int64_t trk_quiet_at(const struct tracker *t); // INT64_MAX = not needed

// How a cell that came to its own end (reply and idle) is called.
enum cell_status trk_status(const struct trk_cell *c);
