// The guest agent: PID 1 of a session's machine. Boots it, starts the zygote and the kernel, warms
// them up, says template-ready on the console, and then serves the bridge for ever. Snapshots are
// taken of it while it waits in its loop, so nothing here may depend on who is at the other end or
// on what time it is. It must never exit: the end of PID 1 is the end of the machine.
#include "guest/agent/agent.h"
#include "guest/agent/boot.h"
#include "guest/agent/cgroup.h"
#include "guest/agent/console.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define SETTLE_MS 3000

static struct ag_agent agent;
static bool template_done, trimmed;
static struct ag_timer settle;

static _Noreturn void give_up(const char *text)
{
    ag_console_failed(text);
    ag_boot_poweroff();
}

// --- what happens while the template is made, in this order -------------------------------------

static void on_progress(void *ctx, int percent, const char *text)
{
    (void)ctx;
    if (!template_done)
        ag_console_progress(percent, text);
}

static void on_zygote_failed(void *ctx, const char *text)
{
    (void)ctx;
    if (!template_done)
        give_up(text);
}

static void on_serving(void *ctx)
{
    (void)ctx;
    ag_kernel_zygote_serving(agent.kernel);
}

static void on_warm(void *ctx)
{
    (void)ctx;
    if (template_done)
        return;
    ag_console_progress(70, "starting the kernel");
    ag_kernel_start_template(agent.kernel);
}

static void exercise(void)
{
    struct ck_err err = CK_ERR_INIT;
    if (ag_zygote_exercise(agent.zygote, &err) < 0)
        give_up(err.text);
}

static void on_kernel_started(void *ctx, const struct ck_err *err)
{
    (void)ctx;
    if (template_done)
        return;
    if (err)
        give_up(err->text);
    ag_console_progress(80, "warming up the kernel");
    exercise();
}

static void on_baseline(void *ctx, const struct ck_err *err)
{
    (void)ctx;
    if (err)
        give_up(err->text);
    // let written pages reach the disk and everything fall idle before the snapshot
    sync();
    ag_loop_after(agent.loop, &settle, SETTLE_MS);
}

static void on_warmed(void *ctx)
{
    (void)ctx;
    if (template_done)
        return;
    if (!trimmed) { // once more, so that what a session needs is there, and no more than that
        trimmed = true;
        ag_boot_drop_cache();
        ag_console_progress(88, "trimming the page cache");
        exercise();
        return;
    }
    ag_console_progress(95, "letting the machine settle");
    ag_worker_call(agent.scans, ag_job_baseline, on_baseline, NULL);
}

static void on_settled(void *ctx)
{
    (void)ctx;
    ag_cgroup_set_limits();
    template_done = true;
    ag_console_template_ready();
}

// --- children -----------------------------------------------------------------------------------

static void on_child(void *ctx, int fd, short revents)
{
    (void)ctx, (void)revents;
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info)
        ; // one signal may stand for many children
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            return;
        if (ag_kernel_reaped(agent.kernel, pid, status) || ag_commands_reaped(agent.commands, pid, status))
            continue;
        if (ag_zygote_reaped(agent.zygote, pid) && !template_done)
            give_up("the Python parent process ended while the template was made");
    }
}

static int watch_children(struct ck_err *err)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0 || ag_loop_watch(agent.loop, fd, ZMQ_POLLIN, on_child, NULL) < 0)
        return ck_fail_errno(err, errno, 500, "signals", "signalfd");
    return 0;
}

// --- start --------------------------------------------------------------------------------------

static void protect_self(void)
{
    CK_CLEAN_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && ck_write_all(fd, "-1000", 5) < 0)
        ag_console_note("cannot protect the agent from the OOM killer");
    setpriority(PRIO_PROCESS, 0, -10);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    const struct rlimit files = {8192, 8192};
    setrlimit(RLIMIT_NOFILE, &files);
}

static void read_boot_id(void)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_read_file("/proc/sys/kernel/random/boot_id", 64, &text, NULL) == 0 && text.n)
        snprintf(agent.boot_id, sizeof agent.boot_id, "%.36s", (const char *)text.p);
}

static int start_parts(struct ck_err *err)
{
    struct ag_zygote_events events = {on_progress, on_serving, on_warm, on_warmed, on_zygote_failed, NULL};
    struct ag_uploads *uploads = ag_uploads_new();
    struct ag_scan *scan = ag_scan_new();
    json_object_seed(0); // before there are threads
    agent.loop = ag_loop_new();
    agent.kmsg = ag_kmsg_open();
    settle = (struct ag_timer){.fn = on_settled};
    if (!uploads || !scan || !agent.loop)
        return ck_fail(err, 500, "no_memory", "out of memory");
    // children first: the threads that follow inherit the blocked SIGCHLD
    if (watch_children(err) < 0 || !(agent.server = ag_server_open(agent.loop, ag_dispatch, &agent, err)) ||
        !(agent.files = ag_worker_start(agent.loop, uploads, err)) ||
        !(agent.scans = ag_worker_start(agent.loop, scan, err)))
        return -1;
    agent.zygote = ag_zygote_new(agent.loop, events);
    agent.commands = ag_commands_new(agent.loop, agent.server);
    if (agent.zygote)
        agent.kernel =
            ag_kernel_new(agent.loop, agent.zygote, agent.kmsg, agent.server, on_kernel_started, NULL);
    if (!agent.kernel || !agent.commands)
        return ck_fail(err, 500, "no_memory", "out of memory");
    return 0;
}

static int boot(struct ck_err *err)
{
    struct ag_bootargs args;
    if (ag_boot_early(&args, err) < 0)
        return -1;
    ag_console_open();
    ag_console_hello();
    if (args.mode == AG_MODE_PROBE)
        ag_boot_poweroff();
    if (ag_boot_modules(err) < 0 || ag_boot_root(err) < 0 || ag_boot_network(err) < 0 || ag_cgroup_init(err) < 0)
        return -1;
    protect_self();
    read_boot_id();
    ag_console_progress(5, "system is up");
    return start_parts(err) < 0 || ag_zygote_start(agent.zygote, true, err) < 0 ? -1 : 0;
}

int main(void)
{
    struct ck_err err = CK_ERR_INIT;
    if (getpid() != 1) {
        fprintf(stderr, "ck-agent is the first process of a cellkeep guest; it is of no use elsewhere\n");
        return 2;
    }
    umask(022);
    if (boot(&err) < 0) {
        ag_console_open();
        give_up(err.text);
    }
    ag_boot_tune();
    while (ag_loop_turn(agent.loop) == 0)
        ;
    give_up("the event loop failed");
}
