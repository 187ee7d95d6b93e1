// Weights of sessions. Must never touch a process other than the given one.
#include "vmm/cpu_share.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int ck_cpu_share_nice(unsigned weight)
{
    double w = CK_CPU_WEIGHT_MAX;
    int nice = 0;
    for (; w / 1.12 > weight && nice < 19; nice++) // 1.12: the nearer one
        w /= 1.25;
    return nice;
}

static int write_weight(const struct ck_cpu_group *g, unsigned weight, struct ck_err *err)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%u", weight * g->usual / CK_CPU_WEIGHT_MAX);
    return pwrite(g->fd, text, (size_t)n, 0) == n
               ? 0
               : ck_fail_errno(err, errno, 500, "cpu_weight", "the control group's weight");
}

static int be_nice(pid_t pid, int nice, struct ck_err *err)
{
    char path[40];
    int failed = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path); // Linux' niceness is a thread's own; those to come inherit it
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        long tid = strtol(e->d_name, NULL, 10);
        if (tid > 0 && getpriority(PRIO_PROCESS, (id_t)tid) < nice && setpriority(PRIO_PROCESS, (id_t)tid, nice) &&
            errno != ESRCH)
            failed = errno;
    }
    if (!dir)
        return ck_fail_errno(err, errno, 500, "cpu_weight", "%s", path);
    closedir(dir);
    return failed ? ck_fail_errno(err, failed, 500, "cpu_weight", "the niceness of QEMU") : 0;
}

int ck_cpu_share(const struct ck_cpu_group *group, pid_t qemu, unsigned weight, struct ck_err *err)
{
    if (group->fd >= 0)
        return write_weight(group, weight, err);
    return qemu > 0 && weight < CK_CPU_WEIGHT_MAX ? be_nice(qemu, ck_cpu_share_nice(weight), err) : 0;
}
