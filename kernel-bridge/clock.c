// The guest's wall clock. What `personalise` sets is late by the time that the request took into a guest
// which has only just come to life, some tenths of a second under emulation. So the clock is set again
// over the connection that is there by then: the round trip is measured, half of it is added, and a
// round that was slow is repeated.
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"

#define ROUNDS_MAX 5
#define GOOD_US 60000 // between the round trip that was expected and the one that it was: half of it is the error

static void ask(struct bridge *b);

static void finish(struct bridge *b, const struct ck_err *err)
{
    void (*done)(struct bridge *, const struct ck_err *) = b->clock.done;
    b->clock.done = NULL;
    ck_log(CK_LOG_INFO, "bridge", "clock id=%s rounds=%u best_us=%lld", b->conf.id, b->clock.rounds,
           (long long)b->clock.best_us);
    if (done)
        done(b, err);
}

static void answered(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    int64_t took = ck_mono_us() - b->clock.asked_us;
    (void)answer;
    (void)payload;
    if (!b->clock.done)
        return;
    if (!b->clock.best_us || took < b->clock.best_us)
        b->clock.best_us = took;
    int64_t off = took - b->clock.expected_us; // of the first round, which expects nothing, all of it
    bool good = off < GOOD_US && off > -GOOD_US;
    if (err || good || b->clock.rounds == ROUNDS_MAX)
        finish(b, err);
    else
        ask(b);
}

static void ask(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    b->clock.rounds++;
    b->clock.expected_us = b->clock.best_us;
    b->clock.asked_us = ck_mono_us();
    json_int_t there = ck_wall_us() + b->clock.best_us / 2;
    json_t *o = json_pack("{s:s,s:I}", "op", "set_time", "time_us", there);
    if (ac_request(b->ac, o, ck_slice("", 0), BR_AGENT_MS, answered, b, &err) < 0)
        finish(b, &err);
}

void br_clock_set(struct bridge *b, void (*done)(struct bridge *b, const struct ck_err *err))
{
    b->clock.done = done;
    b->clock.rounds = 0;
    b->clock.best_us = 0;
    ask(b);
}
