// One launch as a chain: prepare folder, log and configuration (thread pool) -> uv_spawn -> the line
// on fd 4 -> done. A launch that fails ends its process and removes its folder before done is called.
// The folder of a resume stays. One that takes a spare begins with the line (launcher_spare.c). Children are followed only to be reaped; that a bridge died is learned from its socket.
#include "gateway/launcher_internal.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "gateway/bridge_end.h"
#include "gateway/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READY_MS 150000 // the bridge's own is 120 s
#define RESUMED_MS 40000 // somebody waits, who is told 40 s; a fork has no such promise
#define UID_TRIES 64
#define STARTING_MB 128 // what a session takes until it has answered its first cell, about

int launcher_new(uv_loop_t *loop, const struct launcher_options *opt, struct launcher **out, struct ck_err *err)
{
    struct launcher *l = calloc(1, sizeof *l);
    if (!l) {
        close(opt->ram_fd);
        return ck_fail(err, 500, "no_memory", "out of memory");
    }
    l->loop = loop;
    l->exe = strdup(opt->exe);
    l->sessions_dir = strdup(opt->sessions_dir);
    l->accelerator = strdup(opt->accelerator);
    l->memory_mb = opt->memory_mb;
    l->config = opt->config;
    l->uids = geteuid() ? NULL : uid_pool_new(opt->config->uid_base);
    if (launch_templates_new(l, opt->template_dir, opt->image_dir, opt->ram_fd) || !l->exe || !l->sessions_dir ||
        !l->accelerator || (!geteuid() && !l->uids)) {
        launcher_free(l);
        return ck_fail(err, 500, "no_memory", "out of memory");
    }
    spare_init(l);
    *out = l;
    return 0;
}

void launcher_free(struct launcher *l)
{
    if (!l)
        return;
    free(l->exe);
    free(l->sessions_dir);
    free(l->accelerator);
    uid_pool_free(l->uids);
    launch_templates_free(l);
    free(l);
}

size_t launcher_starting(const struct launcher *l)
{
    return l->nstarting;
}

// --- bridge_proc ---------------------------------------------------------------------------------------

struct bridge_proc *launch_proc_new(struct launcher *l, const char *id)
{
    struct bridge_proc *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->launcher = l;
    p->slot = -1;
    snprintf(p->id, sizeof p->id, "%s", id);
    if (ck_path(p->dir, sizeof p->dir, NULL, "%s/%s", l->sessions_dir, id) ||
        ck_path(p->socket, sizeof p->socket, NULL, "%s/%s/bridge.sock", l->sessions_dir, id)) {
        free(p);
        return NULL;
    }
    return p;
}

void bridge_proc_free(struct bridge_proc *p)
{
    if (!p)
        return;
    if (p->launcher->uids)
        uid_pool_release(p->launcher->uids, p->slot);
    free(p);
}

int launcher_adopt(struct launcher *l, const char *id, struct ck_proc_id proc, uid_t dir_uid, struct bridge_proc **out)
{
    struct bridge_proc *p = launch_proc_new(l, id);
    if (!p)
        return -1;
    p->proc = proc;
    int slot = l->uids ? uid_pool_slot(l->uids, dir_uid) : -1;
    if (slot >= 0 && uid_pool_mark(l->uids, slot))
        p->slot = slot;
    *out = p;
    return 0;
}

uid_t launcher_uid(const struct bridge_proc *p)
{
    return p && p->launcher->uids && p->slot >= 0 ? uid_pool_uid(p->launcher->uids, p->slot) : geteuid();
}

// --- the end of a launch -------------------------------------------------------------------------------

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void free_launch(struct launch *x)
{
    close_fd(&x->fd_config);
    close_fd(&x->fd_log);
    close_fd(&x->fd_status_read);
    close_fd(&x->fd_status_write);
    if (x->prev)
        x->prev->next = x->next;
    else
        x->l->launches = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->l->nstarting--;
    launch_turn_over(x);
    spare_soon(x->l);
    json_decref(x->limits);
    free(x);
}

