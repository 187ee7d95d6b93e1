// Running commands. Output is read from the pipes only while the way to the bridge is free, so a
// flood stops at its own pipe. The end is reported when the program itself has ended: what it left
// in the pipes is passed on, but a child in the background that keeps them open is not waited for.
#include "guest/agent/command.h"

#include "guest/agent/cgroup.h"
#include "guest/agent/limits.h"
#include "guest/agent/spawn.h"
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_time.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define CHUNK (64 * 1024)
#define ARGS_MAX 1024
#define TIMEOUT_MAX_MS (24 * 3600 * 1000)
#define PAUSE_MS 5 // between two reads: small writes of a program become few large messages
#define LEFT_OVER_MAX (4 * CHUNK) // a pipe holds 64 KiB; the rest is what a background child adds meanwhile
#define SWEEP_BACK 64

struct command {
    struct ag_commands *all;
    pid_t pid; // 0 = free place
    unsigned serial;
    int in, out, err; // our ends, -1 = closed
    struct ck_buf stdin_bytes;
    bool timed_out;
    struct ag_timer timeout;
};

struct ag_commands {
    struct ag_loop *loop;
    struct ag_server *server;
    struct command place[AG_COMMANDS_MAX];
    unsigned serial;
    struct ag_timer resume; // looks again whether output may be read
};

static void name_of(unsigned serial, char *out) { snprintf(out, AG_CGROUP_NAME_MAX, "command-%u", serial); }

static void close_fd(struct command *c, int *fd)
{
    if (*fd < 0)
        return;
    ag_loop_unwatch(c->all->loop, *fd);
    close(*fd);
    *fd = -1;
}

static void resume(void *ctx)
{
    struct ag_commands *all = ctx;
    if (!ag_server_has_room(all->server)) {
        ag_loop_after(all->loop, &all->resume, PAUSE_MS);
        return;
    }
    for (int i = 0; i < AG_COMMANDS_MAX; i++) {
        const struct command *c = &all->place[i];
        if (c->pid) {
            ag_loop_events(all->loop, c->out, ZMQ_POLLIN);
            ag_loop_events(all->loop, c->err, ZMQ_POLLIN);
        }
    }
}

struct ag_commands *ag_commands_new(struct ag_loop *loop, struct ag_server *server)
{
    struct ag_commands *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->loop = loop;
    all->server = server;
    all->resume = (struct ag_timer){.fn = resume, .ctx = all};
    return all;
}

static void kill_group(struct command *c)
{
    char name[AG_CGROUP_NAME_MAX];
    name_of(c->serial, name);
    ag_cgroup_kill(name); // also what left the process group
    kill(-c->pid, SIGKILL);
}

void ag_commands_free(struct ag_commands *all)
{
    if (!all)
        return;
    ag_loop_cancel(all->loop, &all->resume);
    for (int i = 0; i < AG_COMMANDS_MAX; i++) {
        struct command *c = &all->place[i];
        if (c->pid) {
            ag_loop_cancel(all->loop, &c->timeout);
            close_fd(c, &c->in);
            close_fd(c, &c->out);
            close_fd(c, &c->err);
            ck_buf_free(&c->stdin_bytes);
        }
    }
    free(all);
}

static void on_timeout(void *ctx)
{
    struct command *c = ctx;
    c->timed_out = true;
    kill_group(c); // the exit is reported when it has happened
}

// One read; true when something was passed on.
static bool pump(struct command *c, int *fd)
{
    static uint8_t buf[CHUNK];
    ssize_t n = read(*fd, buf, sizeof buf);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close_fd(c, fd);
        return false;
    }
    ag_push(c->all->server,
            json_pack("{s:s, s:i, s:s}", "ev", "out", "pid", (int)c->pid, "stream",
                      fd == &c->out ? "stdout" : "stderr"),
            ck_slice(buf, (size_t)n));
    return true;
}

static void on_output(void *ctx, int fd, short revents)
{
    (void)revents;
    struct command *c = ctx;
    pump(c, fd == c->out ? &c->out : &c->err);
    ag_loop_events(c->all->loop, fd, 0);
    if (!c->all->resume.due)
        ag_loop_after(c->all->loop, &c->all->resume, PAUSE_MS);
}

static void on_stdin(void *ctx, int fd, short revents)
{
    struct command *c = ctx;
    ssize_t n = revents & ZMQ_POLLERR ? -1 : write(fd, c->stdin_bytes.p, c->stdin_bytes.n);
    if (n > 0)
        ck_buf_consume(&c->stdin_bytes, (size_t)n);
    if ((n < 0 && (revents & ZMQ_POLLERR || (errno != EAGAIN && errno != EINTR))) || c->stdin_bytes.n == 0)
        close_fd(c, &c->in);
}

