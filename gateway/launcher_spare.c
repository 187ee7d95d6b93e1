// Spares: bridges that have their jail and whose QEMU waits for what it shall load. A launch that finds one is
// that bridge from then on. For a new session the spare's folder is the session's; of a resume or fork its
// folder and the spare's change names (layer_files.h), because a jail shows a bridge one folder and no other.
// Whatever goes wrong, the launch must go on as if there were no spares.
#include "gateway/launcher_internal.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/bridge_end.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REFILL_DELAY_MS 1000 // after the last launch: what was asked for has the processor first
#define NO_ROOM_MS 5000      // the host has no memory: look again
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 60000

// --- their number --------------------------------------------------------------------------------------

// Only when nothing else is being started: the timer is set again whenever a launch has ended.
static void on_timer(uv_timer_t *t)
{
    struct launcher *l = t->data;
    int64_t now = ck_mono_ms();
    char id[CK_UUID_MAX];
    if (l->closing || !l->filling || l->nstarting || l->nspares >= (size_t)l->config->spare)
        return;
    bool early = now < l->spare_not_before;
    if (early || !launcher_has_room(l, NULL)) {
        uv_timer_start(t, on_timer, (uint64_t)(early ? l->spare_not_before - now : NO_ROOM_MS), 0);
        return;
    }
    ck_uuid4(id);
    launch_on_demand(launch_new(l, LAUNCH_SPARE, launch_proc_new(l, id), spare_not_made, l));
}

void spare_soon(struct launcher *l)
{
    if (!l->closing && l->filling)
        uv_timer_start(&l->spare_timer, on_timer, REFILL_DELAY_MS, 0);
}

void spare_init(struct launcher *l)
{
    uv_timer_init(l->loop, &l->spare_timer);
    l->spare_timer.data = l;
}

void launcher_fill(struct launcher *l)
{
    l->filling = true;
    spare_soon(l);
}

void launcher_count_spares(const struct launcher *l, struct launcher_spares *out)
{
    *out = (struct launcher_spares){l->nspares, l->spares_used, l->spares_failed};
}

static void failed(struct launcher *l, const char *why)
{
    l->spares_failed++;
    l->spare_backoff_ms = l->spare_backoff_ms ? 2 * l->spare_backoff_ms : BACKOFF_MIN_MS;
    if (l->spare_backoff_ms > BACKOFF_MAX_MS)
        l->spare_backoff_ms = BACKOFF_MAX_MS;
    l->spare_not_before = ck_mono_ms() + l->spare_backoff_ms;
    ck_log(CK_LOG_WARN, "launcher", "spare_failed retry_ms=%lld error=\"%s\"", (long long)l->spare_backoff_ms, why);
}

void spare_not_made(void *user, struct bridge_proc *p, const struct ck_err *err)
{
    struct launcher *l = user;
    (void)p;
    if (!l->closing)
        failed(l, err->text);
}

// --- one of them ---------------------------------------------------------------------------------------

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void forget(struct spare *s) // its process and folder are somebody else's by now
{
    uv_close((uv_handle_t *)&s->pipe, on_closed);
}

static void on_ended(void *user)
{
    bridge_proc_free(user);
}

// Also what is left of a folder that has changed names, of which p's process knows nothing any more.
static void end_bridge(struct launcher *l, struct bridge_proc *p)
{
    bridge_end(l->loop, p->dir, p->socket, p->proc, NULL, on_ended, p);
}

static void end_spare(struct spare *s)
{
    end_bridge(s->l, s->p);
    forget(s);
}

static void unlist(struct spare *s)
{
    struct spare **at = &s->l->spares;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->l->nspares--;
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    static char nothing[256]; // whatever it says unasked, it is its end
    (void)h;
    (void)suggested;
    *out = uv_buf_init(nothing, sizeof nothing);
}

static void on_word(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct spare *s = stream->data;
    (void)buf;
    if (!n)
        return;
    unlist(s);
    failed(s->l, "a spare ended while it waited");
    spare_soon(s->l);
    end_spare(s);
}

static void list(struct spare *s)
{
    struct launcher *l = s->l;
    s->next = l->spares;
    l->spares = s;
    l->nspares++;
    if (l->closing || uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_word)) {
        unlist(s);
        end_spare(s);
    }
}

void spare_made(struct launcher *l, struct bridge_proc *p, int fd, bool moves)
{
    struct spare *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->l = l;
    s->p = p;
    s->moves = moves;
    uv_pipe_init(l->loop, &s->pipe, 0);
    s->pipe.data = s;
    if (uv_pipe_open(&s->pipe, fd)) {
        close(fd);
        end_spare(s);
        return;
    }
    l->spare_backoff_ms = 0;
    ck_log(CK_LOG_INFO, "launcher", "spare_ready id=%s pid=%d", p->id, (int)p->proc.pid);
    list(s);
}

void spare_close(struct launcher *l)
{
    while (l->spares) {
        struct spare *s = l->spares;
        unlist(s);
        end_spare(s);
    }
    uv_close((uv_handle_t *)&l->spare_timer, NULL);
}

// --- taking one ----------------------------------------------------------------------------------------

