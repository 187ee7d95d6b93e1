// QMP client. Must never block, and must never wait for an answer without a deadline. Written on
// uv_poll instead of uv_pipe, because a libuv stream can pass on handles but no bare descriptor.
#include "vmm/qmp.h"

#include "common/ck_clean.h"
#include "common/ck_time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READS_PER_WAKE 16 // then the loop's other handles get their turn

struct pending {
    uint64_t id; // 0 = free
    int64_t deadline;
    ck_qmp_reply_fn cb;
    void *user;
    char name[40];
};

struct out_item {
    struct out_item *next;
    struct ck_buf buf; // what is left to send
    int fd;            // goes with the first byte; -1 = none or sent
};

struct ck_qmp {
    struct ck_qmp_opts o;
    uv_poll_t poll;
    uv_timer_t timer;
    int handles; // open libuv handles; freed at 0
    bool closed, down, greeted, ready;
    int64_t greeting_deadline;
    uint64_t last_id;
    struct ck_qmp_lines lines;
    struct pending pending[CK_QMP_PENDING_MAX];
    struct out_item *out_first, **out_last;
    size_t out_bytes;
};

static void out_free(struct ck_qmp *q)
{
    while (q->out_first) {
        struct out_item *it = q->out_first;
        q->out_first = it->next;
        if (it->fd >= 0)
            close(it->fd);
        ck_buf_free(&it->buf);
        free(it);
    }
    q->out_last = &q->out_first;
    q->out_bytes = 0;
}

static void handle_closed(uv_handle_t *h)
{
    struct ck_qmp *q = h->data;
    if (--q->handles)
        return;
    if (q->o.fd >= 0)
        close(q->o.fd);
    ck_qmp_lines_free(&q->lines);
    out_free(q);
    free(q);
}

void ck_qmp_close(struct ck_qmp *q)
{
    if (!q || q->closed)
        return;
    q->closed = true;
    uv_close((uv_handle_t *)&q->poll, handle_closed);
    uv_close((uv_handle_t *)&q->timer, handle_closed);
}

static void on_timer(uv_timer_t *t);

static void arm(struct ck_qmp *q)
{
    int64_t first = q->ready ? INT64_MAX : q->greeting_deadline;
    for (int i = 0; i < CK_QMP_PENDING_MAX; i++)
        if (q->pending[i].id && q->pending[i].deadline < first)
            first = q->pending[i].deadline;
    if (first == INT64_MAX || q->down || q->closed) {
        uv_timer_stop(&q->timer);
        return;
    }
    int64_t left = first - ck_mono_ms();
    uv_timer_start(&q->timer, on_timer, left > 0 ? (uint64_t)left : 0, 0);
}

// The connection is lost: everybody who waits is told, then the owner.
static void go_down(struct ck_qmp *q, const struct ck_err *err)
{
    if (q->down || q->closed)
        return;
    q->down = true;
    uv_poll_stop(&q->poll);
    uv_timer_stop(&q->timer);
    for (int i = 0; i < CK_QMP_PENDING_MAX && !q->closed; i++) {
        struct pending p = q->pending[i];
        q->pending[i].id = 0;
        if (p.id && p.cb)
            p.cb(NULL, err, p.user);
    }
    if (!q->closed && q->o.on_down)
        q->o.on_down(err, q->o.user);
}

static void on_timer(uv_timer_t *t)
{
    struct ck_qmp *q = t->data;
    int64_t now = ck_mono_ms();
    struct ck_err err = CK_ERR_INIT;
    if (!q->ready && now >= q->greeting_deadline) {
        ck_fail(&err, 504, "qmp_timeout", "QEMU did not greet in time");
        go_down(q, &err);
        return;
    }
    for (int i = 0; i < CK_QMP_PENDING_MAX && !q->closed && !q->down; i++) {
        struct pending p = q->pending[i];
        if (!p.id || now < p.deadline)
            continue;
        q->pending[i].id = 0;
        ck_fail(&err, 504, "qmp_timeout", "QEMU did not answer %s in time", p.name);
        if (p.cb)
            p.cb(NULL, &err, p.user);
    }
    if (!q->closed)
        arm(q);
}

