// The guest's own cgroup v2 tree:
//   /                 the agent, at raised priority
//   /zygote           the Python that kernels are forked from; its memory is protected, its share of the
//                     processor ten times the user's
//   /user             everything of the user: memory.max, pids.max
//   /user/<name>      one kernel or one command
// Main thread only, but for ag_cgroup_usage and ag_cgroup_pids_refused, which any thread may call.
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stdint.h>

#define AG_CGROUP_NAME_MAX 40

int ag_cgroup_init(struct ck_err *err);

int ag_cgroup_make(const char *name, struct ck_err *err);         // below /user
int ag_cgroup_procs_fd(const char *name, struct ck_err *err);     // its cgroup.procs, for spawn; or "zygote"
int ag_cgroup_add(const char *name, int pid, struct ck_err *err); // moves a process
void ag_cgroup_limit_pids(const char *name, int max);              // NULL = all of /user
void ag_cgroup_kill(const char *name);                            // SIGKILL to all in it
int ag_cgroup_remove(const char *name);                           // -1 while processes are left in it

// What the zygote holds now is taken from the user's memory limit and kept from reclaim.
void ag_cgroup_set_limits(void);

struct ag_usage {
    uint64_t cpu_ms, memory_bytes, peak_memory_bytes;
};
// name NULL = all of /user.
void ag_cgroup_usage(const char *name, struct ag_usage *out);
uint64_t ag_cgroup_oom_kills(const char *name);
uint64_t ag_cgroup_pids_refused(const char *name); // how often a process in it could not start another
