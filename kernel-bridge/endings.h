// How a running cell is brought to an end: the ladder from a polite interrupt to killing the kernel
// and then the VM. A pure state machine; the caller passes the time, does what it says, and reports.
//
//   after the deadline:  +0     interrupt_request on the control channel
//                        +400   SIGINT through the agent
//                        +900   SIGKILL of the kernel's process group (a fresh kernel starts)
//                        +15 s  the agent did not deliver: the VM goes
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum end_rung { END_OFF, END_ARMED, END_INTERRUPTED, END_SIGNALLED, END_KILLED, END_VM_KILLED, END_RUNGS };
enum end_why { END_TIMEOUT, END_CANCEL };

// All inside a second, as promised for timeouts. The last step gets what is left of it: a kernel that
// was interrupted may be busy with the traceback, which takes its time under emulation.
#define END_GAP_TIMEOUT_MS 400
#define END_GAP_KILL_MS 500
#define END_GAP_CANCEL_MS 2000 // a cancelled cell gets longer to clean up: its kernel state is worth keeping
#define END_GRACE_MS 15000

struct ending {
    enum end_rung rung; // the highest one taken
    enum end_why why;
    bool off;           // the cell has ended: nothing more is due
    int64_t at;         // ms of the next step
};

void end_arm(struct ending *e, int64_t now, int64_t timeout_ms); // timeout_ms <= 0: never
void end_cancel(struct ending *e, int64_t now);                  // starts the ladder now
void end_off(struct ending *e);                                  // the cell has ended
// The next rung when it is due (the ladder has then moved on to it), else END_OFF.
enum end_rung end_step(struct ending *e, int64_t now);
int64_t end_next(const struct ending *e); // when to call again; INT64_MAX = not needed
bool end_begun(const struct ending *e);   // some rung was taken
const char *end_rung_name(enum end_rung r); // machine word: interrupt, sigint, sigkill, vm_kill
const char *end_tried(enum end_rung r);     // words: what was tried up to this rung
