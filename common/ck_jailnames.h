// The names of the jail's steps, in the order of enum ck_jail_step (vmm/jail.h): the gateway checks
// what an operator requires before any bridge exists, and knows nothing else of the jail.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define CK_JAIL_NAMES                                                                                            \
    "descriptors", "environment", "cgroup", "rlimits", "user_ns", "net_ns", "ipc_ns", "uts_ns", "mount_ns",      \
        "pid_ns", "uid", "capabilities", "no_new_privs", "seccomp"

static const char *const ck_jail_names[] = {CK_JAIL_NAMES};

// The index of the step that is written in the first n bytes of text, -1 = there is none.
static inline int ck_jail_name_index(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof ck_jail_names / sizeof *ck_jail_names; i++)
        if (strlen(ck_jail_names[i]) == n && !memcmp(ck_jail_names[i], text, n))
            return (int)i;
    return -1;
}
