// What a bridge needs before it can be started: its folder, its log, its configuration in a pipe.
// Runs on the thread pool; touches nothing of the launcher that changes.
#include "gateway/launcher_internal.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "gateway/layer_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define UID_WAIT_MS 500 // for the last processes of a paused session to be gone
#define ENTRIES_MAX 10000

// Steps without which no session starts. "all" leaves out what a host may lack for good reasons
// (user_ns is the way of those who are not root, uid that of root) and what is never applied.
static json_t *required_steps(const struct launcher *l)
{
    static const char *const all[] = {"descriptors", "environment", "cgroup",       "rlimits",      "net_ns", "ipc_ns",
                                      "uts_ns",      "mount_ns",    "capabilities", "no_new_privs", "seccomp"};
    const char *want = l->config->require_jail;
    json_t *list = json_array();
    if (want && !strcmp(want, "all")) {
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            json_array_append_new(list, json_string(all[i]));
        json_array_append_new(list, json_string(l->uids ? "uid" : "user_ns"));
        return list;
    }
    while (want && *want) {
        size_t n = strcspn(want, ",");
        json_array_append_new(list, json_stringn(want, n));
        want += n + (want[n] == ',');
    }
    return list;
}

json_t *launch_limits(const struct launch *x)
{
    struct caps usual;
    if (x->limits)
        return json_incref(x->limits);
    caps_usual(x->l->config->caps, &usual);
    return caps_for_bridge(&usual, x->l->config, NULL);
}

json_t *launch_origin(const struct launch *x)
{
    return *x->layer ? json_pack("{s:s,s:s}", "layer", x->layer, "mode", x->kind == LAUNCH_FORK ? "fork" : "resume") : NULL;
}

static json_t *bridge_config(const struct launch *x)
{
    const struct launcher *l = x->l;
    uid_t uid = l->uids ? uid_pool_uid(l->uids, x->p->slot) : 0;
    bool ours = x->template == l->template; // another says by itself what it needs
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:I,s:I,s:s,s:o,s:b,s:b,s:o,s:o*}", "id", x->p->id, "dir", x->p->dir,
                     "template_dir", x->template->dir, "image_dir", x->template->image_dir, "accelerator",
                     ours ? l->accelerator : "", "memory_mb", ours ? l->memory_mb : 0, "uid", (json_int_t)uid, "gid",
                     (json_int_t)uid, "qemu", l->config->qemu ? l->config->qemu : "", "jail_required", required_steps(l),
                     "pool", x->kind == LAUNCH_POOL, "spare", x->kind == LAUNCH_SPARE, "limits", launch_limits(x), "restore",
                     launch_origin(x));
}

// The whole configuration lies in the pipe before the process exists: it fits (a pipe holds 64 KiB).
static int write_config(struct launch *x)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = bridge_config(x);
    int fds[2];
    if (!j || ck_json_dump(j, &text) || text.n > 60 * 1024)
        return ck_fail(&x->err, 500, "session_failed", "the configuration of a session is too large");
    if (pipe2(fds, O_CLOEXEC))
        return ck_fail_errno(&x->err, errno, 503, "no_descriptors", "a session cannot be started");
    x->fd_config = fds[0];
    int rc = ck_write_all(fds[1], text.p, text.n);
    close(fds[1]);
    return rc ? ck_fail_errno(&x->err, errno, 500, "session_failed", "a session cannot be configured") : 0;
}

// The files of a paused session have a uid; whoever still runs under it is most likely about to go.
static int check_uid(struct launch *x)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    if (!x->l->uids)
        return 0;
    uid_t uid = uid_pool_uid(x->l->uids, x->p->slot);
    for (int waited = 0; !uid_is_idle(uid); waited += 20) {
        if (x->kind != LAUNCH_RESUME || x->tries || waited >= UID_WAIT_MS)
            return ck_fail(&x->err, 503, "uid_in_use", "uid %u is in use", (unsigned)uid);
        nanosleep(&pause, NULL);
    }
    return 0;
}

// The bridge makes its layers below this folder, which we made for a fork.
static int own_layers(struct launch *x, int slot, int dir)
{
    CK_CLEAN_FD int layers = openat(dir, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uid_t uid = x->l->uids ? uid_pool_uid(x->l->uids, slot) : 0;
    if (layers < 0 || (x->l->uids && fchown(layers, uid, uid)))
        return ck_fail_errno(&x->err, errno, 500, "session_failed", "the layers of a session cannot be opened");
    return 0;
}

// What is not the new uid's becomes so: the old one may be somebody else's by now, and a gateway that was
// killed may have got half way. Sealed layers are root's and stay so.
static int give(int at, const char *name, uid_t to, int depth)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) || !st.st_uid)
        return 0;
    if (st.st_uid != to && fchownat(at, name, to, to, AT_SYMLINK_NOFOLLOW))
        return -1;
    int fd = S_ISDIR(st.st_mode) && depth < 3 ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    int rc = 0;
    for (int n = 0; !rc && d && n < ENTRIES_MAX && (e = readdir(d)); n++)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = give(fd, e->d_name, to, depth + 1);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return rc;
}

static int own_folder(struct launch *x, int slot)
{
    return x->l->uids && give(AT_FDCWD, x->p->dir, uid_pool_uid(x->l->uids, slot), 0)
               ? ck_fail_errno(&x->err, errno, 500, "session_failed", "the session's files cannot be given to another user")
               : 0;
}

int launch_own(struct launch *x, int slot)
{
    CK_CLEAN_FD int dir = open(x->p->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return ck_fail_errno(&x->err, errno, 500, "session_failed", "a session's folder cannot be opened");
    return own_layers(x, slot, dir) || (x->kind == LAUNCH_RESUME && own_folder(x, slot)) ? -1 : 0;
}

// A spare is talked to.
static int open_status(const struct launch *x, int fds[2])
{
    return x->kind == LAUNCH_SPARE ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) : pipe2(fds, O_CLOEXEC);
}

// The log of a folder that belonged to a bridge may be anything: it is opened as a plain file or not.
static int open_log(int dir)
{
    struct stat st;
    int fd = openat(dir, "bridge.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1)) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    if (fd >= 0)
        fcntl(fd, F_SETFL, O_APPEND); // without O_NONBLOCK: the bridge inherits the flags
    return fd;
}

void launch_prepare(struct launch *x)
{
    int fds[2];
    // First of all: whoever has the lock is about to use the folder as it is, and its uid.
    if (x->kind == LAUNCH_RESUME && folder_locked(x->p->dir)) {
        ck_fail(&x->err, 409, "folder_in_use", "another process of the session runs");
        return;
    }
    if (launch_template_choose(x) || check_uid(x))
        return;
    bool restores = x->kind == LAUNCH_RESUME || x->kind == LAUNCH_FORK;
    if (!restores && mkdir(x->p->dir, 0700)) {
        ck_fail_errno(&x->err, errno, 507, "session_failed", "a session's folder cannot be made in %s", x->l->sessions_dir);
        return;
    }
    if (restores && launch_own(x, x->p->slot))
        return;
    CK_CLEAN_FD int dir = open(x->p->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    x->fd_log = dir >= 0 ? open_log(dir) : -1;
    if (x->fd_log < 0 || open_status(x, fds)) {
        ck_fail_errno(&x->err, errno, 503, "session_failed", "a session cannot be started");
        return;
    }
    x->fd_status_read = fds[0];
    x->fd_status_write = fds[1];
    write_config(x);
}
