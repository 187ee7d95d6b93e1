// The jail's file system view: a root of its own on tmpfs with only what the bridge and QEMU need.
// Built from detached mounts (open_tree, move_mount), so that no path of the host has to be written
// to and nothing of it is left when the old root is gone. After pivot_root there is no way back:
// failing before it leaves the old view in a private namespace, failing after it ends the start.
#include "vmm/jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TREES_MAX 24
#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct tree {
    char path[PATH_MAX]; // absolute, in the view as on the host
    int fd;              // detached mount
    bool dir;
};

struct view {
    struct tree *tree;
    int n, root; // root: detached, later attached tmpfs
};

static void view_free(struct view *v)
{
    for (int i = 0; i < v->n; i++)
        if (v->tree[i].fd >= 0)
            close(v->tree[i].fd);
    if (v->root >= 0)
        close(v->root);
    free(v->tree);
}

// Clones the mounts at path (recursively: locked submounts must not be uncovered). Absent is fine
// unless needed.
static int add(struct view *v, const char *path, uint64_t attr, bool needed)
{
    struct stat st;
    if (v->n == TREES_MAX || strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (fd < 0)
        return needed ? -1 : 0;
    struct mount_attr a = {.attr_set = attr, .propagation = MS_PRIVATE};
    if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a) || fstat(fd, &st)) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    struct tree *t = &v->tree[v->n++];
    snprintf(t->path, sizeof t->path, "%s", path);
    t->fd = fd;
    t->dir = S_ISDIR(st.st_mode);
    return 0;
}

// As add, under the given name and under the one without symbolic links.
static int add_both(struct view *v, const char *path, uint64_t attr)
{
    char *real = realpath(path, NULL);
    int rc = !real ? -1 : add(v, path, attr, true);
    if (!rc && strcmp(real, path))
        rc = add(v, real, attr, true);
    int e = errno;
    free(real);
    errno = e;
    return rc;
}

