// A session's share of the processors where there are more that want them: a weight from 1 to 100, 100 being
// what all have. By the session's control group where it has one, else by the niceness of its QEMU.
#pragma once
#include "common/ck_error.h"

#include <sys/types.h>

#define CK_CPU_WEIGHT_MAX 100

// The weight of the session's control group, opened by the jail's step cgroup while it still may.
struct ck_cpu_group {
    int fd;         // of the file; -1 = there is none
    unsigned usual; // what the file counts for CK_CPU_WEIGHT_MAX: 100 in version 2, 1024 in version 1
};

// A niceness can only be raised: without a group the weight of a QEMU that runs may go down but not up. Some
// system calls, no waiting.
int ck_cpu_share(const struct ck_cpu_group *group, pid_t qemu, unsigned weight, struct ck_err *err);

// Pure. Each step of niceness is a factor of 1.25 in weight.
int ck_cpu_share_nice(unsigned weight);
