// zmq_poll over a small table. Callbacks may add and remove watches and timers, their own too.
// Nothing in here waits without a reason: with no timer set the wait is endless, so that an idle
// guest does not wake up.
#include "guest/agent/loop.h"

#include "common/ck_time.h"

#include <errno.h>
#include <stdlib.h>
#include <zmq.h>

struct watch {
    int fd;       // -1 for the ZMQ socket
    void *socket; // NULL for a descriptor
    short events;
    bool used;
    uint32_t gen; // tells a reused slot from the one that was polled
    ag_watch_fn *fn;
    void *ctx;
};

struct ag_loop {
    struct watch watch[AG_LOOP_WATCHES];
    uint32_t gen;
    struct ag_timer *timers; // soonest first
};

struct ag_loop *ag_loop_new(void) { return calloc(1, sizeof(struct ag_loop)); }
void ag_loop_free(struct ag_loop *l) { free(l); }

static int add(struct ag_loop *l, struct watch w)
{
    for (int i = 0; i < AG_LOOP_WATCHES; i++)
        if (!l->watch[i].used) {
            w.used = true;
            w.gen = ++l->gen;
            l->watch[i] = w;
            return 0;
        }
    return -1;
}

int ag_loop_watch(struct ag_loop *l, int fd, short events, ag_watch_fn *fn, void *ctx)
{
    return add(l, (struct watch){.fd = fd, .events = events, .fn = fn, .ctx = ctx});
}

int ag_loop_watch_zmq(struct ag_loop *l, void *socket, ag_watch_fn *fn, void *ctx)
{
    return add(l, (struct watch){.fd = -1, .socket = socket, .events = ZMQ_POLLIN, .fn = fn, .ctx = ctx});
}

static struct watch *find(struct ag_loop *l, int fd)
{
    for (int i = 0; i < AG_LOOP_WATCHES; i++)
        if (l->watch[i].used && !l->watch[i].socket && l->watch[i].fd == fd)
            return &l->watch[i];
    return NULL;
}

void ag_loop_events(struct ag_loop *l, int fd, short events)
{
    struct watch *w = find(l, fd);
    if (w)
        w->events = events;
}

void ag_loop_unwatch(struct ag_loop *l, int fd)
{
    struct watch *w = fd >= 0 ? find(l, fd) : NULL;
    if (w)
        *w = (struct watch){.fd = -1};
}

void ag_loop_after(struct ag_loop *l, struct ag_timer *t, int64_t ms)
{
    ag_loop_cancel(l, t);
    t->due = ck_mono_ms() + ms;
    struct ag_timer **at = &l->timers;
    while (*at && (*at)->due <= t->due)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void ag_loop_cancel(struct ag_loop *l, struct ag_timer *t)
{
    for (struct ag_timer **at = &l->timers; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    t->due = 0;
    t->next = NULL;
}

static void run_timers(struct ag_loop *l)
{
    int64_t now = ck_mono_ms();
    while (l->timers && l->timers->due <= now) {
        struct ag_timer *t = l->timers;
        ag_loop_cancel(l, t);
        t->fn(t->ctx);
    }
}

static long wait_ms(const struct ag_loop *l)
{
    if (!l->timers)
        return -1;
    int64_t left = l->timers->due - ck_mono_ms();
    return left > 0 ? (long)left : 0;
}

int ag_loop_turn(struct ag_loop *l)
{
    zmq_pollitem_t items[AG_LOOP_WATCHES];
    int slot[AG_LOOP_WATCHES], n = 0;
    uint32_t gen[AG_LOOP_WATCHES];
    for (int i = 0; i < AG_LOOP_WATCHES; i++) {
        const struct watch *w = &l->watch[i];
        if (!w->used || !w->events)
            continue;
        items[n] = (zmq_pollitem_t){.socket = w->socket, .fd = w->fd, .events = w->events};
        gen[n] = w->gen;
        slot[n++] = i;
    }
    int rc = zmq_poll(items, n, wait_ms(l));
    if (rc < 0 && errno != EINTR)
        return -1;
    for (int i = 0; rc > 0 && i < n; i++) {
        struct watch *w = &l->watch[slot[i]];
        if (items[i].revents && w->used && w->gen == gen[i])
            w->fn(w->ctx, w->fd, items[i].revents);
    }
    run_timers(l);
    return 0;
}
