// The ladder as a table walk. Must never skip a rung: late timers climb one rung a call.
#include "kernel-bridge/endings.h"

#include <assert.h>
#include <stddef.h>

static const struct {
    const char *name, *tried;
} rungs[] = {
    [END_OFF] = {"", ""},
    [END_ARMED] = {"", ""},
    [END_INTERRUPTED] = {"interrupt", "it was interrupted; variables are kept"},
    [END_SIGNALLED] = {"sigint", "an interrupt and SIGINT were sent; variables are kept"},
    [END_REPORTED] = {"sigint", "an interrupt and SIGINT were sent and it has not come to rest yet; if it does within "
                                "some seconds variables are kept, else a fresh kernel starts and only files are kept"},
    [END_KILLED] = {"sigkill", "it did not react to an interrupt and SIGINT, so the kernel was killed; a fresh kernel "
                               "starts, files are kept, variables are lost"},
    [END_VM_KILLED] = {"vm_kill", "neither interrupt, SIGINT nor SIGKILL had an effect, so the VM was stopped"},
};
static_assert(sizeof rungs / sizeof *rungs == END_RUNGS, "words for each rung");

const char *end_rung_name(enum end_rung r) { return rungs[r].name; }
const char *end_tried(enum end_rung r) { return rungs[r].tried; }
bool end_begun(const struct ending *e) { return e->rung > END_ARMED; }

void end_arm(struct ending *e, int64_t now, int64_t timeout_ms)
{
    *e = (struct ending){.rung = timeout_ms > 0 ? END_ARMED : END_OFF, .why = END_TIMEOUT};
    e->at = e->due = timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
}

void end_cancel(struct ending *e, int64_t now)
{
    if (!end_begun(e))
        *e = (struct ending){.rung = END_ARMED, .why = END_CANCEL, .at = now, .due = now};
}

void end_off(struct ending *e) { e->off = true; }

int64_t end_next(const struct ending *e)
{
    return e->off || e->rung == END_OFF || e->rung == END_VM_KILLED ? INT64_MAX : e->at;
}

static int64_t gap_after(const struct ending *e)
{
    if (e->rung == END_KILLED)
        return END_GRACE_MS;
    if (e->why == END_CANCEL)
        return END_CANCEL_MS;
    return e->rung == END_INTERRUPTED ? END_SIGNAL_MS : e->rung == END_SIGNALLED ? END_REPORT_MS : END_KILL_MS;
}

enum end_rung end_step(struct ending *e, int64_t now)
{
    int64_t next = end_next(e);
    if (next == INT64_MAX || next > now)
        return END_OFF;
    e->rung++;
    if (e->rung == END_REPORTED && e->why == END_CANCEL)
        e->rung++; // its client was answered when it asked
    e->at = now + gap_after(e);
    return e->rung;
}
