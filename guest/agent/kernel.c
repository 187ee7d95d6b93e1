// The kernel's life as a state machine:
//
//   NONE ──start──▶ WAITING (for the old one's last process to be gone, and for the zygote)
//        ──▶ FORKING (asked it) ──pid──▶ STARTING ──ready──▶ RUNNING
//   RUNNING ──start──▶ STOPPING (the old one is killed first) ──exit──▶ WAITING …
//   any ──exit, error or deadline──▶ NONE
//
// A kernel is a child of PID 1 (forked twice), so its end is seen here and nowhere else. It gets a
// cgroup of its own: whatever it started dies with it, and only when that cgroup is empty is the next
// one forked, because a child left behind would hold its ports. The pid a kernel claims is believed
// only if it is an unknown child of ours.
#include "guest/agent/kernel.h"

#include "guest/agent/boot.h"
#include "guest/agent/cgroup.h"
#include "guest/agent/limits.h"
#include "guest/agent/spawn.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define START_DEADLINE_MS 110000 // the bridge waits 120 s, and wants to hear why not
#define TEMPLATE_DEADLINE_MS 240000
#define EMPTY_LOOK_MS 30
#define FORK_TRIES 3

enum state { NONE, STOPPING, WAITING, FORKING, STARTING, RUNNING };

struct ag_kernel {
    struct ag_loop *loop;
    struct ag_zygote *zygote;
    struct ag_kmsg *kmsg;
    struct ag_server *server;
    void (*on_started)(void *ctx, const struct ck_err *err);
    void *ctx;
    enum state state;
    pid_t pid;
    int link;        // the starting kernel's status socket, -1 = none
    unsigned serial; // counts kernels; names their cgroups
    json_t *wanted;  // what to send to the zygote, while a start is pending
    struct ag_request *req;
    struct ag_timer deadline, look; // look: whether the old one's cgroup is empty
    int tries;
};

static void name_of(unsigned serial, char *out) { snprintf(out, AG_CGROUP_NAME_MAX, "kernel-%u", serial); }

static void drop_link(struct ag_kernel *k)
{
    ag_loop_unwatch(k->loop, k->link);
    if (k->link >= 0)
        close(k->link);
    k->link = -1;
}

// Ends a pending start; err NULL = it is running.
static void started(struct ag_kernel *k, const struct ck_err *err)
{
    struct ag_request *req = k->req;
    k->req = NULL;
    json_decref(k->wanted);
    k->wanted = NULL;
    ag_loop_cancel(k->loop, &k->deadline);
    ag_loop_cancel(k->loop, &k->look);
    drop_link(k);
    if (req && err)
        ag_answer_error(req, err);
    else if (req)
        ag_answer(req, json_pack("{s:i}", "pid", (int)k->pid), ck_slice(NULL, 0));
    k->on_started(k->ctx, err);
}

// A process that has its SIGKILL goes before all others: the end of a kernel must not wait until the
// hundreds of processes of its fork bomb had their turns. Must come after the kill: no code of a user
// may run like this.
static void hasten(pid_t pid)
{
    char path[32];
    const struct sched_param first = {.sched_priority = 1};
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        long tid = strtol(e->d_name, NULL, 10); // "." and ".." are 0
        if (tid > 0)
            sched_setscheduler((pid_t)tid, SCHED_FIFO, &first); // refused: it dies all the same, later
    }
    closedir(dir);
}

static void kill_all(struct ag_kernel *k)
{
    char name[AG_CGROUP_NAME_MAX];
    name_of(k->serial, name);
    ag_cgroup_kill(name); // at once and for all: what is being forked in this moment dies too
    if (k->pid > 0) {
        kill(k->pid, SIGKILL);
        hasten(k->pid);
    }
}

static void fail_start(struct ag_kernel *k, const struct ck_err *err)
{
    kill_all(k); // its exit, should there be a process, is then nobody's news
    k->pid = 0;
    k->state = NONE;
    started(k, err);
}

static void on_deadline(void *ctx)
{
    struct ag_kernel *k = ctx;
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "kernel_start_timeout", "the kernel did not start in time");
    fail_start(k, &err);
}

static void proceed(struct ag_kernel *k);

static void look(void *ctx)
{
    struct ag_kernel *k = ctx;
    if (k->state == WAITING)
        proceed(k);
}

struct ag_kernel *ag_kernel_new(struct ag_loop *loop, struct ag_zygote *zygote, struct ag_kmsg *kmsg,
                                struct ag_server *server, void (*on_started)(void *ctx, const struct ck_err *err),
                                void *ctx)
{
    struct ag_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    *k = (struct ag_kernel){.loop = loop, .zygote = zygote, .kmsg = kmsg, .server = server, .on_started = on_started,
                            .ctx = ctx, .link = -1};
    k->deadline = (struct ag_timer){.fn = on_deadline, .ctx = k};
    k->look = (struct ag_timer){.fn = look, .ctx = k};
    return k;
}

