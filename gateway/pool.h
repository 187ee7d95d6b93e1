// Bridges that stand ready, personalised, for a session to claim. Kept at its size in the background,
// one launch at a time; when it is empty, callers wait for launches made for them. Loop thread only.
#pragma once
#include "common/ck_error.h"
#include "gateway/launcher.h"

struct pool;

struct pool *pool_new(uv_loop_t *loop, struct launcher *l, int size); // NULL = out of memory
void pool_fill(struct pool *p); // begin to keep it at its size

// A ready bridge, or one made for the caller of the template `from` (NULL = the gateway's own, which the pool
// has): done is called from the loop, once, with the bridge (now the caller's) or with err
// (503 no_capacity when too many wait already or the wait was too long, or the launch's own error).
typedef void (*pool_got)(void *user, struct bridge_proc *b, const struct ck_err *err);
void pool_get(struct pool *p, const struct layer_origin *from, pool_got done, void *user);
void pool_adopt(struct pool *p, struct bridge_proc *b); // one that an earlier gateway made ready

size_t pool_ready(const struct pool *p);
size_t pool_waiting(const struct pool *p);
size_t pool_failures(const struct pool *p); // launches that failed, since the start
bool pool_no_room(const struct pool *p);    // the host has no memory for another
bool pool_able(const struct pool *p);       // a creation now would most likely succeed

// No more launches; who waits gets 503; ready bridges are ended. closed is called (perhaps from inside
// the call) when nothing of the pool is left. Then pool_free.
void pool_close(struct pool *p, void (*closed)(void *user), void *user);
void pool_free(struct pool *p); // NULL is fine
