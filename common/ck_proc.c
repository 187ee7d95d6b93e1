// Process identity: pid plus start time, signals by pidfd.
#include "common/ck_proc.h"

#include "common/ck_buf.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int ck_proc_stat_number(const char *text, unsigned field, uint64_t *out)
{
    const char *p = strrchr(text, ')'); // the name, field 2, is the only one with parentheses
    for (unsigned at = 2; p && at < field; at++)
        p = strchr(p + 1, ' ');
    if (!p || p[1] < '0' || p[1] > '9')
        return -1;
    char *end;
    unsigned long long v = strtoull(p + 1, &end, 10);
    if (v == ULLONG_MAX || (*end && *end != ' ' && *end != '\n'))
        return -1;
    *out = v;
    return 0;
}

int ck_proc_parse_stat(const char *text, uint64_t *start, char *state)
{
    const char *p = strrchr(text, ')');
    if (!p || p[1] != ' ' || !p[2] || p[3] != ' ' || ck_proc_stat_number(text, 22, start))
        return -1;
    *state = p[2];
    return 0;
}

int ck_proc_identify(pid_t pid, struct ck_proc_id *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    char state;
    if (pid <= 0 || ck_read_file(path, 8192, &b, NULL) || ck_proc_parse_stat((char *)b.p, &out->start, &state))
        return -1;
    out->pid = pid;
    return state == 'Z' || state == 'X' ? -1 : 0;
}

bool ck_proc_alive(struct ck_proc_id id)
{
    struct ck_proc_id now;
    return !ck_proc_identify(id.pid, &now) && now.start == id.start;
}

int ck_proc_signal(struct ck_proc_id id, int sig, struct ck_err *err)
{
    CK_CLEAN_FD int fd = (int)syscall(SYS_pidfd_open, id.pid, 0);
    if (fd < 0)
        return errno == ESRCH ? 1 : ck_fail_errno(err, errno, 500, "cannot_signal", "pidfd_open of %d", (int)id.pid);
    if (!ck_proc_alive(id)) // checked after the pidfd pins the process
        return 1;
    if (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0))
        return errno == ESRCH ? 1 : ck_fail_errno(err, errno, 500, "cannot_signal", "signal %d to %d", sig, (int)id.pid);
    return 0;
}

void ck_proc_cloexec_from(int from, const int *keep, int nkeep)
{
    syscall(SYS_close_range, (unsigned)from, ~0u, CLOSE_RANGE_CLOEXEC);
    for (int i = 0; i < nkeep; i++) {
        int flags = fcntl(keep[i], F_GETFD);
        if (flags >= 0)
            fcntl(keep[i], F_SETFD, flags & ~FD_CLOEXEC);
    }
}
