// The pool. Its whole policy is in kick(): how many launches should be under way right now.
#include "gateway/pool_internal.h"

#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/bridge_end.h"

#include <stdlib.h>
#include <string.h>

#define REFILL_DELAY_MS 1500  // a session that was just handed out gets the processor first
#define ROOM_POLL_MS 500      // while the host has no memory left
#define ADOPT_MS 250          // bridges of an earlier gateway come before new ones
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 30000

static void on_timer(uv_timer_t *t);

struct pool *pool_new(uv_loop_t *loop, struct launcher *l, int size)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->loop = loop;
    p->launcher = l;
    p->size = size;
    p->waiters_end = &p->waiters;
    uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    return p;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    free(p->ready);
    free(p);
}

size_t pool_ready(const struct pool *p)
{
    return p->nready;
}

size_t pool_waiting(const struct pool *p)
{
    return p->nwaiters;
}

size_t pool_failures(const struct pool *p)
{
    return p->failures;
}

bool pool_able(const struct pool *p)
{
    return !p->closing && (p->nready || (!p->no_room && (!p->size || (p->proven && !p->backoff_ms))));
}

bool pool_no_room(const struct pool *p)
{
    return p->no_room;
}

void pool_soon(struct pool *p, int64_t ms)
{
    if (!p->timer_closed)
        uv_timer_start(&p->timer, on_timer, (uint64_t)ms, 0);
}

static void answer_first(struct pool *p, struct bridge_proc *b, const struct ck_err *err)
{
    struct waiter *w = p->waiters;
    p->waiters = w->next;
    if (!p->waiters)
        p->waiters_end = &p->waiters;
    p->nwaiters--;
    w->done(w->user, b, err);
    free(w);
}

void pool_maybe_closed(struct pool *p)
{
    if (!p->closing || p->launching || p->ending || !p->closed)
        return;
    void (*closed)(void *) = p->closed;
    p->closed = NULL;
    closed(p->closed_user);
}

struct pool_ending {
    struct pool *pool;
    struct bridge_proc *b;
};

static void on_bridge_ended(void *user)
{
    struct pool_ending *e = user;
    bridge_proc_free(e->b);
    e->pool->ending--;
    pool_maybe_closed(e->pool);
    free(e);
}

void pool_end_bridge(struct pool *p, struct bridge_proc *b)
{
    struct pool_ending *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->pool = p;
    e->b = b;
    p->ending++;
    bridge_end(p->loop, b->dir, b->socket, b->proc, "the gateway stops", on_bridge_ended, e);
}

static void keep(struct pool *p, struct bridge_proc *b)
{
    if (p->nready == p->room) {
        size_t room = p->room ? 2 * p->room : 8;
        struct bridge_proc **grown = realloc(p->ready, room * sizeof *grown);
        if (!grown)
            abort();
        p->ready = grown;
        p->room = room;
    }
    p->ready[p->nready++] = b;
    p->proven = true;
    pool_soon(p, 0);
}

static void kick(struct pool *p);

static void on_launched(void *user, struct bridge_proc *b, const struct ck_err *err)
{
    struct pool *p = user;
    p->launching--;
    if (err && err->status == 503 && p->closing) {
        pool_maybe_closed(p);
        return;
    }
    if (err) {
        p->failures++;
        p->backoff_ms = p->backoff_ms ? 2 * p->backoff_ms : BACKOFF_MIN_MS;
        if (p->backoff_ms > BACKOFF_MAX_MS)
            p->backoff_ms = BACKOFF_MAX_MS;
        p->not_before = ck_mono_ms() + p->backoff_ms;
        ck_log(CK_LOG_WARN, "pool", "launch_failed retry_ms=%lld error=\"%s\"", (long long)p->backoff_ms, err->text);
        if (p->waiters)
            answer_first(p, NULL, err);
    } else {
        p->backoff_ms = 0;
        if (p->closing)
            pool_end_bridge(p, b);
        else
            keep(p, b);
    }
    pool_soon(p, 0);
    pool_maybe_closed(p);
}

static size_t count(const struct waiter *w)
{
    size_t n = 0;
    for (; w && n < LAUNCHES_FOR_WAITERS; w = w->next)
        n++;
    return n;
}

