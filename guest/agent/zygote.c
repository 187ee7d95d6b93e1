// Life of the zygote process. It shares one socketpair (datagrams that keep their borders) with the
// agent: events come in, requests with a descriptor go out. When it dies a new one is started that
// serves before it has imported everything, so that a kernel can start without waiting for it all.
// Its real uid is 0 so that the user's code can neither kill nor trace it (a `pkill python` must not
// make the next kernel slow); its effective uid is the user's, and no code of a user runs in it.
#include "guest/agent/zygote.h"

#include "guest/agent/cgroup.h"
#include "guest/agent/console.h"
#include "guest/agent/spawn.h"
#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zmq.h>

#define SCRIPT "/run/cellkeep/zygote.py"
#define RESTART_MS 500
#define OOM_ADJ (-500)

struct ag_zygote {
    struct ag_loop *loop;
    struct ag_zygote_events events;
    pid_t pid; // 0 = none
    int fd;    // our end, -1 = none
    bool serving;
    struct ag_timer restart;
};

static void restart(void *ctx)
{
    struct ag_zygote *z = ctx;
    struct ck_err err = CK_ERR_INIT;
    if (ag_zygote_start(z, false, &err) < 0)
        ag_loop_after(z->loop, &z->restart, RESTART_MS);
}

struct ag_zygote *ag_zygote_new(struct ag_loop *loop, struct ag_zygote_events events)
{
    struct ag_zygote *z = calloc(1, sizeof *z);
    if (z) {
        *z = (struct ag_zygote){.loop = loop, .events = events, .fd = -1};
        z->restart = (struct ag_timer){.fn = restart, .ctx = z};
    }
    return z;
}

static void drop_link(struct ag_zygote *z)
{
    ag_loop_unwatch(z->loop, z->fd);
    if (z->fd >= 0)
        close(z->fd);
    z->fd = -1;
    z->serving = false;
}

void ag_zygote_free(struct ag_zygote *z)
{
    if (!z)
        return;
    drop_link(z);
    ag_loop_cancel(z->loop, &z->restart);
    free(z);
}

bool ag_zygote_serving(const struct ag_zygote *z) { return z->serving; }

static void deliver(struct ag_zygote *z, const struct ag_zygote_message *m)
{
    void *ctx = z->events.ctx;
    switch (m->kind) {
    case AG_ZYGOTE_PROGRESS:
        z->events.progress(ctx, m->percent, m->text);
        break;
    case AG_ZYGOTE_SERVING:
        z->serving = true;
        z->events.serving(ctx);
        break;
    case AG_ZYGOTE_WARM:
        ag_cgroup_set_limits();
        z->events.warm(ctx);
        break;
    case AG_ZYGOTE_WARMED:
        z->events.warmed(ctx);
        break;
    case AG_ZYGOTE_FAILED:
        z->events.failed(ctx, m->text);
        break;
    }
}

static void on_message(void *ctx, int fd, short revents)
{
    (void)revents;
    struct ag_zygote *z = ctx;
    static uint8_t buf[AG_ZYGOTE_MESSAGE_MAX];
    struct ag_zygote_message m;
    for (int i = 0; i < 16 && z->fd == fd; i++) {
        ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            // the process follows, or lives on without a link and is of no use
            drop_link(z);
            if (z->pid)
                kill(z->pid, SIGKILL);
            return;
        }
        if (ag_zygote_parse(ck_slice(buf, (size_t)n), &m) == 0)
            deliver(z, &m);
    }
}

int ag_zygote_start(struct ag_zygote *z, bool first, struct ck_err *err)
{
    int ends[2];
    char *argv[] = {(char *)"/usr/bin/python3", (char *)"-sP", (char *)SCRIPT, (char *)(first ? "--first" : "--again"),
                    NULL};
    char **env = ag_env_make(NULL, err);
    CK_CLEAN_FD int cgroup = env ? ag_cgroup_procs_fd("zygote", err) : -1;
    if (!env || cgroup < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        ag_env_free(env);
        return ck_wrap(err, "zygote");
    }
    int room = AG_ZYGOTE_MESSAGE_MAX * 2;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    struct ag_spawn how = {.argv = argv, .envp = env, .stdin_fd = -1, .stdout_fd = -1,
                           .stderr_fd = first ? ag_console_fd() : -1, .pass_fd = ends[1], .cgroup_fd = cgroup,
                           .oom_score_adj = OOM_ADJ, .real_root = true};
    pid_t pid = ag_spawn(&how, err);
    close(ends[1]);
    ag_env_free(env);
    if (pid < 0 || ag_loop_watch(z->loop, ends[0], ZMQ_POLLIN, on_message, z) < 0) {
        close(ends[0]);
        if (pid > 0)
            kill(pid, SIGKILL);
        return pid < 0 ? -1 : ck_fail(err, 503, "busy", "too many descriptors are watched");
    }
    z->pid = pid;
    z->fd = ends[0];
    return 0;
}

bool ag_zygote_reaped(struct ag_zygote *z, pid_t pid)
{
    if (pid != z->pid || pid <= 0)
        return false;
    drop_link(z);
    z->pid = 0;
    ag_loop_after(z->loop, &z->restart, RESTART_MS);
    return true;
}

static int send_request(struct ag_zygote *z, const json_t *request, int fd, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    if (z->fd < 0)
        return ck_fail(err, 503, "no_zygote", "the kernel's parent process is being restarted");
    if (ck_json_dump(request, &text) < 0 || text.n > AG_ZYGOTE_MESSAGE_MAX)
        return ck_fail(err, 413, "too_large", "the kernel's environment is too large");
    struct iovec iov = {text.p, text.n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    if (sendmsg(z->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return ck_fail_errno(err, errno, 503, "no_zygote", "the kernel's parent process does not listen");
    return 0;
}

int ag_zygote_fork(struct ag_zygote *z, const json_t *request, int fd, struct ck_err *err)
{
    return send_request(z, request, fd, err);
}

int ag_zygote_exercise(struct ag_zygote *z, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *request = json_pack("{s:s}", "op", "exercise");
    return send_request(z, request, -1, err);
}