// ---- writing ----------------------------------------------------------------------------------

static ssize_t send_some(struct ck_qmp *q, struct out_item *it)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {it->buf.p, it->buf.n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (it->fd >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &it->fd, sizeof(int));
    }
    return sendmsg(q->o.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// 0 = everything that the socket takes now is sent; -1 = the connection is broken.
static int flush_out(struct ck_qmp *q)
{
    while (q->out_first) {
        struct out_item *it = q->out_first;
        ssize_t n = send_some(q, it);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        if (it->fd >= 0)
            close(it->fd);
        it->fd = -1;
        ck_buf_consume(&it->buf, (size_t)n);
        q->out_bytes -= (size_t)n;
        if (it->buf.n)
            continue;
        q->out_first = it->next;
        if (!q->out_first)
            q->out_last = &q->out_first;
        ck_buf_free(&it->buf);
        free(it);
    }
    return 0;
}

static void on_poll(uv_poll_t *p, int status, int events);

static void want(struct ck_qmp *q)
{
    uv_poll_start(&q->poll, UV_READABLE | (q->out_first ? UV_WRITABLE : 0), on_poll);
}

// Takes fd over; sends nothing by itself.
static int queue_out(struct ck_qmp *q, const char *name, json_t *args, uint64_t id, int fd, struct ck_err *err)
{
    struct out_item *it = calloc(1, sizeof *it);
    if (it)
        it->fd = fd;
    if (!it || ck_qmp_encode(name, args, id, &it->buf) || q->out_bytes + it->buf.n > CK_QMP_OUT_MAX) {
        if (fd >= 0)
            close(fd);
        if (it)
            ck_buf_free(&it->buf);
        free(it);
        return ck_fail(err, 503, "qmp_full", "too much waits to be sent to QEMU");
    }
    *q->out_last = it;
    q->out_last = &it->next;
    q->out_bytes += it->buf.n;
    want(q); // the first byte goes out from the loop, so that no callback runs in here
    return 0;
}

static int command(struct ck_qmp *q, const char *name, json_t *args, int fd, unsigned timeout_ms, ck_qmp_reply_fn cb,
                   void *user, struct ck_err *err)
{
    struct pending *slot = NULL;
    for (int i = 0; i < CK_QMP_PENDING_MAX && !slot; i++)
        if (!q->pending[i].id)
            slot = &q->pending[i];
    if (q->down || q->closed || !slot) {
        if (fd >= 0)
            close(fd);
        return ck_fail(err, 503, slot ? "qmp_down" : "qmp_full", "QEMU cannot be asked for %s now", name);
    }
    uint64_t id = ++q->last_id;
    if (queue_out(q, name, args, id, fd, err))
        return -1;
    *slot = (struct pending){.id = id, .deadline = ck_mono_ms() + timeout_ms, .cb = cb, .user = user};
    snprintf(slot->name, sizeof slot->name, "%s", name);
    arm(q);
    return 0;
}

int ck_qmp_command(struct ck_qmp *q, const char *name, json_t *args, int fd, unsigned timeout_ms, ck_qmp_reply_fn cb,
                   void *user, struct ck_err *err)
{
    int rc = command(q, name, args, fd, timeout_ms, cb, user, err);
    json_decref(args);
    return rc;
}

// ---- reading ----------------------------------------------------------------------------------

static void on_capabilities(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_qmp *q = user;
    if (err) {
        if (!q->down)
            go_down(q, err);
        return;
    }
    q->ready = true;
    arm(q);
    if (q->o.on_ready)
        q->o.on_ready(q->o.user);
}

static void answer(struct ck_qmp *q, const struct ck_qmp_msg *m)
{
    for (int i = 0; i < CK_QMP_PENDING_MAX; i++) {
        struct pending p = q->pending[i];
        if (!p.id || p.id != m->id)
            continue;
        q->pending[i].id = 0;
        struct ck_err err = CK_ERR_INIT;
        if (m->kind == CK_QMP_ERROR)
            ck_fail(&err, 502, "qmp_error", "QEMU refused %s: %s", p.name, m->desc);
        if (p.cb)
            p.cb(m->body, m->kind == CK_QMP_ERROR ? &err : NULL, p.user);
        if (!q->closed)
            arm(q);
        return;
    }
    // Nobody waits (any more): an answer after its deadline.
}

static int dispatch(struct ck_qmp *q, const struct ck_qmp_msg *m, struct ck_err *err)
{
    if (m->kind == CK_QMP_GREETING) {
        if (q->greeted)
            return ck_fail(err, 502, "bad_qmp", "QEMU greeted twice");
        q->greeted = true;
        return command(q, "qmp_capabilities", NULL, -1, 3600 * 1000, on_capabilities, q, err);
    }
    if (!q->greeted)
        return ck_fail(err, 502, "bad_qmp", "QEMU spoke before its greeting");
    if (m->kind == CK_QMP_EVENT) {
        if (q->o.on_event)
            q->o.on_event(m->name, m->body, q->o.user);
    } else {
        answer(q, m);
    }
    return 0;
}

// Handles every whole line; stops when a callback closed the client.
static int handle_lines(struct ck_qmp *q, struct ck_err *err)
{
    while (!q->closed && !q->down) {
        struct ck_slice line;
        size_t taken;
        int rc = ck_qmp_lines_next(&q->lines, &line, &taken, err);
        if (rc <= 0)
            return rc;
        struct ck_qmp_msg m;
        if (ck_qmp_parse_line(line.p, line.n, &m, err))
            return -1;
        ck_qmp_lines_take(&q->lines, taken);
        rc = dispatch(q, &m, err);
        ck_qmp_msg_clear(&m);
        if (rc)
            return -1;
    }
    return 0;
}

static void on_readable(struct ck_qmp *q)
{
    struct ck_err err = CK_ERR_INIT;
    for (int i = 0; i < READS_PER_WAKE && !q->closed && !q->down; i++) {
        char chunk[16384];
        ssize_t n = recv(q->o.fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            ck_fail(&err, 502, "qmp_down", "QEMU closed its control connection");
            go_down(q, &err);
            return;
        }
        if (ck_qmp_lines_feed(&q->lines, chunk, (size_t)n, &err) || handle_lines(q, &err)) {
            go_down(q, &err);
            return;
        }
    }
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    struct ck_qmp *q = p->data;
    struct ck_err err = CK_ERR_INIT;
    if (!status && (events & UV_WRITABLE) && flush_out(q)) {
        ck_fail_errno(&err, errno, 502, "qmp_down", "cannot write to QEMU");
        go_down(q, &err);
        return;
    }
    if (status || (events & (UV_READABLE | UV_DISCONNECT)))
        on_readable(q);
    if (!q->closed && !q->down)
        want(q);
}

int ck_qmp_new(const struct ck_qmp_opts *opts, struct ck_qmp **out, struct ck_err *err)
{
    *out = NULL;
    struct ck_qmp *q = calloc(1, sizeof *q);
    if (!q || fcntl(opts->fd, F_SETFL, O_NONBLOCK)) {
        close(opts->fd);
        free(q);
        return ck_fail(err, 500, "no_memory", "cannot set up the QMP client");
    }
    q->o = *opts;
    q->out_last = &q->out_first;
    q->greeting_deadline = ck_mono_ms() + (opts->greeting_ms ? opts->greeting_ms : 20000);
    uv_timer_init(opts->loop, &q->timer);
    q->timer.data = q;
    q->handles = 1;
    int rc = uv_poll_init(opts->loop, &q->poll, opts->fd);
    if (rc) { // nothing but the timer to close; frees q with its descriptor
        q->closed = true;
        uv_close((uv_handle_t *)&q->timer, handle_closed);
        return ck_fail(err, 500, "cannot_start", "cannot watch QEMU's control connection: %s", uv_strerror(rc));
    }
    q->poll.data = q;
    q->handles = 2;
    want(q);
    arm(q);
    *out = q;
    return 0;
}
