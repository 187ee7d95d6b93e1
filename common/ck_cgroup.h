// Control groups of sessions, "cellkeep-<id>": where they may live, and removing those that nothing
// lives in any more. A bridge makes and joins its own (vmm/jail_cgroup.c); it cannot remove it, since
// it is in it, so whoever outlives it does.
#pragma once
#include <stdbool.h>

#define CK_CGROUP_PREFIX "cellkeep-"

// Removes the groups of ended sessions. A group in use refuses by itself. Some system calls, no
// waiting; any thread. Does nothing where control groups are absent or not writable.
void ck_cgroup_sweep(void);

// True where the unified hierarchy (version 2) is mounted.
bool ck_cgroup_is_v2(void);
// Folders of a hierarchy in which groups may be made, the best first: our own group, the one above
// it, the root. Calls fn until it returns true; returns whether it did. controller NULL = version 2.
typedef bool ck_cgroup_base_fn(const char *dir, void *user);
bool ck_cgroup_each_base(const char *controller, ck_cgroup_base_fn *fn, void *user);
