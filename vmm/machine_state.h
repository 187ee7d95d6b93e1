// The life-cycle of a machine as a pure transition function: no I/O, no clock.
#pragma once
#include <stdbool.h>

//                      operations allowed in it
enum ck_machine_state {
    CK_MACHINE_NEW,      // start
    CK_MACHINE_STARTING, // (kill)             the process runs, QMP is being negotiated
    CK_MACHINE_PREPARED, // restore, quit      waits for a device state
    CK_MACHINE_LOADING,  // (kill)
    CK_MACHINE_STOPPED,  // cont, save, checkpoint, quit   vCPUs are not running
    CK_MACHINE_RUNNING,  // stop, checkpoint, quit
    CK_MACHINE_QUITTING, // (kill)
    CK_MACHINE_GONE,     // nothing
};

enum ck_machine_event {
    CK_MEV_SPAWNED,      // the process exists
    CK_MEV_QMP_INCOMING, // capabilities negotiated, waits for a device state
    CK_MEV_QMP_RUNNING,  // capabilities negotiated, boots
    CK_MEV_LOAD,         // migrate-incoming accepted
    CK_MEV_LOADED,       // the migration completed
    CK_MEV_LOAD_FAILED,
    CK_MEV_RESUMED,      // vCPUs run
    CK_MEV_PAUSED,       // vCPUs stopped (by us, or by the guest: shutdown with -no-shutdown, panic)
    CK_MEV_QUIT,         // told to end
    CK_MEV_EXITED,       // the process is gone
};

enum ck_machine_op {
    CK_MOP_START,
    CK_MOP_RESTORE,
    CK_MOP_CONT,
    CK_MOP_STOP,
    CK_MOP_SAVE,
    CK_MOP_QUIT,
    CK_MOP_CONSOLE,
    CK_MOP_CHECKPOINT,
};

// True and *state moved on when the event is legal in it; else false and *state unchanged.
bool ck_machine_next(enum ck_machine_state *state, enum ck_machine_event event);
bool ck_machine_allows(enum ck_machine_state state, enum ck_machine_op op);
const char *ck_machine_state_name(enum ck_machine_state state);
const char *ck_machine_op_name(enum ck_machine_op op);
