// fork and exec. The agent has threads (ZMQ's, the workers'), so between fork and exec only
// async-signal-safe calls are made, and everything they need is prepared before. What a child must
// never inherit: descriptors of the agent, its priority, its protection from the OOM killer.
#include "guest/agent/spawn.h"

#include "guest/agent/limits.h"
#include "common/ck_clean.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// What went wrong in the child, through a pipe that exec closes.
struct failure {
    int step;
    int errnum;
};
static const char *const step_names[] = {"limits", "identity", "working directory", "descriptors", "program"};
enum { STEP_LIMITS, STEP_IDENTITY, STEP_CWD, STEP_FDS, STEP_EXEC };

static _Noreturn void fail(int report, int step)
{
    struct failure f = {step, errno};
    ssize_t ignored = write(report, &f, sizeof f);
    (void)ignored;
    _exit(127);
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int write_small(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n > 0 ? 0 : -1;
}

static int child_limits(const struct ag_spawn *how, const char *adj)
{
    const rlim_t most = how->open_files ? how->open_files : AG_FILES_DEFAULT;
    const struct rlimit core = {0, 0}, files = {most, most}, locked = {8 << 20, 8 << 20};
    if ((how->cgroup_fd >= 0 && write(how->cgroup_fd, "0", 1) != 1) || write_small("/proc/self/oom_score_adj", adj) < 0)
        return -1;
    setrlimit(RLIMIT_CORE, &core);
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_MEMLOCK, &locked);
    return setpriority(PRIO_PROCESS, 0, 0);
}

static int drop_capabilities(void)
{
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        if (cap != CAP_SETUID && cap != CAP_SETGID && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            return -1;
    return 0;
}

static int child_identity(bool real_root)
{
    // raw calls: glibc's wrappers would try to change the other threads of the parent's image too
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, AG_GID, AG_GID, AG_GID) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || drop_capabilities() < 0)
        return -1;
    return real_root ? 0 : (int)syscall(SYS_setresuid, AG_UID, AG_UID, AG_UID);
}

// Places in[0..n-1] at 0..n-1 and closes the rest but *report, which moves up to n.
static int place_fds(const int *in, int n, int *report)
{
    int high[5] = {0};
    for (int i = 0; i <= n; i++) { // out of the way first, so that no dup2 overwrites one still needed
        high[i] = fcntl(i < n ? in[i] : *report, F_DUPFD, 64);
        if (high[i] < 0)
            return -1;
    }
    for (int i = 0; i < n; i++)
        if (dup2(high[i], i) < 0)
            return -1;
    if (dup3(high[n], n, O_CLOEXEC) < 0)
        return -1;
    *report = n;
    return (int)syscall(SYS_close_range, n + 1, ~0U, 0);
}

static _Noreturn void child(const struct ag_spawn *how, const char *adj, int null_fd, int report)
{
    int in[4] = {how->stdin_fd >= 0 ? how->stdin_fd : null_fd, how->stdout_fd >= 0 ? how->stdout_fd : null_fd,
                 how->stderr_fd >= 0 ? how->stderr_fd : null_fd, how->pass_fd};
    reset_signals();
    setsid();
    umask(022);
    if (child_limits(how, adj) < 0)
        fail(report, STEP_LIMITS);
    if (child_identity(how->real_root) < 0)
        fail(report, STEP_IDENTITY);
    if (chdir(how->cwd ? how->cwd : AG_HOME) < 0)
        fail(report, STEP_CWD);
    if (place_fds(in, how->pass_fd >= 0 ? 4 : 3, &report) < 0)
        fail(report, STEP_FDS);
    environ = (char **)how->envp;
    execvp(how->argv[0], how->argv);
    fail(report, STEP_EXEC);
}

static int report_failure(const struct failure *f, const struct ag_spawn *how, struct ck_err *err)
{
    if (f->step == STEP_CWD)
        return ck_fail_errno(err, f->errnum, 400, "bad_cwd", "working directory %.200s", how->cwd ? how->cwd : AG_HOME);
    if (f->step == STEP_EXEC)
        return ck_fail_errno(err, f->errnum, 400, "no_such_program", "cannot run %.200s", how->argv[0]);
    int known = f->step >= 0 && f->step <= STEP_EXEC;
    return ck_fail_errno(err, f->errnum, 500, "spawn", "starting a process: %s", known ? step_names[f->step] : "?");
}

pid_t ag_spawn(const struct ag_spawn *how, struct ck_err *err)
{
    char adj[16];
    int ends[2];
    snprintf(adj, sizeof adj, "%d", how->oom_score_adj);
    CK_CLEAN_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return ck_fail_errno(err, errno, 503, "spawn", "starting a process");
    pid_t pid = fork();
    if (pid == 0)
        child(how, adj, null_fd, ends[1]);
    int saved = errno;
    close(ends[1]);
    struct failure f = {-1, 0};
    ssize_t got = pid > 0 ? read(ends[0], &f, sizeof f) : 0;
    close(ends[0]);
    if (pid < 0)
        return ck_fail_errno(err, saved, 503, "spawn", "starting a process");
    if (got == sizeof f)
        return report_failure(&f, how, err); // the loop's reaper collects the child, as it does any orphan
    return pid;
}
