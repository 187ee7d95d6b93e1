// The process of a machine: spawning QEMU, watching its end, its output and its console. Must reap
// every process it started and must never leave one running that nobody watches.
#include "vmm/machine_int.h"

#include "common/ck_log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- handles ----------------------------------------------------------------------------------

static void handle_closed(uv_handle_t *h)
{
    struct ck_machine *m = h->data;
    m->handles--;
    ck_machine_free_when_done(m);
}

static void watch_closed(uv_handle_t *h)
{
    struct ck_machine *m = h->data;
    struct ck_machine_watch *w = (struct ck_machine_watch *)(void *)h; // poll is its first member
    close(w->fd);
    w->fd = -1;
    m->handles--;
    ck_machine_free_when_done(m);
}

static void watch_close(struct ck_machine_watch *w)
{
    if (w->open) {
        w->open = false;
        uv_close((uv_handle_t *)&w->poll, watch_closed);
    }
}

static int watch_open(struct ck_machine *m, struct ck_machine_watch *w, int fd, uv_poll_cb cb, struct ck_err *err)
{
    int rc = uv_poll_init(m->loop, &w->poll, fd);
    if (rc) {
        close(fd);
        return ck_fail(err, 500, "cannot_start", "cannot watch QEMU: %s", uv_strerror(rc));
    }
    w->fd = fd;
    w->poll.data = m;
    w->open = true;
    m->handles++;
    uv_poll_start(&w->poll, UV_READABLE, cb);
    return 0;
}

void ck_machine_free_when_done(struct ck_machine *m)
{
    if (!m->closing || m->proc.pid || m->job)
        return;
    if (!uv_is_closing((uv_handle_t *)&m->timer)) {
        watch_close(&m->pid);
        watch_close(&m->output);
        watch_close(&m->console);
        uv_close((uv_handle_t *)&m->timer, handle_closed);
        uv_close((uv_handle_t *)&m->merge.timer, handle_closed);
        return;
    }
    if (m->handles)
        return;
    void (*closed)(void *) = m->closed;
    void *user = m->closed_user;
    ck_machine_forget(m);
    if (closed)
        closed(user);
}

// ---- deadlines and death ----------------------------------------------------------------------

void ck_machine_end(struct ck_machine *m, const char *reason)
{
    if (!m->proc.pid)
        return;
    if (!m->kill_reason[0])
        snprintf(m->kill_reason, sizeof m->kill_reason, "%s", reason);
    ck_machine_next(&m->state, CK_MEV_QUIT);
    kill(m->proc.pid, SIGKILL); // our child and not reaped: the pid cannot be another's
}

static void on_deadline(uv_timer_t *t)
{
    struct ck_machine *m = t->data;
    ck_machine_end(m, m->deadline_reason);
}

void ck_machine_deadline(struct ck_machine *m, unsigned ms, const char *reason)
{
    snprintf(m->deadline_reason, sizeof m->deadline_reason, "%s", reason);
    uv_timer_start(&m->timer, on_deadline, ms, 0);
}

void ck_machine_deadline_clear(struct ck_machine *m)
{
    uv_timer_stop(&m->timer);
}

// QEMU's last line that says something.
static void last_words(const struct ck_machine *m, char *out, size_t room)
{
    char text[CK_MACHINE_LOG_MAX + 1];
    memcpy(text, m->log, m->log_n);
    text[m->log_n] = 0;
    out[0] = 0;
    char *save = NULL;
    for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        if (*l && !strstr(l, "Expected vmdescription section") && !strstr(l, "warning: TCG doesn't support")) {
            const char *colon = !strncmp(l, "qemu-system", 11) ? strstr(l, ": ") : NULL;
            snprintf(out, room, "%s", colon ? colon + 2 : l);
        }
    for (char *s = out; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
            *s = '?';
}

static void describe(const struct ck_machine *m, int status, struct ck_machine_exit *how)
{
    bool by_us = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && m->kill_reason[0];
    char words[160], end[64];
    last_words(m, words, sizeof words);
    *how = (struct ck_machine_exit){.expected = m->expected, .exit_code = -1};
    if (WIFSIGNALED(status))
        how->signal = WTERMSIG(status);
    else
        how->exit_code = WEXITSTATUS(status);
    if (how->signal)
        snprintf(end, sizeof end, "QEMU was ended by signal %d", how->signal);
    else
        snprintf(end, sizeof end, "QEMU ended with exit code %d", how->exit_code);
    if (by_us)
        snprintf(how->reason, sizeof how->reason, "QEMU was ended: %s", m->kill_reason);
    else if (m->shutdown[0] && how->exit_code == 0)
        snprintf(how->reason, sizeof how->reason, "%s", m->shutdown);
    else
        snprintf(how->reason, sizeof how->reason, "%s%s%s", end, words[0] ? ": " : "", words);
}

// Everything that waited for this process is told, in this order: the operation, quit, the owner.
static void process_gone(struct ck_machine *m, int status)
{
    struct ck_machine_exit how;
    describe(m, status, &how);
    ck_log(how.expected ? CK_LOG_DEBUG : CK_LOG_INFO, "vmm", "qemu_gone pid=%d expected=%d reason=\"%s\"",
           (int)m->proc.pid, how.expected, how.reason);
    ck_machine_next(&m->state, CK_MEV_EXITED);
    m->proc = (struct ck_proc_id){0, 0};
    ck_machine_deadline_clear(m);
    ck_qmp_close(m->qmp);
    m->qmp = NULL;
    ck_qmp_scripts_drop(&m->scripts);
    watch_close(&m->pid);
    watch_close(&m->output);
    watch_close(&m->console);
    if (m->op_pending && !m->closing) {
        struct ck_err err = CK_ERR_INIT;
        ck_fail(&err, 502, "vm_died", "%s", how.reason);
        ck_machine_finish(m, &err);
    }
    ck_machine_merge_gone(m);
    if (m->job && m->job->gone && !m->closing)
        m->job->gone(m);
    ck_machine_cb quit_cb = m->quit_cb;
    m->quit_cb = NULL;
    if (quit_cb && !m->closing)
        quit_cb(m, NULL, m->quit_user);
    if (m->on_exit && !m->closing)
        m->on_exit(m, &how, m->user);
    if (m->closing && m->job && !m->job->working)
        m->job->abandon(m);
    else
        ck_machine_free_when_done(m);
}

// ---- what comes from it -----------------------------------------------------------------------

static void keep_log(struct ck_machine *m, const char *p, size_t n)
{
    if (n > sizeof m->log / 2) {
        p += n - sizeof m->log / 2;
        n = sizeof m->log / 2;
    }
    if (m->log_n + n > sizeof m->log) { // the newer half stays
        size_t keep = sizeof m->log / 2;
        memmove(m->log, m->log + m->log_n - keep, keep);
        m->log_n = keep;
    }
    memcpy(m->log + m->log_n, p, n);
    m->log_n += n;
}

static void read_output(struct ck_machine *m)
{
    char chunk[2048];
    for (int i = 0; i < 16 && m->output.open; i++) {
        ssize_t n = read(m->output.fd, chunk, sizeof chunk);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            watch_close(&m->output);
            return;
        }
        keep_log(m, chunk, (size_t)n);
    }
}