static void tell(struct launch *x)
{
    struct bridge_proc *p = x->p;
    launch_done done = x->done;
    void *user = x->user;
    struct ck_err err = x->err;
    if (!err.status && x->kind == LAUNCH_SPARE) {
        spare_made(x->l, p, ck_take_fd(&x->fd_status_read), x->moves);
        free_launch(x);
        return;
    }
    if (err.status && x->kind == LAUNCH_RESUME)
        p->proc = (struct ck_proc_id){0, 0};
    else if (err.status)
        bridge_proc_free(p);
    if (err.status)
        p = NULL;
    free_launch(x);
    done(user, p, err.status ? &err : NULL);
}

static void on_ended(void *user)
{
    tell(user);
}

void launch_give_up(struct launch *x)
{
    const char *dir = x->kind == LAUNCH_RESUME ? NULL : x->p->dir;
    bridge_end(x->l->loop, dir, x->p->socket, x->p->proc, NULL, on_ended, x);
}

// The last words of a bridge that failed to start, for the log.
static void log_last_words(const struct launch *x)
{
    char path[PATH_MAX + 16], text[401] = "";
    snprintf(path, sizeof path, "%s/bridge.log", x->p->dir);
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    ssize_t n = size > 0 ? pread(fd, text, sizeof text - 1, size > 400 ? size - 400 : 0) : 0;
    text[n > 0 ? n : 0] = 0;
    ck_log(CK_LOG_WARN, "launcher", "bridge_failed id=%s error=\"%s\" log=\"%s\"", x->p->id, x->err.text, text);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct launch *x = h->data;
    if (--x->open_handles)
        return;
    if (!x->err.status) {
        tell(x);
        return;
    }
    log_last_words(x);
    if (x->how == SPARE_JOINED && x->err.status != 504 && !x->stopped.status)
        spare_fall_back(x);
    else
        launch_give_up(x);
}

static void finish(struct launch *x)
{
    if (x->finished)
        return;
    x->finished = true;
    if (x->child)
        x->child->launch = NULL;
    x->child = NULL;
    uv_close((uv_handle_t *)&x->timer, on_handle_closed);
    uv_close((uv_handle_t *)&x->status, on_handle_closed);
}

// --- the status line -----------------------------------------------------------------------------------

static void take_line(struct launch *x)
{
    CK_CLEAN_JSON json_t *j = NULL;
    uv_os_fd_t fd;
    x->line[strcspn(x->line, "\n")] = 0;
    if (x->kind == LAUNCH_SPARE && !strncmp(x->line, "waiting", 7) && !uv_fileno((uv_handle_t *)&x->status, &fd)) {
        x->fd_status_read = fcntl(fd, F_DUPFD_CLOEXEC, 3); // the conversation goes on
        x->moves = !x->line[7];
        if (x->fd_status_read < 0)
            ck_fail_errno(&x->err, errno, 503, "no_descriptors", "a spare cannot be kept");
        finish(x);
        return;
    }
    if (!strcmp(x->line, "ready")) {
        finish(x);
        return;
    }
    if (!strncmp(x->line, "failed ", 7))
        j = ck_json_parse_object(x->line + 7, strlen(x->line + 7), false, NULL);
    ck_fail(&x->err, 500, "session_failed", "a session could not be started: %s",
            ck_json_str(j, "message", ck_json_str(j, "text", "its process said nothing that is understood", NULL), NULL));
    const char *reason = ck_json_str(j, "reason", "", NULL);
    if (!strcmp(reason, "folder_in_use"))
        ck_fail(&x->err, 409, "folder_in_use", "another process of the session runs");
    finish(x);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    struct launch *x = h->data;
    (void)suggested;
    *out = uv_buf_init(x->line + x->line_n, (unsigned)(sizeof x->line - 1 - x->line_n));
}

