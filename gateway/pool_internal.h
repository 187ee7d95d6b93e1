// Shared by pool*.c only.
#pragma once
#include "gateway/pool.h"

#define WAITERS_MAX 64        // of both kinds
#define WAIT_MS 38000         // clients of jupyter-server give up after 42 s
#define NO_ROOM_MS 5000       // the same when the host has no memory left
#define LAUNCHES_FOR_WAITERS 4

struct waiter {
    struct waiter *next;
    pool_got done;
    void *user;
    int64_t since, deadline;
};

// Somebody who waits for a session of another template: nothing stands ready for those.
struct other {
    struct other *next;
    struct pool *pool;
    struct layer_origin from;
    pool_got done; // NULL = answered
    void *user;
    int64_t since, deadline;
    bool launched;
};

struct pool {
    uv_loop_t *loop;
    struct launcher *launcher;
    uv_timer_t timer; // hands out what is ready, times waiters out, ends a back-off
    bool timer_closed;
    int size;
    bool filling, closing, proven; // proven: at least one launch has worked
    bool no_room;                  // the host has no memory left, and nothing is starting
    struct bridge_proc **ready; // room for `room`
    size_t nready, room;
    struct waiter *waiters, **waiters_end;
    struct other *others;
    size_t nwaiters, launching, ending, failures; // nwaiters: of both kinds
    int64_t backoff_ms, not_before;
    void (*closed)(void *user);
    void *closed_user;
};

// pool.c
void pool_soon(struct pool *p, int64_t ms);
void pool_maybe_closed(struct pool *p);
void pool_end_bridge(struct pool *p, struct bridge_proc *b);
bool pool_has_room(struct pool *p);
void pool_refuse(const struct pool *p, struct ck_err *err); // who has waited too long

// pool_other.c
void other_add(struct pool *p, const struct layer_origin *from, pool_got done, void *user);
void other_kick(struct pool *p);
void other_expire(struct pool *p, int64_t now);
int64_t other_next_deadline(const struct pool *p); // 0 = nobody waits
void other_fail_all(struct pool *p, const struct ck_err *err);
