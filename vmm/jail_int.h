// Inside of the jail: what the steps share. Used by jail*.c only.
#pragma once
#include "vmm/jail.h"

#include <limits.h>

struct ck_jail_ctx {
    const struct ck_jail_opts *o;
    struct ck_jail_report *report;
    bool dry;   // probe: nothing outside this process may change
    bool root;  // started with uid 0
    bool fatal; // the step that set it failed half way: stop
    uid_t uid;  // target, root only
    gid_t gid;
};

// Each returns what came of it and writes the reason ("" = no remark).
typedef enum ck_jail_result ck_jail_step_fn(struct ck_jail_ctx *c, char *reason, size_t room);
ck_jail_step_fn ck_jail_descriptors, ck_jail_environment, ck_jail_cgroup, ck_jail_rlimits, ck_jail_user_ns,
    ck_jail_net_ns, ck_jail_ipc_ns, ck_jail_uts_ns, ck_jail_mount_ns, ck_jail_pid_ns, ck_jail_uid,
    ck_jail_capabilities, ck_jail_no_new_privs, ck_jail_seccomp;

// result with "what: strerror(errno)" as the reason.
enum ck_jail_result ck_jail_errno(enum ck_jail_result result, char *reason, size_t room, const char *what);
