// Where control groups of sessions live and how they go. Must never remove a group of anybody else.
#include "common/ck_cgroup.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"

bool ck_cgroup_is_v2(void) { return !access(ROOT "/cgroup.controllers", F_OK); }

// Our own group in a hierarchy, as /proc/self/cgroup has it; "" for its root.
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
        size_t n = controller ? strlen(controller) : 0;
        const char *at = controller ? strstr(names + 1, controller) : NULL;
        bool match = controller ? at && (at == names + 1 || at[-1] == ',') && (at[n] == ',' || !at[n]) : !names[1];
        if (match && path[0] == '/' && path[1])
            snprintf(out, PATH_MAX, "%.3000s", path);
    }
}

bool ck_cgroup_each_base(const char *controller, ck_cgroup_base_fn *fn, void *user)
{
    char own[PATH_MAX], dir[PATH_MAX];
    own_group(controller, own);
    for (int i = 0; i < 3; i++) {
        char *slash = strrchr(own, '/');
        if (i == 1 && slash)
            *slash = 0;
        if (i == 2)
            own[0] = 0;
        if ((i < 2 && !own[0]) || access(ROOT, X_OK) ||
            ck_path(dir, sizeof dir, NULL, ROOT "%s%s%s", controller ? "/" : "", controller ? controller : "", own) ||
            access(dir, W_OK))
            continue;
        if (fn(dir, user))
            return true;
    }
    return false;
}

static bool sweep_base(const char *base, void *user)
{
    (void)user;
    char dir[PATH_MAX];
    DIR *d = opendir(base);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, CK_CGROUP_PREFIX, strlen(CK_CGROUP_PREFIX)) &&
            !ck_path(dir, sizeof dir, NULL, "%s/%s", base, e->d_name))
            rmdir(dir); // refused by the kernel while anything lives in it
    if (d)
        closedir(d);
    return false;
}

void ck_cgroup_sweep(void)
{
    if (ck_cgroup_is_v2()) {
        ck_cgroup_each_base(NULL, sweep_base, NULL);
    } else {
        ck_cgroup_each_base("cpu", sweep_base, NULL);
        ck_cgroup_each_base("pids", sweep_base, NULL);
        ck_cgroup_each_base("memory", sweep_base, NULL);
    }
}
