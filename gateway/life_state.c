// One table of verdicts for a session with nothing under way, and a few rules for one that has.
#include "gateway/life_state.h"

#include <assert.h>

static const char *const OP_NAMES[] = {
    [LIFE_NONE] = "",         [LIFE_PAUSE] = "pause", [LIFE_RESUME] = "resume",     [LIFE_CHECKPOINT] = "checkpoint",
    [LIFE_ROLLBACK] = "rollback", [LIFE_FORK] = "fork",   [LIFE_FORGET] = "forget",
};
static_assert(sizeof OP_NAMES / sizeof OP_NAMES[0] == LIFE_OPS, "a name for every operation");

static const char *const DOING[] = {
    [LIFE_NONE] = "",           [LIFE_PAUSE] = "paused", [LIFE_RESUME] = "resumed",
    [LIFE_CHECKPOINT] = "checkpointed", [LIFE_ROLLBACK] = "rolled back", [LIFE_FORK] = "forked",
    [LIFE_FORGET] = "changed",
};
static_assert(sizeof DOING / sizeof DOING[0] == LIFE_OPS, "a word for every operation");

#define BAD LIFE_REFUSED
static const enum life_verdict REST[LIFE_OPS][SESSION_DEAD + 1] = {
    //                   starting      idle          busy          paused             dead
    [LIFE_NONE] =       {BAD,          BAD,          BAD,          BAD,               BAD},
    [LIFE_PAUSE] =      {BAD,          LIFE_GO,      LIFE_GO,      LIFE_ALREADY,      BAD},
    [LIFE_RESUME] =     {LIFE_ALREADY, LIFE_ALREADY, LIFE_ALREADY, LIFE_GO,           BAD},
    [LIFE_CHECKPOINT] = {BAD,          LIFE_GO,      LIFE_GO,      LIFE_GO,           BAD},
    [LIFE_ROLLBACK] =   {BAD,          LIFE_GO,      LIFE_GO,      LIFE_RESUME_FIRST, BAD},
    [LIFE_FORK] =       {BAD,          LIFE_GO,      LIFE_GO,      LIFE_GO,           BAD},
    [LIFE_FORGET] =     {LIFE_GO,      LIFE_GO,      LIFE_GO,      LIFE_GO,           LIFE_GO},
};
static_assert(SESSION_STARTING == 0 && SESSION_IDLE == 1 && SESSION_BUSY == 2 && SESSION_PAUSED == 3 && SESSION_DEAD == 4,
              "the columns of the table");
#undef BAD

const char *life_op_name(enum life_op op)
{
    return OP_NAMES[op];
}

static enum life_verdict refuse_state(enum life_op op, enum session_state state, struct ck_err *err)
{
    if (state == SESSION_DEAD)
        ck_fail(err, 410, "session_dead", "the session has ended; delete it and create a new one");
    else
        ck_fail(err, 409, "bad_state", "the session is %s and cannot be %s now; try again when it is idle",
                session_state_name(state), DOING[op]);
    return LIFE_REFUSED;
}

enum life_verdict life_judge(enum life_op op, enum session_state state, enum life_op running, struct ck_err *err)
{
    if (running == LIFE_NONE) {
        enum life_verdict v = REST[op][state];
        return v == LIFE_REFUSED ? refuse_state(op, state, err) : v;
    }
    if (running == op && (op == LIFE_PAUSE || op == LIFE_RESUME))
        return LIFE_JOIN;
    if (op == LIFE_RESUME)
        return life_reachable(state, running) ? LIFE_ALREADY : LIFE_AFTER;
    ck_fail(err, 409, "life_busy", "the session is %s and being %s at the moment; try again when that has ended",
            session_state_name(state), DOING[running]);
    return LIFE_REFUSED;
}

bool life_reachable(enum session_state state, enum life_op running)
{
    return state != SESSION_PAUSED && running != LIFE_PAUSE && running != LIFE_RESUME;
}
