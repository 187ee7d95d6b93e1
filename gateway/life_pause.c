// Pausing and resuming one session. A pause: the bridge is asked how it is, told to pause, and waited
// for until its process is gone; what it made is sealed. A resume: a bridge is started for the folder.
// What the folder says (paused.json) decides in doubt. Must never kill a bridge that is writing its layer.
#include "gateway/life_internal.h"

#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/bridge_end.h"
#include "gateway/registry_internal.h"

#include <stdlib.h>
#include <string.h>

#define INFO_MS 5000
#define PAUSE_MS 150000 // memory and disk are written and synced
#define RETRY_MS 100
#define RETRIES_MS 2000 // a session that seems idle may be asked about its usage just now, or look for files

struct retry {
    uv_timer_t timer;
    struct entry *e;
    void (*again)(struct entry *e);
};

static void on_retry_closed(uv_handle_t *h)
{
    free(h->data);
}

static void on_retry(uv_timer_t *t)
{
    struct retry *r = t->data;
    uv_close((uv_handle_t *)t, on_retry_closed);
    r->again(r->e);
}

// For the operation under way, which holds e.
static void try_again(struct entry *e, void (*again)(struct entry *e))
{
    struct retry *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->e = e;
    r->again = again;
    r->timer.data = r;
    uv_timer_init(e->reg->loop, &r->timer);
    uv_timer_start(&r->timer, on_retry, RETRY_MS, 0);
}

// --- pausing -------------------------------------------------------------------------------------------

static void goes_on(struct entry *e, const struct ck_err *err)
{
    if (!e->closing && e->pub.state != SESSION_DEAD)
        life_tell(e, SESSION_GOES_ON);
    life_end(e, err);
}

static void look_and_seal(struct life_work *w) // thread pool
{
    int64_t since;
    struct ck_err err = CK_ERR_INIT;
    if (layer_paused(w->dir, w->e->pub.id, w->layer, &since)) {
        ck_fail(&w->err, 500, "pause_failed", "the session ended while it was paused; delete it and create a new one");
        return;
    }
    w->number = since;
    if (layer_seal(w->dir, w->layer, w->owner, &w->bytes, &err)) // tried again before it is shared
        ck_log(CK_LOG_WARN, "life", "layer_not_sealed id=%s error=\"%s\"", w->e->pub.id, err.text);
}

static void on_looked(struct life_work *w)
{
    struct entry *e = w->e;
    if (w->err.status) {
        entry_set_state(e, SESSION_DEAD, w->err.text);
        life_tell(e, SESSION_GOES_ON); // they find out what it is when they reach for it
        life_end(e, &w->err);
        return;
    }
    entry_paused(e, w->layer, w->number);
    if (!e->closing)
        life_tell(e, SESSION_SLEEPS);
    life_end(e, NULL);
}

static void on_process_gone(void *user)
{
    struct entry *e = user;
    struct ck_err err = CK_ERR_INIT;
    if (ck_proc_alive(e->proc->proc)) { // it only closed the connection, or cannot even be killed
        ck_fail(&err, 502, "pause_failed", "the session's process broke off the pause and runs on");
        goes_on(e, &err);
        return;
    }
    follow_let_go(e);
    life_work_go(life_work_new(e, e->life.layer, look_and_seal, on_looked));
}

static void ask(struct entry *e);

// True when the bridge was busy with something that is not worth telling, and is asked again.
static bool again(struct entry *e, const struct ck_err *err)
{
    if (strcmp(err->reason, "session_busy") != 0 || e->closing || e->pub.state != SESSION_IDLE || e->life.idle_us ||
        ck_mono_ms() - e->life.began_ms > RETRIES_MS)
        return false;
    try_again(e, ask);
    return true;
}

static void on_pause(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct entry *e = user;
    (void)re;
    (void)frame;
    // A bridge that is gone has paused or died; one that is silent may still be writing, and its end
    // will be noticed by the link that follows it.
    if (err && again(e, err))
        return;
    if (err && strcmp(err->reason, "bridge_gone") != 0)
        goes_on(e, err);
    else
        bridge_await(e->reg->loop, e->proc->proc, !err, on_process_gone, e);
}

static void on_info(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct entry *e = user;
    struct ck_err busy = CK_ERR_INIT;
    const json_t *info = ck_json_obj(re, "info", NULL);
    json_t *usage = json_object_get(info, "usage");
    int64_t active = ck_json_int(info, "last_activity_us", 0, NULL);
    (void)frame;
    if (active > e->pub.last_activity_us)
        e->pub.last_activity_us = active;
    if (!err && (!links_at_rest(e) || ck_wall_us() - e->pub.last_activity_us < e->life.idle_us)) {
        ck_fail(&busy, 409, "session_busy", "the session is in use: a cell, a command, a file or another request is under way");
        err = &busy;
    }
    if (err || e->closing) {
        goes_on(e, err);
        return;
    }
    if (usage) {
        json_decref(e->pub.usage);
        e->pub.usage = json_incref(usage);
    }
    ck_uuid4(e->life.layer);
    life_call(e, "pause", e->life.layer, PAUSE_MS, on_pause, e);
}

