// How a running cell is brought to an end: the ladder from a polite interrupt to killing the kernel
// and then the VM. A pure state machine; the caller passes the time, does what it says, and reports.
//
//   timeout  cancel
//   +0       +0      interrupt_request on the control channel
//   +400     +2000   SIGINT through the agent
//   +800             the cell is reported as ended, its kernel may still come to rest
//   +5000    +4000   SIGKILL of all of the kernel's processes (a fresh kernel starts)
//   +60 s more       the agent did not deliver: the VM goes. A fork bomb in an emulated machine on a loaded
//                    host takes its time to die, and nobody but the next cell waits for it
//
// Reporting comes before killing because an interrupt that works may take its time: `finally` blocks,
// and under emulation even a traceback. Clients hear within a second; variables are lost only when
// five seconds were not enough.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum end_rung {
    END_OFF,
    END_ARMED,
    END_INTERRUPTED,
    END_SIGNALLED,
    END_REPORTED,
    END_KILLED,
    END_VM_KILLED,
    END_RUNGS
};
enum end_why { END_TIMEOUT, END_CANCEL };

#define END_SIGNAL_MS 400 // from rung to rung, timeouts
#define END_REPORT_MS 400
#define END_KILL_MS 4200
#define END_CANCEL_MS 2000 // the same, cancelled cells
#define END_GRACE_MS 60000

struct ending {
    enum end_rung rung; // the highest one taken
    enum end_why why;
    bool off;           // the cell has ended: nothing more is due
    int64_t at;         // ms of the next step
    int64_t due;        // ms when the cell's time was up, or when it was cancelled
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
