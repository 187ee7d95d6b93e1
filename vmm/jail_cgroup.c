// The jail's control group: pids and memory limits where the hierarchy is writable, version 2 or 1
// as found. Best effort by nature. A group cannot be removed from inside, so that ended sessions'
// groups are swept by whoever comes next.
#include "vmm/jail_int.h"

#include "common/ck_buf.h"
#include "common/ck_fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define PREFIX "cellkeep-"
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

// Our own group in a hierarchy: "" = version 2, else a version 1 controller. Below /proc/self/cgroup.
static void own_group(const char *controller, char out[PATH_MAX])
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    out[0] = 0;
    if (ck_read_file("/proc/self/cgroup", 65536, &b, NULL))
        return;
    char *save = NULL;
    for (char *l = strtok_r((char *)b.p, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(l, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        size_t n = strlen(controller);
        const char *at = n ? strstr(names + 1, controller) : NULL;
        bool match = n ? at && (at == names + 1 || at[-1] == ',') && (at[n] == ',' || !at[n]) : !names[1];
        if (match && path[0] == '/' && path[1])
            snprintf(out, PATH_MAX, "%.3000s", path);
    }
}

// Where groups of sessions may live: our own group, the one above it, the root. Calls fn until it
// returns true; fn gets the folder.
typedef bool base_fn(const char *dir, void *user);
static bool each_base(const char *hierarchy, const char *controller, base_fn *fn, void *user)
{
    char own[PATH_MAX], dir[PATH_MAX];
    own_group(controller, own);
    for (int i = 0; i < 3; i++) {
        char *slash = strrchr(own, '/');
        if (i == 1 && slash)
            *slash = 0;
        if (i == 2)
            own[0] = 0;
        if ((i < 2 && !own[0]) || ck_path(dir, sizeof dir, NULL, "%s%s", hierarchy, own) || access(dir, W_OK))
            continue;
        if (fn(dir, user))
            return true;
    }
    return false;
}

struct want {
    const struct ck_jail_opts *o;
    const char *controller; // version 1: the one of this hierarchy; NULL = version 2
    int e;                  // errno of the last failure
};

static int make_group(const char *base, const char *id, char dir[PATH_MAX])
{
    if (ck_path(dir, PATH_MAX, NULL, "%s/" PREFIX "%s", base, id))
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
    if (set_limit(dir, "pids.max", w->o->max_tasks ? w->o->max_tasks : MAX_TASKS_DEFAULT) ||
        set_limit(dir, "memory.max", w->o->memory_bytes) || put(dir, "cgroup.procs", "0")) {
        w->e = errno;
        rmdir(dir);
        return false;
    }
    return true;
}

static bool try_v1(const char *base, struct want *w)
{
    char dir[PATH_MAX];
    bool memory = !strcmp(w->controller, "memory");
    if (make_group(base, w->o->id, dir)) {
        w->e = errno;
        return false;
    }
    int bad = memory ? set_limit(dir, "memory.limit_in_bytes", w->o->memory_bytes)
                     : set_limit(dir, "pids.max", w->o->max_tasks ? w->o->max_tasks : MAX_TASKS_DEFAULT);
    if (bad || put(dir, "cgroup.procs", "0")) {
        w->e = errno;
        rmdir(dir);
        return false;
    }
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
    ck_jail_sweep_cgroups();
    if (has(ROOT, "cgroup.controllers")) {
        if (each_base(ROOT, "", join, &w))
            return CK_JAIL_APPLIED;
    } else {
        w.controller = "pids";
        bool pids = each_base(ROOT "/pids", "pids", join, &w);
        w.controller = "memory";
        bool memory = each_base(ROOT "/memory", "memory", join, &w);
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

static bool sweep_base(const char *base, void *user)
{
    (void)user;
    char dir[PATH_MAX];
    DIR *d = opendir(base);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, PREFIX, strlen(PREFIX)) && !ck_path(dir, sizeof dir, NULL, "%s/%s", base, e->d_name))
            rmdir(dir); // refused by the kernel while anything lives in it
    if (d)
        closedir(d);
    return false;
}

void ck_jail_sweep_cgroups(void)
{
    if (has(ROOT, "cgroup.controllers")) {
        each_base(ROOT, "", sweep_base, NULL);
    } else {
        each_base(ROOT "/pids", "pids", sweep_base, NULL);
        each_base(ROOT "/memory", "memory", sweep_base, NULL);
    }
}
