// Children of the vmm room. By hand instead of uv_spawn, because that cannot ask for the death
// signal, which is what makes sure that no QEMU outlives its bridge. Between fork and exec only
// async-signal-safe calls: the bridge has threads.
#include "vmm/spawn.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH_FD 64 // out of the way of the numbers that the child will use

static _Noreturn void child_fail(const char *what)
{
    const char *why = strerrordesc_np(errno);
    ssize_t n = write(STDERR_FILENO, what, strlen(what));
    n += write(STDERR_FILENO, why ? why : "error", strlen(why ? why : "error"));
    n += write(STDERR_FILENO, "\n", 1);
    _exit(n > 0 ? 127 : 126);
}

static void child_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// Never returns.
static _Noreturn void child(const struct ck_spawn *s, int devnull, int output, pid_t parent)
{
    static char *const no_environment[] = {NULL};
    int high[CK_SPAWN_FDS + 2] = {0};
    child_signals();
    for (int i = 0; i < s->nfd + 2; i++) {
        int from = i == 0 ? devnull : i == 1 ? output : s->fd[i - 2];
        high[i] = fcntl(from, F_DUPFD, HIGH_FD);
        if (high[i] < 0)
            child_fail("cannot pass a descriptor: ");
    }
    if (dup2(high[0], 0) < 0 || dup2(high[1], 1) < 0 || dup2(high[1], 2) < 0)
        child_fail("cannot set up stdio: ");
    for (int i = 0; i < s->nfd; i++)
        if (dup2(high[i + 2], 3 + i) < 0)
            child_fail("cannot pass a descriptor: ");
    if (syscall(SYS_close_range, 3u + (unsigned)s->nfd, ~0u, 0))
        child_fail("cannot close descriptors: ");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) // it may have died before the prctl
        _exit(126);
    execve(s->argv[0], s->argv, no_environment);
    child_fail("cannot be executed: ");
}

int ck_spawn(const struct ck_spawn *s, struct ck_proc_id *proc, int *pidfd, int *output, struct ck_err *err)
{
    int p[2];
    CK_CLEAN_FD int devnull = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (devnull < 0)
        return ck_fail_errno(err, errno, 500, "cannot_start", "cannot open /dev/null");
    if (s->nfd > CK_SPAWN_FDS || pipe2(p, O_CLOEXEC))
        return ck_fail_errno(err, errno, 500, "cannot_start", "cannot make a pipe");
    CK_CLEAN_FD int rd = p[0];
    CK_CLEAN_FD int wr = p[1];
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(s, devnull, wr, parent);
    if (pid < 0)
        return ck_fail_errno(err, errno, 500, "cannot_start", "cannot start a process");
    CK_CLEAN_FD int pfd = (int)syscall(SYS_pidfd_open, pid, 0);
    // Not reaped yet, so the pid is still its own even if it is dead already.
    if (pfd < 0 || fcntl(rd, F_SETFL, O_NONBLOCK)) {
        int e = errno;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return ck_fail_errno(err, e, 500, "cannot_start", "cannot watch a process");
    }
    if (ck_proc_identify(pid, proc))
        *proc = (struct ck_proc_id){pid, 0}; // ended already; the pidfd says so next
    *pidfd = ck_take_fd(&pfd);
    *output = ck_take_fd(&rd);
    return 0;
}

// Reads what is there. 1 = end of file, 0 = more may come, -1 = error.
static int drain(int fd, size_t max, struct ck_buf *out)
{
    for (;;) {
        char chunk[4096];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n == 0)
            return 1;
        if (n < 0)
            return errno == EAGAIN ? 0 : errno == EINTR ? 0 : -1;
        size_t room = out->n < max ? max - out->n : 0;
        if (ck_buf_add(out, chunk, (size_t)n < room ? (size_t)n : room))
            return -1;
    }
}

// 0 ended by itself, 1 deadline.
static int wait_child(int pidfd, int output, int64_t deadline, size_t max, struct ck_buf *out)
{
    struct pollfd p[2] = {{.fd = pidfd, .events = POLLIN}, {.fd = output, .events = POLLIN}};
    for (;;) {
        int64_t left = deadline - ck_mono_ms();
        if (left <= 0)
            return 1;
        if (poll(p, 2, (int)left) <= 0)
            continue;
        if (p[1].revents && drain(output, max, out))
            p[1].fd = -1;
        if (p[0].revents) {
            drain(output, max, out);
            return 0;
        }
    }
}

static const char *last_line(struct ck_buf *b)
{
    if (!b->n || ck_buf_add(b, "", 1))
        return "it said nothing";
    char *s = (char *)b->p, *end = s + strlen(s);
    while (end > s && (end[-1] == '\n' || end[-1] == ' '))
        *--end = 0;
    char *nl = strrchr(s, '\n');
    return nl ? nl + 1 : s;
}

int ck_run(char *const *argv, int timeout_ms, size_t output_max, struct ck_buf *out, struct ck_err *err)
{
    struct ck_proc_id proc = {0, 0};
    CK_CLEAN_FD int pidfd = -1;
    CK_CLEAN_FD int output = -1;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    const char *base = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    if (ck_spawn(&(struct ck_spawn){.argv = argv}, &proc, &pidfd, &output, err))
        return ck_wrap(err, "%s", base);
    int late = wait_child(pidfd, output, ck_mono_ms() + timeout_ms, output_max, &text), status = 0;
    if (late)
        kill(proc.pid, SIGKILL); // ours and not reaped: the pid cannot be another's
    while (waitpid(proc.pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (late)
        return ck_fail(err, 504, "timeout", "%s did not end within %d s", base, timeout_ms / 1000);
    if (WIFSIGNALED(status))
        return ck_fail(err, 500, "failed", "%s was ended by signal %d", base, WTERMSIG(status));
    if (WEXITSTATUS(status))
        return ck_fail(err, 500, "failed", "%s failed with exit code %d: %s", base, WEXITSTATUS(status),
                       last_line(&text));
    if (out && ck_buf_add(out, text.p, text.n))
        return ck_fail(err, 500, "no_memory", "no memory for the output of %s", base);
    return 0;
}

static bool is_program(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

int ck_find_program(const char *name, char out[PATH_MAX], struct ck_err *err)
{
    if (strchr(name, '/')) {
        char *full = realpath(name, NULL);
        int rc = full && is_program(full) ? ck_path(out, PATH_MAX, err, "%s", full) : 1;
        free(full);
        return rc;
    }
    const char *env = getenv("PATH");
    char list[8192];
    if (ck_path(list, sizeof list, err, "%s:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", env ? env : ""))
        return -1;
    char *save = NULL;
    for (char *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        if (dir[0] != '/')
            continue; // never from the current folder
        if (ck_path(out, PATH_MAX, err, "%s/%s", dir, name))
            return -1;
        if (is_program(out))
            return 0;
    }
    return 1;
}