void ag_kernel_free(struct ag_kernel *k)
{
    if (!k)
        return;
    drop_link(k);
    ag_loop_cancel(k->loop, &k->deadline);
    ag_loop_cancel(k->loop, &k->look);
    json_decref(k->wanted);
    free(k);
}

pid_t ag_kernel_pid(const struct ag_kernel *k) { return k->state == RUNNING || k->state == STOPPING ? k->pid : 0; }

// A process may claim to be the new kernel only when it is our child: the zygote's intermediate
// parent is gone by then, and no other unknown child of PID 1 sits at the other end of this socket.
static int adopt(struct ag_kernel *k, pid_t pid, struct ck_err *err)
{
    char name[AG_CGROUP_NAME_MAX], path[64];
    siginfo_t info = {.si_pid = 0};
    if (pid <= 1 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return ck_fail(err, 500, "kernel_start_failed", "the kernel process is not ours");
    k->pid = pid;
    name_of(k->serial, name);
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    CK_CLEAN_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    char adj[16];
    int n = snprintf(adj, sizeof adj, "%d", AG_USER_OOM_ADJ);
    if (fd < 0 || ck_write_all(fd, adj, (size_t)n) < 0)
        return ck_fail_errno(err, errno, 500, "kernel_start_failed", "the kernel's memory priority");
    ag_limits_apply_to(pid);
    return ag_cgroup_add(name, (int)pid, err);
}

static void on_status(struct ag_kernel *k, struct ck_slice text)
{
    struct ck_err err = CK_ERR_INIT;
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text.p, text.n, false, NULL);
    int64_t pid = ck_json_int(j, "pid", 0, NULL);
    if (k->state == FORKING && pid > 0 && pid < INT32_MAX) {
        if (adopt(k, (pid_t)pid, &err) < 0 || send(k->link, "go", 2, MSG_DONTWAIT | MSG_NOSIGNAL) != 2) {
            if (!err.status)
                ck_fail(&err, 500, "kernel_start_failed", "the kernel ended while it started");
            fail_start(k, &err);
            return;
        }
        k->state = STARTING;
    } else if (k->state == STARTING && ck_json_bool(j, "ready", false, NULL)) {
        k->state = RUNNING;
        started(k, NULL);
    } else {
        ck_fail(&err, 500, "kernel_start_failed", "the kernel did not start: %.200s",
                ck_json_str(j, "error", "it said something unexpected", NULL));
        fail_start(k, &err);
    }
}

static void on_link(void *ctx, int fd, short revents)
{
    (void)revents;
    struct ag_kernel *k = ctx;
    uint8_t buf[1024];
    ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        on_status(k, ck_slice(buf, (size_t)n));
        return;
    }
    if (k->state == FORKING && ++k->tries < FORK_TRIES) { // the zygote died under it: wait for the next one
        drop_link(k);
        proceed(k);
        return;
    }
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 500, "kernel_start_failed", "the kernel ended while it started");
    fail_start(k, &err);
}

static int begin_fork(struct ag_kernel *k, struct ck_err *err)
{
    char name[AG_CGROUP_NAME_MAX];
    int ends[2];
    k->serial++;
    name_of(k->serial, name);
    if (ag_cgroup_make(name, err) < 0)
        return -1;
    ag_cgroup_limit_pids(name, (int)ag_limits_kernel_pids());
    ag_limits_watch(k->serial);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return ck_fail_errno(err, errno, 503, "kernel_start_failed", "socketpair");
    int rc = ag_zygote_fork(k->zygote, k->wanted, ends[1], err);
    close(ends[1]);
    if (rc < 0 || ag_loop_watch(k->loop, ends[0], ZMQ_POLLIN, on_link, k) < 0) {
        close(ends[0]);
        return rc < 0 ? -1 : ck_fail(err, 503, "busy", "too many descriptors are watched");
    }
    k->link = ends[0];
    k->state = FORKING;
    return 0;
}

static void proceed(struct ag_kernel *k)
{
    struct ck_err err = CK_ERR_INIT;
    char name[AG_CGROUP_NAME_MAX];
    name_of(k->serial, name);
    k->state = WAITING;
    if (ag_cgroup_remove(name) < 0) { // killed, but not all of it is gone
        ag_loop_after(k->loop, &k->look, EMPTY_LOOK_MS);
        return;
    }
    if (ag_zygote_serving(k->zygote) && begin_fork(k, &err) < 0)
        fail_start(k, &err);
}

void ag_kernel_zygote_serving(struct ag_kernel *k)
{
    if (k->state == WAITING)
        proceed(k);
}

static void start(struct ag_kernel *k, json_t *wanted, int64_t deadline_ms)
{
    k->wanted = wanted;
    k->tries = 0;
    ag_loop_after(k->loop, &k->deadline, deadline_ms);
    if (k->state == RUNNING) {
        k->state = STOPPING;
        kill_all(k);
        return;
    }
    proceed(k);
}

