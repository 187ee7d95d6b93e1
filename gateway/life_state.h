// The rules of a session's life: which operation may begin in which state, and what becomes of one
// that meets another. Pure.
//
//  state       may begin
//  starting    resume (nothing to do), forget
//  idle, busy  pause (the bridge refuses a busy one), checkpoint, rollback, fork, forget
//  paused      resume, checkpoint and fork (of the layer that is there), rollback (after a resume), forget
//  dead        forget
//
// One operation at a time. Deleting is not one of them: it is always allowed and ends what runs.
#pragma once
#include "common/ck_error.h"
#include "gateway/registry.h"

enum life_op {
    LIFE_NONE,
    LIFE_PAUSE,
    LIFE_RESUME,
    LIFE_CHECKPOINT,
    LIFE_ROLLBACK,
    LIFE_FORK,
    LIFE_FORGET, // of a checkpoint
    LIFE_OPS,
};
const char *life_op_name(enum life_op op); // "pause" …; "" for none

enum life_verdict {
    LIFE_REFUSED = -1,  // err says why: 409 life_busy, 409 bad_state, 410 session_dead
    LIFE_GO = 0,
    LIFE_ALREADY,       // nothing to do: it is so
    LIFE_JOIN,          // the same is under way: its end is this one's
    LIFE_AFTER,         // ask again when what is under way has ended
    LIFE_RESUME_FIRST,  // and then ask again
};
enum life_verdict life_judge(enum life_op op, enum session_state state, enum life_op running, struct ck_err *err);

// May a request reach the session's bridge right now? False while it is paused, being paused or resumed.
bool life_reachable(enum session_state state, enum life_op running);
