// Steps of the jail that concern the process itself: descriptors, environment, limits, namespaces
// other than the mount one, credentials. System calls by hand where a library (libcap) exists,
// because two of them are all that is needed.
#include "vmm/jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_DESCRIPTORS 16384
#define MAX_TASKS_DEFAULT 512
#define MAX_FILE_DEFAULT (64ull << 30)

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

enum ck_jail_result ck_jail_descriptors(struct ck_jail_ctx *c, char *reason, size_t room)
{
    int keep[64] = {0}, n = 0;
    for (int i = 0; i < c->o->nkeep && n < 64; i++)
        if (c->o->keep[i] > 2)
            keep[n++] = c->o->keep[i];
    qsort(keep, (size_t)n, sizeof *keep, by_number);
    unsigned from = 3;
    for (int i = 0; i <= n; i++) {
        unsigned to = i < n ? (unsigned)keep[i] : ~0u;
        if (to > from && syscall(SYS_close_range, from, i < n ? to - 1 : to, 0))
            return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "close_range");
        from = to + 1;
    }
    return CK_JAIL_APPLIED;
}

enum ck_jail_result ck_jail_environment(struct ck_jail_ctx *c, char *reason, size_t room)
{
    (void)c;
    return clearenv() ? ck_jail_errno(CK_JAIL_REFUSED, reason, room, "clearenv") : CK_JAIL_APPLIED;
}

// Lowers a limit; one that is lower already stays.
static int limit(int what, rlim_t value)
{
    struct rlimit r;
    if (getrlimit(what, &r))
        return -1;
    if (r.rlim_max != RLIM_INFINITY && value > r.rlim_max)
        value = r.rlim_max;
    return setrlimit(what, &(struct rlimit){value, value});
}

enum ck_jail_result ck_jail_rlimits(struct ck_jail_ctx *c, char *reason, size_t room)
{
    const struct ck_jail_opts *o = c->o;
    rlim_t file = o->max_file_bytes ? o->max_file_bytes : MAX_FILE_DEFAULT;
    rlim_t tasks = o->max_tasks ? o->max_tasks : MAX_TASKS_DEFAULT;
    if (limit(RLIMIT_CORE, 0) || limit(RLIMIT_FSIZE, file) || limit(RLIMIT_NOFILE, MAX_DESCRIPTORS))
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "setrlimit");
    // Counts all processes of a user: of use only for a user of the session's own.
    if (c->root && !(o->skip & CK_JAIL_BIT(CK_JAIL_UID)) && limit(RLIMIT_NPROC, tasks))
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "setrlimit of processes");
    return CK_JAIL_APPLIED;
}

// ---- namespaces -------------------------------------------------------------------------------

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int e = errno;
    close(fd);
    errno = e;
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

// A user namespace with ourselves and nobody else in it, under the same numbers: files keep their owner.
static int become_mapped(unsigned uid, unsigned gid)
{
    char map[64];
    if (unshare(CLONE_NEWUSER))
        return -1;
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    if (put("/proc/self/uid_map", map) || put("/proc/self/setgroups", "deny"))
        return -1;
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    return put("/proc/self/gid_map", map);
}

// Some systems let the namespace be made and then refuse the mapping, or every capability in it; from
// there is no way back. So a child tries first. Returns an errno, 0 = it works.
static int try_user_ns(unsigned uid, unsigned gid)
{
    pid_t pid = fork();
    if (pid == 0) {
        errno = 0;
        _exit(become_mapped(uid, gid) || unshare(CLONE_NEWNS) ? (errno & 127) : 0);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid < 0 ? errno : WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

enum ck_jail_result ck_jail_user_ns(struct ck_jail_ctx *c, char *reason, size_t room)
{
    unsigned uid = geteuid(), gid = getegid();
    if (c->root) {
        snprintf(reason, room, "not needed: started as root");
        return CK_JAIL_SKIPPED;
    }
    errno = try_user_ns(uid, gid);
    if (errno)
        return ck_jail_errno(CK_JAIL_UNAVAILABLE, reason, room, "unprivileged user namespaces");
    if (become_mapped(uid, gid)) {
        c->fatal = true; // unmapped in a namespace: nothing would work from here
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "mapping the user");
    }
    return CK_JAIL_APPLIED;
}

static bool may_unshare(struct ck_jail_ctx *c, char *reason, size_t room)
{
    if (c->root || ck_jail_applied(c->report, CK_JAIL_USER_NS))
        return true;
    snprintf(reason, room, "needs root or unprivileged user namespaces");
    return false;
}

static enum ck_jail_result enter(struct ck_jail_ctx *c, int flag, char *reason, size_t room)
{
    if (!may_unshare(c, reason, room))
        return CK_JAIL_UNAVAILABLE;
    return unshare(flag) ? ck_jail_errno(CK_JAIL_REFUSED, reason, room, "unshare") : CK_JAIL_APPLIED;
}

enum ck_jail_result ck_jail_net_ns(struct ck_jail_ctx *c, char *reason, size_t room)
{
    enum ck_jail_result r = enter(c, CLONE_NEWNET, reason, room);
    if (r != CK_JAIL_APPLIED)
        return r;
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo)) {
        r = ck_jail_errno(CK_JAIL_REFUSED, reason, room, "bringing up lo");
        c->fatal = true; // a network without lo reaches no guest
    }
    if (s >= 0)
        close(s);
    return r;
}

