// The end of a bridge, as a chain: shutdown operation -> wait -> SIGKILL -> wait -> remove the folder.
// Without a folder the last step is left out. Waiting polls the process' start time (a few times a
// second at most): bridges of an earlier gateway are not our children, so there is no SIGCHLD for them.
#include "gateway/bridge_end.h"

#include "common/ck_cgroup.h"
#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "gateway/bridge_link.h"
#include "gateway/layer_files.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#define SHUTDOWN_MS 5000
#define GONE_MS 3000     // after the shutdown was answered
#define KILLED_MS 10000

enum phase { ASKING, WATCHED, LEAVING, KILLED, REMOVING };

struct ending {
    uv_timer_t timer;
    uv_work_t work;
    uv_loop_t *loop;
    enum phase phase;
    char dir[PATH_MAX];
    struct ck_proc_id proc;
    int64_t waited;
    int delay;
    struct ck_err remove_error;
    void (*done)(void *user);
    void *user;
    struct ending *next, *prev; // of all endings
};

static struct ending *endings; // loop thread

static void on_closed(uv_handle_t *h)
{
    struct ending *e = h->data;
    if (e->prev)
        e->prev->next = e->next;
    else
        endings = e->next;
    if (e->next)
        e->next->prev = e->prev;
    e->done(e->user);
    free(e);
}

static void do_remove(uv_work_t *w) // thread pool
{
    struct ending *e = w->data;
    ck_remove_tree(e->dir, &e->remove_error);
    ck_cgroup_sweep(); // a jailed bridge cannot remove its own control group
}

static void on_removed(uv_work_t *w, int status)
{
    struct ending *e = w->data;
    (void)status;
    if (e->remove_error.status)
        ck_log(CK_LOG_WARN, "registry", "folder_left dir=%s error=\"%s\"", e->dir, e->remove_error.text);
    uv_close((uv_handle_t *)&e->timer, on_closed);
}

static void remove_folder(struct ending *e)
{
    e->phase = REMOVING;
    e->work.data = e;
    uv_timer_stop(&e->timer);
    if (!*e->dir) {
        uv_close((uv_handle_t *)&e->timer, on_closed);
        return;
    }
    uv_queue_work(e->loop, &e->work, do_remove, on_removed);
}

static void on_timer(uv_timer_t *t);

static void wait_in(struct ending *e, enum phase phase)
{
    e->phase = phase;
    e->waited = 0;
    e->delay = 5;
    uv_timer_start(&e->timer, on_timer, (uint64_t)e->delay, 0);
}

static void kill_it(struct ending *e)
{
    struct ck_err err = CK_ERR_INIT;
    if (ck_proc_signal(e->proc, SIGKILL, &err) < 0)
        ck_log(CK_LOG_WARN, "registry", "kill_failed pid=%d error=\"%s\"", (int)e->proc.pid, err.text);
    wait_in(e, KILLED);
}

static void on_timer(uv_timer_t *t)
{
    struct ending *e = t->data;
    // An earlier gateway may have started one here that has said who it is only now.
    if (!e->proc.pid && *e->dir)
        e->proc = folder_bridge(e->dir);
    if (!e->proc.pid || !ck_proc_alive(e->proc)) {
        remove_folder(e);
        return;
    }
    e->waited += e->delay;
    if (e->phase == WATCHED && e->waited > GONE_MS) {
        uv_close((uv_handle_t *)&e->timer, on_closed);
    } else if (e->phase == LEAVING && e->waited > GONE_MS) {
        kill_it(e);
    } else if (e->phase == KILLED && e->waited > KILLED_MS) {
        ck_log(CK_LOG_ERROR, "registry", "bridge_stuck pid=%d", (int)e->proc.pid);
        uv_close((uv_handle_t *)&e->timer, on_closed); // its folder stays for the next start
    } else {
        e->delay = e->delay < 100 ? e->delay * 2 : 100;
        uv_timer_start(t, on_timer, (uint64_t)e->delay, 0);
    }
}

static void on_shutdown_answered(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct ending *e = user;
    (void)re;
    (void)frame;
    if (err && e->proc.pid && ck_proc_alive(e->proc) && err->status != 503)
        kill_it(e);
    else
        wait_in(e, LEAVING);
}

static struct ending *ending_new(uv_loop_t *loop, const char *dir, struct ck_proc_id proc, void (*done)(void *user),
                                 void *user)
{
    struct ending *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->loop = loop;
    e->proc = proc;
    e->done = done;
    e->user = user;
    snprintf(e->dir, sizeof e->dir, "%s", dir ? dir : "");
    e->next = endings;
    if (e->next)
        e->next->prev = e;
    endings = e;
    uv_timer_init(loop, &e->timer);
    e->timer.data = e;
    return e;
}

void bridge_end(uv_loop_t *loop, const char *dir, const char *socket_path, struct ck_proc_id proc, const char *why,
                void (*done)(void *user), void *user)
{
    struct ending *e = ending_new(loop, dir, proc, done, user);
    if (!proc.pid)
        wait_in(e, LEAVING);
    else if (!why)
        kill_it(e);
    else
        bridge_call(loop, socket_path, json_pack("{s:s,s:s}", "op", "shutdown", "why", why), NULL, 0, SHUTDOWN_MS,
                    on_shutdown_answered, e);
}

void bridge_await(uv_loop_t *loop, struct ck_proc_id proc, bool force, void (*done)(void *user), void *user)
{
    wait_in(ending_new(loop, NULL, proc, done, user), force ? LEAVING : WATCHED);
}

void bridge_end_kill_all(void)
{
    for (const struct ending *e = endings; e; e = e->next)
        if (e->proc.pid && e->phase != WATCHED)
            ck_proc_signal(e->proc, SIGKILL, NULL);
}
