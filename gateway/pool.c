// The pool. Its whole policy is in kick(): how many launches should be under way right now.
#include "gateway/pool.h"

#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/bridge_end.h"

#include <stdlib.h>
#include <string.h>

#define WAITERS_MAX 64
#define WAIT_MS 38000         // clients of jupyter-server give up after 42 s
#define LAUNCHES_FOR_WAITERS 4
#define REFILL_DELAY_MS 1500  // a session that was just handed out gets the processor first
#define ADOPT_MS 250          // bridges of an earlier gateway come before new ones
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 30000

struct waiter {
    struct waiter *next;
    pool_got done;
    void *user;
    int64_t deadline;
};

struct pool {
    uv_loop_t *loop;
    struct launcher *launcher;
    uv_timer_t timer; // hands out what is ready, times waiters out, ends a back-off
    bool timer_closed;
    int size;
    bool filling, closing, proven; // proven: at least one launch has worked
    struct bridge_proc **ready; // room for `room`
    size_t nready, room;
    struct waiter *waiters, **waiters_end;
    size_t nwaiters, launching, ending, failures;
    int64_t backoff_ms, not_before;
    void (*closed)(void *user);
    void *closed_user;
};

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
    return !p->closing && (p->nready || !p->size || (p->proven && !p->backoff_ms));
}

static void soon(struct pool *p, int64_t ms)
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

static void maybe_closed(struct pool *p)
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
    maybe_closed(e->pool);
    free(e);
}

static void end_bridge(struct pool *p, struct bridge_proc *b)
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
    soon(p, 0);
}

static void kick(struct pool *p);

static void on_launched(void *user, struct bridge_proc *b, const struct ck_err *err)
{
    struct pool *p = user;
    p->launching--;
    if (err && err->status == 503 && p->closing) {
        maybe_closed(p);
        return;
    }
    if (err) {
        p->failures++;
        p->backoff_ms = p->backoff_ms ? 2 * p->backoff_ms : BACKOFF_MIN_MS;
        if (p->backoff_ms > BACKOFF_MAX_MS)
            p->backoff_ms = BACKOFF_MAX_MS;
        p->not_before = ck_mono_ms() + p->backoff_ms;
        ck_log(CK_LOG_WARN, "pool", "launch_failed retry_ms=%lld error=\"%s\"", (long long)p->backoff_ms, err->text);
        if (p->nwaiters)
            answer_first(p, NULL, err);
    } else {
        p->backoff_ms = 0;
        if (p->closing)
            end_bridge(p, b);
        else
            keep(p, b);
    }
    soon(p, 0);
    maybe_closed(p);
}

// Launches under way: one to fill the pool, more for those who wait (who are not held back by an
// earlier failure: each gets its own try).
static void kick(struct pool *p)
{
    int64_t now = ck_mono_ms();
    if (p->closing)
        return;
    size_t waiting = p->nwaiters < LAUNCHES_FOR_WAITERS ? p->nwaiters : LAUNCHES_FOR_WAITERS;
    while (p->launching < waiting) {
        p->launching++;
        launcher_start(p->launcher, on_launched, p);
    }
    if (!p->filling || p->launching || p->nready >= (size_t)p->size)
        return;
    if (now < p->not_before) {
        soon(p, p->not_before - now);
        return;
    }
    p->launching++;
    launcher_start(p->launcher, on_launched, p);
}

static void expire_waiters(struct pool *p, int64_t now)
{
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 503, "no_capacity", "no session became ready in time; try again");
    while (p->waiters && now >= p->waiters->deadline) // all wait equally long: the first is the next
        answer_first(p, NULL, &err);
}

static void on_timer(uv_timer_t *t)
{
    struct pool *p = t->data;
    int64_t now = ck_mono_ms();
    while (p->nready && p->nwaiters && !p->closing) {
        struct bridge_proc *b = p->ready[0]; // the oldest
        memmove(p->ready, p->ready + 1, --p->nready * sizeof *p->ready);
        answer_first(p, b, NULL);
        if (p->not_before < now + REFILL_DELAY_MS)
            p->not_before = now + REFILL_DELAY_MS;
    }
    expire_waiters(p, now);
    kick(p);
    if (p->waiters && !uv_is_active((uv_handle_t *)t))
        soon(p, p->waiters->deadline > now ? p->waiters->deadline - now : 0);
}

void pool_fill(struct pool *p)
{
    p->filling = true;
    soon(p, ADOPT_MS);
}

void pool_get(struct pool *p, pool_got done, void *user)
{
    struct waiter *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->done = done;
    w->user = user;
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
    soon(p, 0);
}

void pool_adopt(struct pool *p, struct bridge_proc *b)
{
    if (p->closing || p->nready >= (size_t)p->size)
        end_bridge(p, b);
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
    while (p->nready)
        end_bridge(p, p->ready[--p->nready]);
    p->timer_closed = true;
    uv_close((uv_handle_t *)&p->timer, NULL);
    maybe_closed(p);
}