enum ck_jail_result ck_jail_ipc_ns(struct ck_jail_ctx *c, char *reason, size_t room)
{
    return enter(c, CLONE_NEWIPC, reason, room);
}

enum ck_jail_result ck_jail_uts_ns(struct ck_jail_ctx *c, char *reason, size_t room)
{
    enum ck_jail_result r = enter(c, CLONE_NEWUTS, reason, room);
    if (r == CK_JAIL_APPLIED && sethostname("cellkeep", 8))
        snprintf(reason, room, "the host's name stays visible");
    return r;
}

enum ck_jail_result ck_jail_pid_ns(struct ck_jail_ctx *c, char *reason, size_t room)
{
    // unshare(CLONE_NEWPID) would make every later thread creation of the bridge fail, and QEMU would
    // need a parent that stays outside; /proc with hidepid does most of what it would.
    (void)c;
    snprintf(reason, room, "not used: the bridge has threads; other processes are hidden by the mount view");
    return CK_JAIL_SKIPPED;
}

// ---- credentials ------------------------------------------------------------------------------

// Can the target user reach what it needs without the private view?
static bool reachable(struct ck_jail_ctx *c)
{
    const char *const dirs[] = {c->o->session_dir, c->o->template_dir, c->o->image_dir};
    bool ok = !setegid(c->gid) && !seteuid(c->uid);
    for (size_t i = 0; ok && i < sizeof dirs / sizeof *dirs; i++)
        ok = !faccessat(AT_FDCWD, dirs[i], X_OK, AT_EACCESS);
    return !seteuid(0) && !setegid(0) && ok;
}

static int group_of_kvm(gid_t *out)
{
    struct stat st;
    if (stat("/dev/kvm", &st))
        return 0;
    *out = st.st_gid;
    return st.st_gid != 0 && (st.st_mode & 0060) == 0060;
}

enum ck_jail_result ck_jail_uid(struct ck_jail_ctx *c, char *reason, size_t room)
{
    gid_t kvm = 0;
    if (!c->root) {
        snprintf(reason, room, "only root can give a session its own user; runs as uid %u", (unsigned)geteuid());
        return CK_JAIL_UNAVAILABLE;
    }
    int groups = c->o->kvm ? group_of_kvm(&kvm) : 0;
    struct stat st;
    if (stat(c->o->session_dir, &st) || (!c->dry && chown(c->o->session_dir, c->uid, c->gid)))
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "giving the session's folder to its user");
    if (!ck_jail_applied(c->report, CK_JAIL_MOUNT_NS) && !c->dry && !reachable(c)) {
        if (chown(c->o->session_dir, st.st_uid, st.st_gid)) // or root without capabilities could not write there
            c->fatal = true;
        snprintf(reason, room, "uid %u could not reach the template's or the session's folder", (unsigned)c->uid);
        return CK_JAIL_UNAVAILABLE;
    }
    if (c->o->kvm && !groups)
        snprintf(reason, room, "/dev/kvm belongs to no group that could be kept");
    // The permitted capabilities are kept for the next step, which drops them for good.
    if (!(c->o->skip & CK_JAIL_BIT(CK_JAIL_CAPABILITIES)) && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "keepcaps");
    if (setgroups((size_t)groups, &kvm) || setresgid(c->gid, c->gid, c->gid) || setresuid(c->uid, c->uid, c->uid)) {
        c->fatal = true;
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "changing the user");
    }
    if (!reason[0])
        snprintf(reason, room, "uid %u gid %u", (unsigned)c->uid, (unsigned)c->gid);
    return CK_JAIL_APPLIED;
}

static int set_caps(uint32_t effective, uint32_t permitted_mask)
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2];
    if (syscall(SYS_capget, &h, d))
        return -1;
    for (int i = 0; i < 2; i++) {
        d[i].permitted &= permitted_mask;
        d[i].effective = i == 0 ? effective & d[i].permitted : 0;
        d[i].inheritable = 0;
    }
    return (int)syscall(SYS_capset, &h, d);
}

enum ck_jail_result ck_jail_capabilities(struct ck_jail_ctx *c, char *reason, size_t room)
{
    bool bounded = true;
    (void)c;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    set_caps(1u << CAP_SETPCAP, ~0u); // effective again after the change of user, if it is permitted
    for (int cap = 0; cap < 64; cap++) {
        int has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (has < 0)
            break; // beyond the last one of this kernel
        if (has && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
            bounded = false;
    }
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (set_caps(0, 0)) {
        c->fatal = true;
        return ck_jail_errno(CK_JAIL_REFUSED, reason, room, "dropping capabilities");
    }
    if (!bounded) // without root there is none to lose, and no_new_privs closes the way to get any
        snprintf(reason, room, "none held; the bounding set could not be emptied");
    return CK_JAIL_APPLIED;
}

enum ck_jail_result ck_jail_no_new_privs(struct ck_jail_ctx *c, char *reason, size_t room)
{
    (void)c;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? ck_jail_errno(CK_JAIL_REFUSED, reason, room, "prctl") : CK_JAIL_APPLIED;
}
