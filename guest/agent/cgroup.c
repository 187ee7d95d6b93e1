// cgroup files, read and written in place. Limits exist so that one runaway cell is killed quickly
// and cleanly instead of dragging the whole machine into reclaim, which under emulation would look
// like a hang. Must never put the agent itself below a limit.
#include "guest/agent/cgroup.h"

#include "guest/agent/limits.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define FILE_MAX (64 * 1024)
#define RESERVE_BYTES (70u << 20) // the agent, the kernel, and enough page cache to keep running
// What the zygote keeps besides its own memory: page cache of library code, and the kernel's tables. All that it ever
// mapped is three times as much; kept whole, the machine would be out of memory before the user reaches the limit.
#define ZYGOTE_CACHE_BYTES (16u << 20)

static int path_of(const char *name, const char *file, char *out, size_t room)
{
    bool user = name && strcmp(name, "zygote") != 0;
    int n = !name ? snprintf(out, room, ROOT "/user/%s", file)
                  : snprintf(out, room, ROOT "/%s%s/%s", user ? "user/" : "", name, file);
    return n > 0 && (size_t)n < room ? 0 : -1;
}

static int write_at(const char *path, const char *value)
{
    CK_CLEAN_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value) ? 0 : -1;
}

static int write_file(const char *name, const char *file, const char *value)
{
    char path[200];
    return path_of(name, file, path, sizeof path) == 0 ? write_at(path, value) : -1;
}

// The number after `field` (a line's first word), or of the whole file when field is NULL.
static uint64_t read_number(const char *name, const char *file, const char *field)
{
    char path[200];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (path_of(name, file, path, sizeof path) < 0 || ck_read_file(path, FILE_MAX, &text, NULL) < 0 || !text.n)
        return 0;
    const char *at = (const char *)text.p;
    size_t len = field ? strlen(field) : 0;
    while (field && at && !(strncmp(at, field, len) == 0 && at[len] == ' ')) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at + len, NULL, 10) : 0;
}

int ag_cgroup_init(struct ck_err *err)
{
    char pids[16];
    snprintf(pids, sizeof pids, "%u", ag_limits_all_pids());
    if (write_at(ROOT "/cgroup.subtree_control", "+cpu +memory +pids") < 0)
        return ck_fail_errno(err, errno, 500, "cgroup", "cgroup controllers");
    if (mkdir(ROOT "/zygote", 0755) < 0 || mkdir(ROOT "/user", 0755) < 0)
        return ck_fail_errno(err, errno, 500, "cgroup", "cgroup folders");
    if (write_at(ROOT "/user/cgroup.subtree_control", "+cpu +memory +pids") < 0 ||
        write_file(NULL, "pids.max", pids) < 0)
        return ck_fail_errno(err, errno, 500, "cgroup", "cgroup limits");
    write_file("zygote", "cpu.weight", "1000"); // a fresh kernel must not wait for what the user's processes do
    return 0;
}

int ag_cgroup_make(const char *name, struct ck_err *err)
{
    char path[200];
    if (path_of(name, "", path, sizeof path) < 0 || (mkdir(path, 0755) < 0 && errno != EEXIST))
        return ck_fail_errno(err, errno, 500, "cgroup", "making cgroup %s", name);
    return 0;
}

int ag_cgroup_procs_fd(const char *name, struct ck_err *err)
{
    char path[200];
    if (path_of(name, "cgroup.procs", path, sizeof path) < 0)
        return ck_fail(err, 500, "cgroup", "cgroup name too long");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cgroup", "%s", path);
    return fd;
}

int ag_cgroup_add(const char *name, int pid, struct ck_err *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", pid);
    if (write_file(name, "cgroup.procs", text) < 0)
        return ck_fail_errno(err, errno, 500, "cgroup", "moving process %d to %s", pid, name);
    return 0;
}

void ag_cgroup_limit_pids(const char *name, int max)
{
    char text[16];
    snprintf(text, sizeof text, "%d", max);
    write_file(name, "pids.max", text); // without it the limit of all of /user still holds
}

void ag_cgroup_kill(const char *name) { write_file(name, "cgroup.kill", "1"); }

int ag_cgroup_remove(const char *name)
{
    char path[200];
    if (path_of(name, "", path, sizeof path) < 0)
        return -1;
    return rmdir(path) == 0 || errno == ENOENT ? 0 : -1;
}

static uint64_t memory_total(void)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_read_file("/proc/meminfo", FILE_MAX, &text, NULL) < 0 || !text.n)
        return 0;
    const char *at = strstr((const char *)text.p, "MemTotal:");
    return at ? strtoull(at + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

void ag_cgroup_set_limits(void)
{
    char text[32];
    uint64_t zygote = read_number("zygote", "memory.stat", "anon");
    uint64_t total = memory_total(), taken = zygote + RESERVE_BYTES;
    snprintf(text, sizeof text, "%llu", (unsigned long long)(zygote + ZYGOTE_CACHE_BYTES));
    write_file("zygote", "memory.min", text);
    // never below a quarter of the machine: a zygote grown out of proportion must not starve the user
    uint64_t limit = total > taken && total - taken > total / 4 ? total - taken : total / 4;
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit);
    if (total)
        write_file(NULL, "memory.max", text);
}

void ag_cgroup_usage(const char *name, struct ag_usage *out)
{
    out->cpu_ms = read_number(name, "cpu.stat", "usage_usec") / 1000;
    out->memory_bytes = read_number(name, "memory.current", NULL);
    out->peak_memory_bytes = read_number(name, "memory.peak", NULL);
}

uint64_t ag_cgroup_oom_kills(const char *name) { return read_number(name, "memory.events", "oom_kill"); }

uint64_t ag_cgroup_pids_refused(const char *name) { return read_number(name, "pids.events", "max"); }
