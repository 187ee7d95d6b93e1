// Which uids of the configured range are given to bridges. Only used by root: without root every
// bridge runs as the gateway's own user. Loop thread; uid_is_idle may run on any thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct uid_pool;

struct uid_pool *uid_pool_new(int base); // NULL = out of memory; excludes every uid and gid that has a name
void uid_pool_free(struct uid_pool *p);
int uid_pool_take(struct uid_pool *p);           // a free slot, the longest unused first; -1 = all taken
bool uid_pool_mark(struct uid_pool *p, int slot); // this one is in use (found at start); false when it was already
void uid_pool_release(struct uid_pool *p, int slot);
uid_t uid_pool_uid(const struct uid_pool *p, int slot);
int uid_pool_slot(const struct uid_pool *p, uid_t uid); // -1 = not of the range

// True when no process of this uid exists: a leftover of an earlier session must not meet a new one.
bool uid_is_idle(uid_t uid);