// Old commands' cgroups go when nothing is left in them; a background child keeps its own alive.
static void sweep(struct ag_commands *all)
{
    for (unsigned i = all->serial > SWEEP_BACK ? all->serial - SWEEP_BACK : 0; i <= all->serial; i++) {
        char name[AG_CGROUP_NAME_MAX];
        name_of(i, name);
        ag_cgroup_remove(name);
    }
}

static void report(struct command *c, int status)
{
    char name[AG_CGROUP_NAME_MAX];
    name_of(c->serial, name);
    json_t *ev = json_pack("{s:s, s:i, s:b, s:I}", "ev", "exit", "pid", (int)c->pid, "timed_out", c->timed_out,
                           "pids_refused", (json_int_t)ag_cgroup_pids_refused(name));
    if (ev && WIFSIGNALED(status))
        json_object_set_new(ev, "signal", json_integer(WTERMSIG(status)));
    else if (ev)
        json_object_set_new(ev, "code", json_integer(WEXITSTATUS(status)));
    ag_push(c->all->server, ev, ck_slice(NULL, 0));
}

bool ag_commands_reaped(struct ag_commands *all, pid_t pid, int status)
{
    for (int i = 0; pid > 0 && i < AG_COMMANDS_MAX; i++) {
        struct command *c = &all->place[i];
        if (c->pid != pid)
            continue;
        int *const fds[] = {&c->out, &c->err};
        for (int k = 0; k < 2; k++)
            for (int left = LEFT_OVER_MAX; left > 0 && *fds[k] >= 0 && pump(c, fds[k]);)
                left -= CHUNK;
        report(c, status);
        ag_loop_cancel(all->loop, &c->timeout);
        close_fd(c, &c->in);
        close_fd(c, &c->out);
        close_fd(c, &c->err);
        ck_buf_free(&c->stdin_bytes);
        c->pid = 0;
        sweep(all);
        return true;
    }
    return false;
}

void ag_commands_kill_all(struct ag_commands *all)
{
    for (int i = 0; i < AG_COMMANDS_MAX; i++)
        if (all->place[i].pid)
            kill_group(&all->place[i]);
}

// argv from the request: "argv" as given, or "cmd" for the shell. The strings stay the request's.
static int make_argv(const json_t *header, char **argv, struct ck_err *err)
{
    const json_t *list = json_object_get(header, "argv");
    const char *cmd = ck_json_str(header, "cmd", NULL, NULL);
    size_t n = json_array_size(list);
    if (json_is_array(list) && n > 0 && n < ARGS_MAX && !cmd) {
        for (size_t i = 0; i < n; i++) {
            const json_t *s = json_array_get(list, i);
            if (!json_is_string(s) || strlen(json_string_value(s)) != json_string_length(s))
                return ck_fail(err, 400, "bad_field", "\"argv\" must be strings without NUL");
            argv[i] = (char *)json_string_value(s);
        }
        argv[n] = NULL;
        return 0;
    }
    if (!cmd || list)
        return ck_fail(err, 400, "bad_field", "give either \"cmd\" or \"argv\" (at most %d strings)", ARGS_MAX - 1);
    argv[0] = (char *)"/bin/bash";
    argv[1] = (char *)"-c";
    argv[2] = (char *)cmd;
    argv[3] = NULL;
    return 0;
}

struct pipes {
    int fd[6]; // in read, in write, out read, out write, err read, err write; -1 = closed
};

static void pipes_close(struct pipes *p)
{
    for (int i = 0; i < 6; i++)
        if (p->fd[i] >= 0)
            close(p->fd[i]);
}

static int pipes_open(struct pipes *p, struct ck_err *err)
{
    *p = (struct pipes){{-1, -1, -1, -1, -1, -1}};
    for (int i = 0; i < 6; i += 2)
        if (pipe2(p->fd + i, O_CLOEXEC) < 0)
            return ck_fail_errno(err, errno, 503, "busy", "pipe");
    for (int i = 1; i < 5; i++) // our ends: 1, 2, 4
        if (i != 3 && fcntl(p->fd[i], F_SETFL, O_NONBLOCK) < 0)
            return ck_fail_errno(err, errno, 503, "busy", "pipe");
    return 0;
}

