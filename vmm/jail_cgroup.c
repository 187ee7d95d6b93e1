// The jail's control group: pids and memory limits where the hierarchy is writable, version 2 or 1
// as found. Best effort by nature. A group cannot be removed from inside, so that ended sessions'
// groups are swept by whoever comes next.
#include "vmm/jail_int.h"

#include "common/ck_cgroup.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TASKS_DEFAULT 512

static int put(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    if (ck_path(path, sizeof path, NULL, "%s/%s", dir, name))
        return -1;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int e = errno;
    close(fd);
    errno = e;
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static bool has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return !ck_path(path, sizeof path, NULL, "%s/%s", dir, name) && !access(path, F_OK);
}

// The share of the processors is nobody's right and no condition: without it all have the same.
static void open_weight(const char *dir, const char *file, unsigned usual, struct ck_cpu_group *out)
{
    char path[PATH_MAX];
    if (!ck_path(path, sizeof path, NULL, "%s/%s", dir, file))
        *out = (struct ck_cpu_group){open(path, O_WRONLY | O_CLOEXEC), usual};
}

struct want {
    const struct ck_jail_opts *o;
    const char *controller; // version 1: the one of this hierarchy; NULL = version 2
    int e;                  // errno of the last failure
};

static int make_group(const char *base, const char *id, char dir[PATH_MAX])
{
    if (ck_path(dir, PATH_MAX, NULL, "%s/" CK_CGROUP_PREFIX "%s", base, id))
        return -1;
    return mkdir(dir, 0755) && errno != EEXIST ? -1 : 0;
}

static int set_limit(const char *dir, const char *file, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return value ? put(dir, file, text) : 0;
}

static bool try_v2(const char *base, struct want *w)
{
    char dir[PATH_MAX];
    if (make_group(base, w->o->id, dir)) {
        w->e = errno;
        return false;
    }
    if (!has(dir, "memory.max") || !has(dir, "pids.max")) // refused in a group that has processes of its own
        put(base, "cgroup.subtree_control", "+memory +pids");
    if (w->o->cpu_group && !has(dir, "cpu.weight"))
        put(base, "cgroup.subtree_control", "+cpu");
    if (set_limit(dir, "pids.max", w->o->max_tasks ? w->o->max_tasks : MAX_TASKS_DEFAULT) ||
        set_limit(dir, "memory.max", w->o->memory_bytes) || put(dir, "cgroup.procs", "0")) {
        w->e = errno;
        rmdir(dir);
        return false;
    }
    if (w->o->cpu_group)
        open_weight(dir, "cpu.weight", 100, w->o->cpu_group);
    return true;
}

static bool try_v1(const char *base, struct want *w)
{
    char dir[PATH_MAX];
    bool memory = !strcmp(w->controller, "memory"), cpu = !strcmp(w->controller, "cpu");
    if (make_group(base, w->o->id, dir)) {
        w->e = errno;
        return false;
    }
    int bad = cpu      ? 0
              : memory ? set_limit(dir, "memory.limit_in_bytes", w->o->memory_bytes)
                       : set_limit(dir, "pids.max", w->o->max_tasks ? w->o->max_tasks : MAX_TASKS_DEFAULT);
    if (bad || put(dir, "cgroup.procs", "0")) {
        w->e = errno;
        rmdir(dir);
        return false;
    }
    if (cpu)
        open_weight(dir, "cpu.shares", 1024, w->o->cpu_group);
    return true;
}

// Another bridge's sweep may remove the group between making and joining it: then once more.
static bool join(const char *base, void *user)
{
    struct want *w = user;
    for (int i = 0; i < 4; i++) {
        if (w->controller ? try_v1(base, w) : try_v2(base, w))
            return true;
        if (w->e != ENOENT)
            break;
    }
    return false;
}

enum ck_jail_result ck_jail_cgroup(struct ck_jail_ctx *c, char *reason, size_t room)
{
    struct want w = {.o = c->o, .e = EACCES};
    ck_cgroup_sweep();
    if (ck_cgroup_is_v2()) {
        if (ck_cgroup_each_base(NULL, join, &w))
            return CK_JAIL_APPLIED;
    } else {
        w.controller = "cpu";
        if (c->o->cpu_group)
            ck_cgroup_each_base(w.controller, join, &w);
        w.controller = "pids";
        bool pids = ck_cgroup_each_base(w.controller, join, &w);
        w.controller = "memory";
        bool memory = ck_cgroup_each_base(w.controller, join, &w);
        if (pids && memory)
            return CK_JAIL_APPLIED;
        if (pids || memory) {
            snprintf(reason, room, "only the %s limit", pids ? "pids" : "memory");
            return CK_JAIL_APPLIED;
        }
    }
    errno = w.e;
    return ck_jail_errno(CK_JAIL_UNAVAILABLE, reason, room, "no writable control group");
}