// Launches under way: one to fill the pool, more for those who wait (who are not held back by an
// earlier failure: each gets its own try).
static void kick(struct pool *p)
{
    int64_t now = ck_mono_ms();
    if (p->closing)
        return;
    p->no_room = false;
    while (p->launching < LAUNCHES_FOR_WAITERS && p->launching < count(p->waiters) && pool_has_room(p)) {
        p->launching++;
        launcher_start(p->launcher, NULL, true, on_launched, p);
    }
    other_kick(p);
    if (!p->filling || p->launching || p->nready >= (size_t)p->size)
        return;
    if (now < p->not_before) {
        pool_soon(p, p->not_before - now);
        return;
    }
    if (!pool_has_room(p))
        return;
    p->launching++;
    launcher_start(p->launcher, NULL, false, on_launched, p);
}

bool pool_has_room(struct pool *p)
{
    bool room = launcher_has_room(p->launcher, NULL);
    p->no_room = !room && !p->launching;
    if (!room)
        pool_soon(p, ROOM_POLL_MS);
    return room;
}

void pool_refuse(const struct pool *p, struct ck_err *err)
{
    int64_t have;
    if (p->no_room && !launcher_has_room(p->launcher, &have))
        ck_fail(err, 503, "no_capacity", "the host has too little memory left for another session (%lld MiB, see "
                "--memory-reserve-mb); pause or delete others, or try again later", (long long)have);
    else
        ck_fail(err, 503, "no_capacity", "no session became ready in time; try again");
}

static void expire_waiters(struct pool *p, int64_t now)
{
    struct ck_err err = CK_ERR_INIT;
    // all wait equally long: the first is the next
    while (p->waiters && (now >= p->waiters->deadline || (p->no_room && now >= p->waiters->since + NO_ROOM_MS))) {
        pool_refuse(p, &err);
        answer_first(p, NULL, &err);
    }
}

static void on_timer(uv_timer_t *t)
{
    struct pool *p = t->data;
    int64_t now = ck_mono_ms();
    while (p->nready && p->waiters && !p->closing) {
        struct bridge_proc *b = p->ready[0]; // the oldest
        memmove(p->ready, p->ready + 1, --p->nready * sizeof *p->ready);
        answer_first(p, b, NULL);
        if (p->not_before < now + REFILL_DELAY_MS)
            p->not_before = now + REFILL_DELAY_MS;
    }
    // More than were asked for: a machine of an earlier gateway was found while one was being started, or one
    // was started for somebody who left.
    while (p->nready > (size_t)p->size && !p->closing)
        pool_end_bridge(p, p->ready[--p->nready]);
    expire_waiters(p, now);
    other_expire(p, now);
    kick(p);
    int64_t first = p->waiters ? p->waiters->deadline : 0, other = other_next_deadline(p);
    if (other && (!first || other < first))
        first = other;
    if (first && !uv_is_active((uv_handle_t *)t))
        pool_soon(p, first > now ? first - now : 0);
}

void pool_fill(struct pool *p)
{
    p->filling = true;
    pool_soon(p, ADOPT_MS);
}

void pool_get(struct pool *p, const struct layer_origin *from, pool_got done, void *user)
{
    if (from) {
        other_add(p, from, done, user);
        return;
    }
    struct waiter *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->done = done;
    w->user = user;
    w->since = ck_mono_ms();
    w->deadline = p->nwaiters < WAITERS_MAX && !p->closing ? ck_mono_ms() + WAIT_MS : 0; // 0: refused by the timer
    if (w->deadline) {
        *p->waiters_end = w;
        p->waiters_end = &w->next;
    } else { // ahead of the others, so that only this one expires
        w->next = p->waiters;
        p->waiters = w;
        if (!w->next)
            p->waiters_end = &w->next;
    }
    p->nwaiters++;
    pool_soon(p, 0);
}

void pool_adopt(struct pool *p, struct bridge_proc *b)
{
    if (p->closing || p->nready >= (size_t)p->size)
        pool_end_bridge(p, b);
    else
        keep(p, b);
}

void pool_close(struct pool *p, void (*closed)(void *user), void *user)
{
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 503, "draining", "the gateway is shutting down");
    p->closing = true;
    p->closed = closed;
    p->closed_user = user;
    while (p->waiters)
        answer_first(p, NULL, &err);
    other_fail_all(p, &err);
    while (p->nready)
        pool_end_bridge(p, p->ready[--p->nready]);
    p->timer_closed = true;
    uv_close((uv_handle_t *)&p->timer, NULL);
    pool_maybe_closed(p);
}
