// Sessions of templates other than the gateway's own: launched when somebody asks, in the same bounds as
// those who wait for the pool. One that fails tells its own asker and delays nobody else.
#include "gateway/pool_internal.h"

#include "common/ck_log.h"
#include "common/ck_time.h"

#include <stdlib.h>

static void answer(struct other *o, struct bridge_proc *b, const struct ck_err *err)
{
    pool_got done = o->done;
    o->done = NULL;
    o->pool->nwaiters--;
    done(o->user, b, err);
}

static void drop(struct other *o)
{
    struct other **at = &o->pool->others;
    while (*at && *at != o)
        at = &(*at)->next;
    if (*at)
        *at = o->next;
    free(o);
}

static void on_launched(void *user, struct bridge_proc *b, const struct ck_err *err)
{
    struct other *o = user;
    struct pool *p = o->pool;
    p->launching--;
    if (err) {
        p->failures += !p->closing;
        ck_log(CK_LOG_WARN, "pool", "launch_failed template=%s error=\"%s\"", o->from.template, err->text);
    }
    if (o->done)
        answer(o, b, err);
    else if (b)
        pool_end_bridge(p, b); // nobody waits any more
    drop(o);
    pool_soon(p, 0);
    pool_maybe_closed(p);
}

void other_add(struct pool *p, const struct layer_origin *from, pool_got done, void *user)
{
    struct other *o = calloc(1, sizeof *o), **end = &p->others;
    if (!o)
        abort();
    *o = (struct other){.pool = p, .from = *from, .done = done, .user = user, .since = ck_mono_ms()};
    o->deadline = p->nwaiters < WAITERS_MAX && !p->closing ? o->since + WAIT_MS : o->since; // the latter: refused by the timer
    while (*end)
        end = &(*end)->next;
    *end = o;
    p->nwaiters++;
    pool_soon(p, 0);
}

void other_kick(struct pool *p)
{
    for (struct other *o = p->others; o && p->launching < LAUNCHES_FOR_WAITERS; o = o->next) {
        if (o->launched || !o->done)
            continue;
        if (!pool_has_room(p))
            return;
        o->launched = true;
        p->launching++;
        launcher_start(p->launcher, &o->from, true, on_launched, o);
    }
}

void other_expire(struct pool *p, int64_t now)
{
    struct other *next;
    struct ck_err err = CK_ERR_INIT;
    for (struct other *o = p->others; o; o = next) {
        next = o->next;
        if (!o->done || (now < o->deadline && (o->launched || !p->no_room || now < o->since + NO_ROOM_MS)))
            continue;
        pool_refuse(p, &err);
        answer(o, NULL, &err);
        if (!o->launched)
            drop(o);
    }
}

int64_t other_next_deadline(const struct pool *p)
{
    int64_t first = 0;
    for (const struct other *o = p->others; o; o = o->next)
        if (o->done && (!first || o->deadline < first))
            first = o->deadline;
    return first;
}

void other_fail_all(struct pool *p, const struct ck_err *err)
{
    struct other *next;
    for (struct other *o = p->others; o; o = next) {
        next = o->next;
        if (o->done)
            answer(o, NULL, err);
        if (!o->launched)
            drop(o);
    }
}