static int collect(struct view *v, const struct ck_jail_opts *o)
{
    static const char *const files[] = {"/etc/ld.so.cache", "/etc/alternatives"};
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/urandom"};
    int rc = add(v, "/usr", READ_ONLY, true);
    for (size_t i = 0; !rc && i < sizeof files / sizeof *files; i++)
        rc = add(v, files[i], READ_ONLY, false);
    for (size_t i = 0; !rc && i < sizeof devices / sizeof *devices; i++)
        rc = add(v, devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, true);
    if (!rc && o->kvm)
        rc = add(v, "/dev/kvm", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, true);
    if (!rc)
        rc = add_both(v, o->template_dir, READ_ONLY | MOUNT_ATTR_NOEXEC);
    if (!rc)
        rc = add_both(v, o->image_dir, READ_ONLY | MOUNT_ATTR_NOEXEC);
    if (!rc && o->extra_dir)
        rc = add_both(v, o->extra_dir, READ_ONLY);
    if (!rc)
        rc = add_both(v, o->session_dir, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return rc;
}

static int new_fs(const char *type, const char *const (*options)[2], int n, unsigned attr)
{
    int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -1;
    int bad = 0, m = -1;
    for (int i = 0; i < n && !bad; i++)
        bad = fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0);
    if (!bad && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
        m = fsmount(fs, FSMOUNT_CLOEXEC, attr);
    int e = errno;
    close(fs);
    errno = e;
    return m;
}

// /proc with only processes, and only those that we could trace: ourselves and QEMU. Where that may
// not be mounted (unprivileged, or a container that masks parts of it) the host's as it is.
static int add_proc(struct view *v, bool *own)
{
    static const char *const options[][2] = {{"hidepid", "invisible"}, {"subset", "pid"}};
    int fd = new_fs("proc", options, 2, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    *own = fd >= 0;
    if (fd < 0)
        return add(v, "/proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, true);
    struct tree *t = &v->tree[v->n++];
    snprintf(t->path, sizeof t->path, "/proc");
    t->fd = fd;
    t->dir = true;
    return 0;
}

// mkdir -p of all parents of an absolute path below root; the last part as folder or empty file.
static int make_target(int root, const char *path, bool dir)
{
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%s", path + 1);
    for (char *s = at; (s = strchr(s, '/')); s++) {
        *s = 0;
        if (at[0] && mkdirat(root, at, 0755) && errno != EEXIST)
            return -1;
        *s = '/';
    }
    if (dir)
        return mkdirat(root, at, 0755) && errno != EEXIST ? -1 : 0;
    int fd = openat(root, at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno != EEXIST && errno != EROFS ? -1 : 0;
}

static int attach(struct view *v)
{
    for (int i = 0; i < v->n; i++) {
        struct tree *t = &v->tree[i];
        if (make_target(v->root, t->path, t->dir) || move_mount(t->fd, "", v->root, t->path + 1, MOVE_MOUNT_F_EMPTY_PATH))
            return -1;
    }
    return 0;
}

// /bin, /lib64 and so on: links into /usr on a merged system, else folders of their own.
static int add_top_level(struct view *v, bool links)
{
    static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char target[PATH_MAX];
        ssize_t n = readlink(names[i], target, sizeof target - 1);
        if (n < 0 && !links && add(v, names[i], READ_ONLY, false))
            return -1;
        if (n < 0 || !links)
            continue;
        target[n] = 0;
        if (symlinkat(target, v->root, names[i] + 1))
            return -1;
    }
    return 0;
}

static int enter_view(struct view *v)
{
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    if (fchdir(v->root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        return -1;
    return mount_setattr(AT_FDCWD, "/", 0, &ro, sizeof ro);
}

// Everything up to the point of no return. *covered: the view's root lies on the session's folder.
static const char *build_view(struct view *v, const struct ck_jail_opts *o, bool *own_proc, bool *covered)
{
    static const char *const options[][2] = {{"size", "1M"}, {"nr_inodes", "256"}, {"mode", "0755"}};
    if (unshare(CLONE_NEWNS))
        return "unshare";
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return "making the mounts private";
    if (collect(v, o) || add_top_level(v, false) || add_proc(v, own_proc))
        return "collecting what is to be seen";
    // The session's folder is only a place to stand on; it is a clone of it that the view shows.
    if ((v->root = new_fs("tmpfs", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) < 0 ||
        move_mount(v->root, "", AT_FDCWD, o->session_dir, MOVE_MOUNT_F_EMPTY_PATH))
        return "mounting the view's root";
    *covered = true;
    return add_top_level(v, true) || attach(v) ? "building the view" : NULL;
}

enum ck_jail_result ck_jail_mount_ns(struct ck_jail_ctx *c, char *reason, size_t room)
{
    bool own_proc = false, covered = false;
    if (!c->root && !ck_jail_applied(c->report, CK_JAIL_USER_NS)) {
        snprintf(reason, room, "needs root or unprivileged user namespaces");
        return CK_JAIL_UNAVAILABLE;
    }
    struct view v = {.tree = calloc(TREES_MAX, sizeof(struct tree)), .root = -1};
    const char *failed = v.tree ? build_view(&v, c->o, &own_proc, &covered) : "no memory";
    enum ck_jail_result r = failed ? ck_jail_errno(CK_JAIL_REFUSED, reason, room, failed) : CK_JAIL_APPLIED;
    if (failed && covered && umount2(c->o->session_dir, MNT_DETACH))
        c->fatal = true; // without its folder the session cannot go on
    if (!failed && enter_view(&v)) {
        r = ck_jail_errno(CK_JAIL_REFUSED, reason, room, "entering the view");
        c->fatal = true;
    }
    if (r == CK_JAIL_APPLIED && !own_proc)
        snprintf(reason, room, "/proc is the host's");
    view_free(&v);
    return r;
}