static void on_output(uv_poll_t *p, int status, int events)
{
    (void)status;
    (void)events;
    read_output(p->data);
}

static void read_console(struct ck_machine *m)
{
    char chunk[4096];
    for (int i = 0; i < 16 && m->console.open; i++) {
        ssize_t n = recv(m->console.fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            watch_close(&m->console);
            return;
        }
        if (m->on_console && !m->closing)
            m->on_console(m, chunk, (size_t)n, m->user);
    }
}

static void on_console(uv_poll_t *p, int status, int events)
{
    (void)status;
    (void)events;
    read_console(p->data);
}

static void on_pid(uv_poll_t *p, int poll_status, int events)
{
    (void)poll_status;
    (void)events;
    struct ck_machine *m = p->data;
    if (m->borrowed) { // its pid must not become another's
        m->exit_due = true;
        uv_poll_stop(p);
        return;
    }
    int status;
    pid_t got = waitpid(m->proc.pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return;
    if (got < 0)
        status = 0; // reaped by somebody else: gone all the same
    read_output(m);
    read_console(m);
    process_gone(m, status);
}

void ck_machine_borrow(struct ck_machine *m) { m->borrowed++; }

void ck_machine_return(struct ck_machine *m)
{
    if (--m->borrowed || !m->exit_due)
        return;
    m->exit_due = false;
    uv_poll_start(&m->pid.poll, UV_READABLE, on_pid); // it is readable: comes round from the loop
}

// ---- starting ---------------------------------------------------------------------------------

static int make_pair(int ours_theirs[2], struct ck_err *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ours_theirs))
        return ck_fail_errno(err, errno, 500, "cannot_start", "cannot make a socket pair");
    return 0;
}

// Takes over qmp_fd. On failure the process, if any, is being ended and the exit will be noticed
// when its watch exists; without a watch it is reaped here.
static int watch_process(struct ck_machine *m, int pidfd, int output, int qmp_fd, struct ck_err *err)
{
    if (watch_open(m, &m->pid, pidfd, on_pid, err)) {
        close(output);
        close(qmp_fd);
        kill(m->proc.pid, SIGKILL);
        waitpid(m->proc.pid, NULL, 0);
        m->proc.pid = 0;
        return -1;
    }
    ck_machine_next(&m->state, CK_MEV_SPAWNED);
    struct ck_qmp_opts q = {.loop = m->loop,
                            .fd = qmp_fd,
                            .on_ready = ck_machine_qmp_ready,
                            .on_event = ck_machine_qmp_event,
                            .on_down = ck_machine_qmp_down,
                            .user = m,
                            .greeting_ms = m->start_ms + 1000}; // our own deadline comes first
    int bad = watch_open(m, &m->output, output, on_output, err);
    if (ck_qmp_new(&q, &m->qmp, err) || bad) {
        m->expected = true;
        ck_machine_end(m, "could not be watched");
        return -1;
    }
    return 0;
}

int ck_machine_proc_start(struct ck_machine *m, struct ck_err *err)
{
    int qmp[2], con[2] = {-1, -1};
    if (make_pair(qmp, err))
        return -1;
    if (m->use != CK_VM_SESSION && make_pair(con, err)) {
        close(qmp[0]);
        close(qmp[1]);
        return -1;
    }
    struct ck_spawn s = {.argv = m->argv.argv, .fd = {qmp[1]}, .nfd = 1};
    if (m->use == CK_VM_SESSION)
        s.fd[s.nfd++] = m->ram_fd;
    else
        s.fd[s.nfd++] = con[1];
    int pidfd, output, rc = ck_spawn(&s, &m->proc, &pidfd, &output, err);
    close(qmp[1]);
    if (con[1] >= 0)
        close(con[1]);
    if (rc) {
        close(qmp[0]);
        if (con[0] >= 0)
            close(con[0]);
        m->proc.pid = 0;
        return -1;
    }
    rc = watch_process(m, pidfd, output, qmp[0], err);
    if (con[0] >= 0 && rc)
        close(con[0]);
    else if (con[0] >= 0)
        rc = watch_open(m, &m->console, con[0], on_console, err);
    if (rc && m->proc.pid) {
        m->expected = true;
        ck_machine_end(m, "could not be watched");
    }
    return rc;
}