// What it becomes, in one line, which it reads as soon as it can: its socket is empty.
static int send_order(const struct launch *x, int fd)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = json_pack("{s:s,s:b,s:o,s:o*}", "id", x->p->id, "pool", x->kind == LAUNCH_POOL, "limits",
                                        launch_limits(x), "restore", launch_origin(x));
    return !j || ck_json_dump(j, &text) || ck_buf_add_str(&text, "\n") || ck_write_all(fd, text.p, text.n) ? -1 : 0;
}

// The launch is the spare's process from here on.
static void join(struct launch *x)
{
    struct spare *s = x->spare;
    uv_os_fd_t fd = -1;
    x->spare = NULL;
    x->how = SPARE_JOINED;
    if (!uv_fileno((uv_handle_t *)&s->pipe, &fd))
        x->fd_status_read = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    forget(s);
    x->l->spares_used++;
    ck_log(CK_LOG_INFO, "launcher", "spare_taken id=%s pid=%d", x->p->id, (int)x->p->proc.pid);
    if (x->stopped.status) {
        x->err = x->stopped;
        launch_give_up(x);
    } else if (x->err.status || x->fd_status_read < 0 || send_order(x, x->fd_status_read)) {
        spare_fall_back(x);
    } else {
        launch_listen(x);
    }
}

static void join_new(struct launch *x) // the session is the spare's: folder, id and all
{
    bridge_proc_free(x->p);
    x->p = x->spare->p;
    join(x);
}

// The folders have changed names. What has the spare's name now goes, and then the session's old uid is free.
static void join_old(struct launch *x)
{
    struct bridge_proc *left = x->spare->p;
    int slot = left->slot;
    left->slot = x->p->slot;
    x->p->slot = slot;
    x->p->proc = left->proc;
    left->proc = (struct ck_proc_id){0, 0};
    end_bridge(x->l, left);
    join(x);
}

static void look(uv_work_t *w) // thread pool
{
    struct launch *x = w->data;
    struct ck_err err = CK_ERR_INIT;
    if (x->kind == LAUNCH_RESUME && folder_locked(x->p->dir)) {
        ck_fail(&x->err, 409, "folder_in_use", "another process of the session runs");
        return;
    }
    x->how = SPARE_UNFIT;
    if (launch_template_choose(x) || x->template != x->l->template)
        return;
    // What was not sealed when it was made is, while each of its files has one name.
    if (x->kind == LAUNCH_RESUME && layer_seal_all(x->p->dir, x->layer, launcher_uid(x->p), &err))
        ck_log(CK_LOG_WARN, "launcher", "layer_not_sealed id=%s error=\"%s\"", x->p->id, err.text);
    x->how = SPARE_SPOILED;
    if (folder_take_over(x->p->dir, x->spare->p->dir, &err)) {
        ck_log(CK_LOG_WARN, "launcher", "spare_spoiled id=%s error=\"%s\"", x->p->id, err.text);
        return;
    }
    x->how = SPARE_JOINED;
    launch_own(x, x->spare->p->slot);
}

static void on_looked(uv_work_t *w, int status)
{
    struct launch *x = w->data;
    struct spare *s = x->spare;
    (void)status;
    if (x->how == SPARE_JOINED) {
        join_old(x);
        return;
    }
    x->spare = NULL;
    if (x->how == SPARE_SPOILED)
        end_spare(s);
    else
        list(s);
    if (!x->err.status)
        x->err = x->stopped;
    if (x->err.status)
        launch_give_up(x);
    else
        launch_on_demand(x);
}

static struct spare *best(const struct launch *x)
{
    struct spare *s = x->l->spares;
    if (x->l->closing || x->stopped.status || (x->kind == LAUNCH_POOL && (!x->asked || x->from.template[0])))
        return NULL;
    while (s && x->kind != LAUNCH_POOL && !s->moves)
        s = s->next;
    return s;
}

bool spare_take(struct launch *x)
{
    struct spare *s = best(x);
    if (!s)
        return false;
    unlist(s);
    uv_read_stop((uv_stream_t *)&s->pipe);
    x->spare = s;
    if (x->kind == LAUNCH_POOL) {
        x->template = x->l->template;
        join_new(x);
        return true;
    }
    x->work.data = x;
    uv_queue_work(x->l->loop, &x->work, look, on_looked);
    return true;
}

// --- without it ----------------------------------------------------------------------------------------

static void on_failed_one_gone(void *user)
{
    struct launch *x = user;
    char id[CK_UUID_MAX];
    if (x->kind == LAUNCH_POOL) {
        bridge_proc_free(x->p);
        ck_uuid4(id);
        x->p = launch_proc_new(x->l, id);
        if (!x->p)
            abort();
    }
    x->p->proc = (struct ck_proc_id){0, 0};
    x->err = x->stopped;
    if (x->err.status)
        launch_give_up(x);
    else
        launch_on_demand(x);
}

void spare_fall_back(struct launch *x)
{
    failed(x->l, x->err.status ? x->err.text : "a spare was gone when it was needed");
    x->how = SPARE_NONE;
    x->finished = false;
    x->line_n = 0;
    x->err = (struct ck_err)CK_ERR_INIT;
    if (x->fd_status_read >= 0)
        close(x->fd_status_read);
    x->fd_status_read = -1;
    bridge_end(x->l->loop, x->kind == LAUNCH_POOL ? x->p->dir : NULL, x->p->socket, x->p->proc, NULL, on_failed_one_gone, x);
}
