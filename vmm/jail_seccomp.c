// The jail's last step: a filter on system calls for the bridge, which its QEMU inherits (and adds its
// own to, see -sandbox in argv.c). It lists what may be called; everything else is answered with
// ENOSYS, so that libraries fall back as they would on an older kernel. It must never need more than
// no_new_privs, and must not keep away anything that QEMU needs with KVM, which is not tried
// everywhere: so the list is by purpose and generous within each.
#include "vmm/jail_int.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/socket.h>

// Nothing here names another process but by signal, changes what is mounted, loads code into the kernel,
// makes a namespace, traces, or sets clocks.
static const char *const allowed[] = {
    // memory
    "brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "msync", "mincore", "mlock", "mlock2", "munlock",
    "mlockall", "munlockall", "membarrier", "memfd_create", "mbind", "get_mempolicy", "set_mempolicy",
    // its QEMU's memory, for layers: of a process of the same user alone, as with ptrace
    "process_vm_readv", "process_vm_writev",
    // files
    "open", "openat", "close", "close_range", "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv",
    "pwritev", "preadv2", "pwritev2", "lseek", "stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs",
    "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "chdir",
    "fchdir", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat",
    "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "truncate", "ftruncate", "fallocate", "fadvise64", "fsync",
    "fdatasync", "sync_file_range", "syncfs", "copy_file_range", "sendfile", "splice", "utimensat", "umask", "flock",
    "fcntl", "dup", "dup2", "dup3", "pipe", "pipe2", "ioctl", "fgetxattr", "getxattr", "lgetxattr", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch", "io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel",
    "io_destroy",
    // waiting
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "eventfd", "eventfd2", "timerfd_create", "timerfd_settime", "timerfd_gettime", "signalfd",
    "signalfd4", "futex", "futex_waitv", "nanosleep", "clock_nanosleep", "restart_syscall", "pause",
    // sockets that are there already, and those of the families below
    "connect", "bind", "listen", "accept", "accept4", "shutdown", "sendto", "recvfrom", "sendmsg", "recvmsg",
    "sendmmsg", "recvmmsg", "getsockname", "getpeername", "getsockopt", "setsockopt",
    // time, of which only reading
    "clock_gettime", "clock_getres", "gettimeofday", "time", "times", "getitimer", "setitimer", "alarm",
    "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete",
    // the process and its threads; QEMU adds a filter of its own with seccomp
    "fork", "vfork", "execve", "exit", "exit_group", "wait4", "waitid", "kill", "tkill", "tgkill", "getpid", "getppid",
    "gettid", "getpgrp", "getpgid", "getsid", "setsid", "setpgid", "getuid", "geteuid", "getgid", "getegid",
    "getresuid", "getresgid", "getgroups", "capget", "prctl", "arch_prctl", "set_tid_address", "set_robust_list",
    "get_robust_list", "rseq", "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam",
    "sched_getscheduler", "sched_setscheduler", "sched_setparam", "sched_getattr", "sched_setattr",
    "sched_get_priority_max", "sched_get_priority_min", "getpriority", "setpriority",
    "getrlimit", "setrlimit", "prlimit64", "getrusage", "sysinfo", "uname", "getcpu", "getrandom", "pidfd_open",
    "pidfd_send_signal", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "rt_sigsuspend", "seccomp", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigaltstack",
#ifdef __SANITIZE_ADDRESS__
    "ptrace", // how its search for leaks looks at the other threads; no build that anybody runs has this
#endif
};

#define NAMESPACES                                                                                              \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

static int fill(scmp_filter_ctx f)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof allowed / sizeof *allowed; i++) {
        int nr = seccomp_syscall_resolve_name(allowed[i]);
        if (nr == __NR_SCMP_ERROR)
            continue; // younger than the library
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0);
    }
    for (size_t i = 0; !rc && i < sizeof families / sizeof *families; i++) {
        const struct scmp_arg_cmp is = SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i], 0);
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, is);
    }
    // The others, netlink among them: with the error that libzmq, which looks for interfaces when it binds,
    // takes for a system without them.
    const struct scmp_arg_cmp other = SCMP_A0(SCMP_CMP_GT, AF_INET6, 0);
    if (!rc)
        rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(socket), 1, other);
    const struct scmp_arg_cmp unix_pair = SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0);
    const struct scmp_arg_cmp no_namespace = SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0);
    // clone3 has its flags in memory, where no filter sees them: it is not there, and libc takes clone.
    return rc ? rc
              : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, unix_pair) ||
                    seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, no_namespace);
}

enum ck_jail_result ck_jail_seccomp(struct ck_jail_ctx *c, char *reason, size_t room)
{
    if (!ck_jail_applied(c->report, CK_JAIL_NO_NEW_PRIVS)) {
        snprintf(reason, room, "needs the step no_new_privs");
        return CK_JAIL_UNAVAILABLE;
    }
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rc = f ? fill(f) : -ENOMEM;
    if (!rc)
        rc = seccomp_load(f);
    seccomp_release(f);
    errno = rc < 0 ? -rc : ENOSYS;
    return rc ? ck_jail_errno(CK_JAIL_REFUSED, reason, room, "loading the filter") : CK_JAIL_APPLIED;
}
