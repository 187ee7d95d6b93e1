// The agent's event loop: descriptors, one ZMQ socket and timers over zmq_poll. One thread.
// By hand rather than libuv: the agent must reap every orphan of the machine itself, zmq_poll
// already hides that ZMQ's descriptor is edge-triggered, and PID 1 stays small and static.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define AG_LOOP_WATCHES 128

typedef void ag_watch_fn(void *ctx, int fd, short revents); // revents: ZMQ_POLLIN/OUT/ERR

struct ag_timer {
    int64_t due; // ck_mono_ms; 0 = not set
    void (*fn)(void *ctx);
    void *ctx;
    struct ag_timer *next;
};

struct ag_loop; // opaque; one per process

struct ag_loop *ag_loop_new(void); // NULL when out of memory
void ag_loop_free(struct ag_loop *l);

// Calls fn when fd is ready for any of events. -1 when the table is full. fd stays the caller's.
int ag_loop_watch(struct ag_loop *l, int fd, short events, ag_watch_fn *fn, void *ctx);
int ag_loop_watch_zmq(struct ag_loop *l, void *socket, ag_watch_fn *fn, void *ctx);
void ag_loop_events(struct ag_loop *l, int fd, short events); // change interest; 0 = none for now
void ag_loop_unwatch(struct ag_loop *l, int fd);              // absent is fine; before close(fd)

// Arms (or re-arms) a timer that the caller owns and has filled with fn and ctx.
void ag_loop_after(struct ag_loop *l, struct ag_timer *t, int64_t ms);
void ag_loop_cancel(struct ag_loop *l, struct ag_timer *t); // not set is fine

// One turn: waits for something, calls what is due. -1 only when polling itself fails.
int ag_loop_turn(struct ag_loop *l);