static void ask(struct entry *e)
{
    bridge_call(e->reg->loop, e->pub.socket, json_pack("{s:s}", "op", "info"), NULL, 0, INFO_MS, on_info, e);
}

static void pause_start(struct entry *e)
{
    links_let_go(e);
    life_tell(e, SESSION_SETTLES);
    ask(e);
}

int life_pause(struct entry *e, int64_t idle_us, life_done done, void *user, struct ck_err *err)
{
    if (e->life.op == LIFE_NONE)
        e->life.idle_us = idle_us;
    enum life_verdict v = life_begin(e, LIFE_PAUSE, pause_start, done, user, err);
    return v == LIFE_REFUSED ? -1 : v == LIFE_ALREADY;
}

int session_pause(struct session *s, life_done done, void *user, struct ck_err *err)
{
    return life_pause((struct entry *)s, 0, done, user, err);
}

// --- resuming ------------------------------------------------------------------------------------------

static void resume_failed(struct entry *e, const struct ck_err *err)
{
    struct ck_err told = CK_ERR_INIT;
    char dir[PATH_MAX], layer[CK_UUID_MAX];
    int64_t since;
    entry_dir(e, dir);
    if (layer_paused(dir, e->pub.id, layer, &since)) { // it had taken the layer, and died
        ck_fail(&told, 410, "session_dead", "the session ended right after it was resumed: %s", err->text);
        entry_set_state(e, SESSION_DEAD, told.text);
        life_tell(e, SESSION_RUNS); // so that they find out
    } else {
        ck_fail(&told, 503, "resume_failed", "the session cannot be resumed and stays paused: %s", err->text);
    }
    life_end(e, &told);
}

static void resume_start(struct entry *e);

static void runs(struct entry *e)
{
    ck_log(CK_LOG_INFO, "life", "resumed id=%s pid=%d", e->pub.id, (int)e->proc->proc.pid);
    snprintf(e->life.base, sizeof e->life.base, "%s", e->life.layer);
    e->life.base_known = e->life.tidy_wanted = true;
    e->life.layer[0] = 0;
    e->pub.paused_us = 0;
    e->pub.last_activity_us = ck_wall_us();
    entry_set_state(e, SESSION_IDLE, NULL); // its bridge says more at once
    store_put_session(e->reg->store, &e->pub, NULL, NULL);
    follow_start(e);
    session_ref(&e->pub);
    life_end(e, NULL);
    if (!e->closing && life_reachable(e->pub.state, e->life.op))
        life_tell(e, SESSION_RUNS);
    session_unref(&e->pub);
}

// A bridge that an earlier gateway, killed since, started for the folder: it is as good as ours.
static bool adopt(struct entry *e)
{
    char dir[PATH_MAX];
    entry_dir(e, dir);
    struct ck_proc_id p = folder_bridge(dir);
    if (p.pid)
        e->proc->proc = p;
    return p.pid != 0;
}

static void resume_again(struct entry *e)
{
    if (e->closing)
        life_end(e, NULL);
    else
        resume_start(e);
}

static void on_resumed(void *user, struct bridge_proc *p, const struct ck_err *err)
{
    struct entry *e = user;
    (void)p;
    e->life.launch = NULL;
    if (e->closing)
        life_end(e, err);
    else if (!err || adopt(e))
        runs(e);
    else if (!strcmp(err->reason, "folder_in_use") && ck_mono_ms() - e->life.began_ms < SESSION_RESUME_MS)
        try_again(e, resume_again);
    else
        resume_failed(e, err);
}

static void on_adopted(struct entry *e)
{
    if (e->closing)
        life_end(e, NULL);
    else
        runs(e);
}

static void resume_start(struct entry *e)
{
    if (adopt(e)) {
        try_again(e, on_adopted); // never from inside a start
        return;
    }
    json_t *limits = caps_for_bridge(&e->pub.caps, e->reg->config, e->pub.timeouts);
    e->life.launch = launcher_resume(e->reg->launcher, e->proc, e->life.layer, limits, on_resumed, e);
}

int life_begin_resume(struct entry *e, struct ck_err *err)
{
    if (e->reg->draining || e->reg->pausing)
        return ck_fail(err, 503, "draining", "the gateway is shutting down");
    return life_begin(e, LIFE_RESUME, resume_start, NULL, NULL, err) == LIFE_REFUSED ? -1 : 0;
}

int session_resume(struct session *s, life_done done, void *user, struct ck_err *err)
{
    return life_want((struct entry *)s, done, user, err);
}

// --- found out -----------------------------------------------------------------------------------------

bool life_found_paused(struct entry *e)
{
    char dir[PATH_MAX], layer[CK_UUID_MAX];
    int64_t since;
    entry_dir(e, dir);
    if (layer_paused(dir, e->pub.id, layer, &since))
        return false;
    entry_paused(e, layer, since);
    return true;
}