static pid_t spawn(struct ag_commands *all, const json_t *header, struct pipes *p, struct ck_err *err)
{
    char *argv[ARGS_MAX + 1], name[AG_CGROUP_NAME_MAX];
    struct ck_err bad = CK_ERR_INIT;
    const char *cwd = ck_json_str(header, "cwd", AG_HOME, &bad);
    json_t *extra = ck_json_obj(header, "env", &bad);
    if (bad.status || cwd[0] != '/')
        return ck_fail(err, 400, "bad_field", "%s", bad.status ? bad.text : "\"cwd\" must be an absolute path");
    if (make_argv(header, argv, err) < 0)
        return -1;
    name_of(++all->serial, name);
    char **env = ag_env_make(extra, err);
    CK_CLEAN_FD int cgroup = env && ag_cgroup_make(name, err) == 0 ? ag_cgroup_procs_fd(name, err) : -1;
    pid_t pid = -1;
    if (cgroup >= 0) {
        ag_cgroup_limit_pids(name, (int)ag_limits_command_pids());
        struct ag_spawn how = {.argv = argv, .envp = env, .cwd = cwd, .stdin_fd = p->fd[0], .stdout_fd = p->fd[3],
                               .stderr_fd = p->fd[5], .pass_fd = -1, .cgroup_fd = cgroup,
                               .oom_score_adj = AG_USER_OOM_ADJ, .open_files = ag_limits_open_files()};
        pid = ag_spawn(&how, err);
        if (pid < 0)
            ag_cgroup_remove(name);
    }
    ag_env_free(env);
    return pid;
}

static int start(struct ag_commands *all, struct ag_request *req, struct command *c, struct ck_err *err)
{
    struct pipes p;
    int64_t timeout = ck_json_int(req->header, "timeout_ms", 0, NULL);
    pid_t pid = pipes_open(&p, err) < 0 ? -1 : spawn(all, req->header, &p, err);
    if (pid < 0) {
        pipes_close(&p);
        return -1;
    }
    *c = (struct command){.all = all, .pid = pid, .serial = all->serial, .in = p.fd[1], .out = p.fd[2], .err = p.fd[4]};
    p.fd[1] = p.fd[2] = p.fd[4] = -1; // now the command's
    pipes_close(&p);
    c->stdin_bytes = req->payload; // moves
    req->payload = (struct ck_buf)CK_BUF_INIT;
    c->timeout = (struct ag_timer){.fn = on_timeout, .ctx = c};
    if (c->stdin_bytes.n == 0)
        close_fd(c, &c->in);
    short reading = ag_server_has_room(all->server) ? ZMQ_POLLIN : 0;
    if (!reading && !all->resume.due)
        ag_loop_after(all->loop, &all->resume, PAUSE_MS);
    if ((c->in >= 0 && ag_loop_watch(all->loop, c->in, ZMQ_POLLOUT, on_stdin, c) < 0) ||
        ag_loop_watch(all->loop, c->out, reading, on_output, c) < 0 ||
        ag_loop_watch(all->loop, c->err, reading, on_output, c) < 0)
        kill_group(c); // cannot happen while the table is larger than all there is to watch
    if (timeout > 0)
        ag_loop_after(all->loop, &c->timeout, timeout < TIMEOUT_MAX_MS ? timeout : TIMEOUT_MAX_MS);
    return 0;
}

void ag_op_command(struct ag_commands *all, struct ag_request *req)
{
    struct ck_err err = CK_ERR_INIT;
    struct command *c = NULL;
    for (int i = 0; i < AG_COMMANDS_MAX && !c; i++)
        if (!all->place[i].pid)
            c = &all->place[i];
    if (!c) {
        ck_fail(&err, 429, "busy", "%d commands are running already", AG_COMMANDS_MAX);
        ag_answer_error(req, &err);
    } else if (start(all, req, c, &err) < 0) {
        ag_answer_error(req, &err);
    } else {
        ag_answer(req, json_pack("{s:i}", "pid", (int)c->pid), ck_slice(NULL, 0));
    }
}

void ag_op_command_kill(struct ag_commands *all, struct ag_request *req)
{
    struct ck_err err = CK_ERR_INIT;
    int64_t pid = ck_json_int(req->header, "pid", 0, NULL);
    for (int i = 0; pid > 0 && i < AG_COMMANDS_MAX; i++)
        if (all->place[i].pid == pid) {
            kill_group(&all->place[i]);
            ag_answer(req, NULL, ck_slice(NULL, 0));
            return;
        }
    ck_fail(&err, 404, "no_such_command", "no running command has this pid");
    ag_answer_error(req, &err);
}