static void on_status(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct launch *x = s->data;
    (void)buf;
    if (x->finished)
        return;
    if (n > 0)
        x->line_n += (size_t)n;
    x->line[x->line_n] = 0;
    if (n < 0 && !x->line_n) {
        ck_fail(&x->err, 500, "session_failed", "a session could not be started: its process ended early");
        finish(x);
    } else if (n < 0 || strchr(x->line, '\n') || x->line_n == sizeof x->line - 1) {
        take_line(x);
    }
}

static int ready_ms(const struct launch *x)
{
    return x->kind == LAUNCH_RESUME ? RESUMED_MS : READY_MS;
}

static void on_timeout(uv_timer_t *t)
{
    struct launch *x = t->data;
    ck_fail(&x->err, 504, "session_failed", "a session could not be started within %d s", ready_ms(x) / 1000);
    finish(x);
}

// --- the process ---------------------------------------------------------------------------------------

static void on_child_closed(uv_handle_t *h)
{
    free(h->data);
}

static void on_child_exit(uv_process_t *process, int64_t status, int term_signal)
{
    struct child *c = process->data;
    struct launcher *l = c->launcher;
    if (c->prev)
        c->prev->next = c->next;
    else
        l->children = c->next;
    if (c->next)
        c->next->prev = c->prev;
    if (c->launch) {
        ck_log(CK_LOG_WARN, "launcher", "bridge_exited id=%s code=%lld signal=%d", c->launch->p->id, (long long)status, term_signal);
        c->launch->child = NULL; // the closed status pipe tells the rest
    }
    uv_close((uv_handle_t *)process, on_child_closed);
}

static int spawn(struct launch *x)
{
    struct launcher *l = x->l;
    char *argv[] = {l->exe, (char *)(uintptr_t) "bridge", NULL}, *env[] = {NULL};
    uv_stdio_container_t io[5];
    const int fds[5] = {x->fd_config, x->fd_log, x->fd_log, x->template->ram_fd, x->fd_status_write};
    for (int i = 0; i < 5; i++)
        io[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = fds[i]};
    uv_process_options_t o = {.exit_cb = on_child_exit, .file = l->exe, .args = argv, .env = env, .cwd = "/",
                              .flags = UV_PROCESS_DETACHED, .stdio_count = 5, .stdio = io};
    struct child *c = calloc(1, sizeof *c);
    if (!c)
        return ck_fail(&x->err, 503, "no_memory", "out of memory");
    ck_proc_cloexec_from(3, NULL, 0); // whatever a library opened without the flag
    int rc = uv_spawn(l->loop, &c->process, &o);
    c->process.data = c;
    if (rc) {
        uv_close((uv_handle_t *)&c->process, on_child_closed);
        return ck_fail(&x->err, 500, "session_failed", "a session's process cannot be started: %s", uv_strerror(rc));
    }
    uv_unref((uv_handle_t *)&c->process); // it may outlive us
    c->launcher = l;
    c->launch = x;
    c->next = l->children;
    if (c->next)
        c->next->prev = c;
    l->children = c;
    x->child = c;
    ck_proc_identify(c->process.pid, &x->p->proc);
    return 0;
}

static void start_process(struct launch *x)
{
    if (spawn(x)) {
        launch_give_up(x);
        return;
    }
    close_fd(&x->fd_config);
    close_fd(&x->fd_log);
    close_fd(&x->fd_status_write);
    launch_listen(x);
}

void launch_listen(struct launch *x)
{
    uv_timer_init(x->l->loop, &x->timer);
    uv_pipe_init(x->l->loop, &x->status, 0);
    x->timer.data = x->status.data = x;
    x->open_handles = 2;
    uv_timer_start(&x->timer, on_timeout, (uint64_t)ready_ms(x), 0);
    if (uv_pipe_open(&x->status, x->fd_status_read)) {
        ck_fail(&x->err, 500, "session_failed", "the pipe to a new session cannot be used");
        finish(x);
        return;
    }
    x->fd_status_read = -1; // the handle's now
    uv_read_start((uv_stream_t *)&x->status, on_alloc, on_status);
}

