// One cell from its acceptance to its end, for the doors whose clients wait for it: the cell API and
// MCP. Loop thread only.
#pragma once
#include "common/ck_crypto.h"
#include "gateway/serve.h"
#include "gateway/v1_body.h"
#include "gateway/v1_event.h"

struct cell_run; // opaque

struct cell_run_events {
    void (*on_accepted)(void *user); // optional: the cell waits or runs
    // Optional: an event of the cell that clients may see. Not 0: no more until cell_run_resume().
    int (*on_event)(void *user, const json_t *h, const struct ck_frame *f, const struct v1_event *ev);
    // The end, one of the two, once, from the loop; the run is gone when it returns. finished is the
    // cell as JSON, seq its last event's number (0 = unknown), both valid during the call.
    void (*on_done)(void *user, uint64_t seq, struct ck_slice finished);
    void (*on_fail)(void *user, const struct ck_err *err);
};

// Sends the cell. Takes what body owns, whatever the outcome. url_prefix (borrowed during the call)
// begins the links of artifacts. NULL with err, and then no event.
struct cell_run *cell_run_start(struct gateway *gw, struct session *s, struct v1_cell_body *body,
                                const char *url_prefix, const struct cell_run_events *ev, void *user,
                                struct ck_err *err);
const char *cell_run_id(const struct cell_run *run); // of the cell
// Cancels the cell: it ends as "cancelled" and on_done follows.
void cell_run_cancel(struct cell_run *run);
void cell_run_resume(struct cell_run *run);
// Nobody waits any more: no event follows, run is not to be used. The cell goes on, and gets the lines
// for input() that came with it.
void cell_run_leave(struct cell_run *run);