void ag_kernel_start_template(struct ag_kernel *k)
{
    start(k, json_pack("{s:s, s:s, s:s, s:{}}", "op", "kernel", "key", "template", "cwd", AG_HOME, "env"),
          TEMPLATE_DEADLINE_MS);
}

static void push_exit(struct ag_kernel *k, pid_t pid, int status, bool oom)
{
    char name[AG_CGROUP_NAME_MAX];
    struct ag_usage use;
    name_of(k->serial, name);
    ag_cgroup_usage(name, &use);
    json_t *ev = json_pack("{s:s, s:i, s:b, s:I}", "ev", "kernel_exit", "pid", (int)pid, "oom", oom,
                           "peak_memory_bytes", (json_int_t)use.peak_memory_bytes);
    if (ev && WIFSIGNALED(status))
        json_object_set_new(ev, "signal", json_integer(WTERMSIG(status)));
    else if (ev)
        json_object_set_new(ev, "code", json_integer(WEXITSTATUS(status)));
    ag_push(k->server, ev, ck_slice(NULL, 0));
}

bool ag_kernel_reaped(struct ag_kernel *k, pid_t pid, int status)
{
    if (pid <= 0 || pid != k->pid)
        return false;
    enum state was = k->state;
    bool oom = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && ag_kmsg_was_victim(k->kmsg, pid);
    if (was == RUNNING || was == STOPPING)
        push_exit(k, pid, status, oom);
    k->pid = 0;
    kill_all(k); // what it left behind
    // Shared memory is memory: kept, it would shrink the next kernel, after an oom until nothing starts any more.
    ag_boot_shm(&(struct ck_err)CK_ERR_INIT);
    k->state = NONE;
    if (was == STOPPING) {
        proceed(k);
    } else if (was == STARTING) {
        struct ck_err err = CK_ERR_INIT;
        ck_fail(&err, 500, "kernel_start_failed", "the kernel ended while it started%s", oom ? " (out of memory)" : "");
        fail_start(k, &err);
    }
    return true;
}

void ag_op_kernel_start(struct ag_kernel *k, struct ag_request *req)
{
    struct ck_err err = CK_ERR_INIT;
    const char *key = ck_json_str(req->header, "key", "", &err), *cwd = ck_json_str(req->header, "cwd", AG_HOME, &err);
    json_t *env = ck_json_obj(req->header, "env", &err);
    char **checked = err.status ? NULL : ag_env_make(env, &err);
    ag_env_free(checked);
    if (!err.status && (!*key || strlen(key) > 256))
        ck_fail(&err, 400, "bad_field", "field \"key\" must be 1 to 256 characters");
    if (!err.status && (cwd[0] != '/' || strlen(cwd) > 4095))
        ck_fail(&err, 400, "bad_field", "field \"cwd\" must be an absolute path");
    if (!err.status && k->wanted)
        ck_fail(&err, 409, "kernel_starting", "a kernel is being started already");
    json_t *wanted = err.status ? NULL
                                : json_pack("{s:s, s:s, s:s, s:o}", "op", "kernel", "key", key, "cwd", cwd, "env",
                                            env ? json_incref(env) : json_object());
    if (!wanted) {
        ag_answer_error(req, err.status ? &err : &(struct ck_err){503, "no_memory", "out of memory"});
        return;
    }
    k->req = req;
    start(k, wanted, START_DEADLINE_MS);
}

void ag_kernel_limit(struct ag_kernel *k)
{
    char name[AG_CGROUP_NAME_MAX];
    name_of(k->serial, name);
    ag_cgroup_limit_pids(name, (int)ag_limits_kernel_pids());
    if (k->pid > 0)
        ag_limits_apply_to(k->pid);
}

void ag_op_kernel_signal(struct ag_kernel *k, struct ag_request *req)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"INT", SIGINT}, {"KILL", SIGKILL}, {"TERM", SIGTERM}};
    struct ck_err err = CK_ERR_INIT;
    const char *name = ck_json_str(req->header, "signal", "", &err);
    bool group = ck_json_bool(req->header, "group", false, &err);
    int number = 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(known[i].name, name) == 0)
            number = known[i].number;
    if (!err.status && !number)
        ck_fail(&err, 400, "bad_field", "field \"signal\" must be INT, KILL or TERM");
    if (!err.status && ag_kernel_pid(k) == 0)
        ck_fail(&err, 409, "no_kernel", "no kernel is running");
    if (err.status) {
        ag_answer_error(req, &err);
        return;
    }
    if (number == SIGKILL && group)
        kill_all(k);
    else
        kill(group ? -k->pid : k->pid, number);
    ag_answer(req, NULL, ck_slice(NULL, 0));
}