// --- preparing ------------------------------------------------------------------------------------------

static void do_prepare(uv_work_t *w) // thread pool
{
    launch_prepare(w->data);
}

static void prepare(struct launch *x);

static void on_prepared(uv_work_t *w, int status)
{
    struct launch *x = w->data;
    (void)status;
    if (!strcmp(x->err.reason, "uid_in_use") && ++x->tries < UID_TRIES) {
        int skipped = x->p->slot;
        ck_log(CK_LOG_WARN, "launcher", "uid_skipped %s", x->err.text);
        x->err = (struct ck_err)CK_ERR_INIT;
        x->p->slot = uid_pool_take(x->l->uids);
        uid_pool_release(x->l->uids, skipped); // comes round again last
        prepare(x);
        return;
    }
    if (!x->err.status)
        x->err = x->stopped;
    if (x->err.status)
        launch_give_up(x);
    else
        start_process(x);
}

static void prepare(struct launch *x)
{
    if (x->l->uids && x->p->slot < 0) {
        ck_fail(&x->err, 503, "no_uid", "no free uid is left for another session; see --uid-base");
        launch_give_up(x);
        return;
    }
    x->work.data = x;
    uv_queue_work(x->l->loop, &x->work, do_prepare, on_prepared);
}

struct launch *launch_new(struct launcher *l, enum launch_kind kind, struct bridge_proc *p, launch_done done, void *user)
{
    struct launch *x = calloc(1, sizeof *x);
    if (!x || !p)
        abort(); // the length of the state folder's path is checked at start
    x->l = l;
    x->kind = kind;
    if (l->closing)
        ck_fail(&x->stopped, 503, "draining", "the gateway is shutting down");
    x->p = p;
    x->done = done;
    x->user = user;
    x->fd_config = x->fd_log = x->fd_status_read = x->fd_status_write = -1;
    x->next = l->launches;
    if (x->next)
        x->next->prev = x;
    l->launches = x;
    l->nstarting++;
    return x;
}

void launch_begin(struct launch *x)
{
    if (!spare_take(x))
        launch_on_demand(x);
}

void launch_on_demand(struct launch *x)
{
    if (x->l->uids && x->p->slot < 0)
        x->p->slot = uid_pool_take(x->l->uids);
    prepare(x);
}

void launcher_start(struct launcher *l, const struct layer_origin *from, bool asked, launch_done done, void *user)
{
    char id[CK_UUID_MAX];
    ck_uuid4(id);
    struct launch *x = launch_new(l, LAUNCH_POOL, launch_proc_new(l, id), done, user);
    x->asked = asked;
    if (from)
        x->from = *from;
    launch_begin(x);
}

bool launcher_has_room(const struct launcher *l, int64_t *available_mb)
{
    int64_t need = l->config->memory_reserve_mb + STARTING_MB, have = host_memory_available_mb();
    for (const struct launch *x = l->launches; x; x = x->next)
        need += x->waiting ? 0 : STARTING_MB;
    if (available_mb)
        *available_mb = have;
    return !l->config->memory_reserve_mb || have < 0 || have >= need;
}

static void stop(struct launch *x, const char *reason, const char *text)
{
    if (x->finished || x->stopped.status)
        return; // ends already
    ck_fail(&x->stopped, 503, reason, "%s", text);
    if (x->open_handles) {
        x->err = x->stopped;
        finish(x);
    } // else it is being prepared, or waits for its turn, and will see it
}

void launcher_cancel(struct launch *x)
{
    stop(x, "cancelled", "it is not wanted any more");
    launch_next(x->l);
}

void launcher_close(struct launcher *l)
{
    struct child *next;
    l->closing = true;
    spare_close(l);
    for (struct launch *x = l->launches; x; x = x->next)
        stop(x, "draining", "the gateway is shutting down");
    launch_next(l);
    for (struct child *c = l->children; c; c = next) {
        next = c->next;
        uv_close((uv_handle_t *)&c->process, on_child_closed);
    }
    l->children = NULL;
}
