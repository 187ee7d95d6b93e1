// Pausing: the session is at rest, its connections are read once more so that nothing which a client
// has sent is lost, then nothing is read any more; the VM is frozen and stays so; what this process
// knows is written; then it ends. Until paused.json is on disk every failure leads back to a session
// that goes on (PROTOCOL.md section 7).
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/history_file.h"

#include <stdlib.h>

#define TURNS 2 // of the loop: what was sent before the pause was asked for has been read after them

static int check_rest(const struct bridge *b, struct ck_err *err)
{
    const char *what = NULL;
    if (trk_busy(b->trk) || b->jupyter_changes || kc_pending(b->kc))
        what = "the kernel is busy, or a cell waits";
    else if (!svc_quiet(b->svc) || b->commands || ac_pending(b->ac) > (b->ping_under_way ? 1u : 0u))
        what = "a transfer, a command or a request is under way";
    else if (b->restart_waiters || b->parked_n)
        what = "a restart is under way";
    return what ? ck_fail(err, 409, "session_busy", "the session cannot be paused now: %s", what) : 0;
}

static void go_on(struct bridge *b, const struct ck_err *err)
{
    b->state = BR_READY;
    b->muted = false;
    svc_hold(b->svc, false);
    br_life_end(b, err);
    br_state_event(b, "");
    br_cells_dispatch(b);
}

static void running_again(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    (void)m;
    if (err && b->state != BR_CLOSING)
        br_dead(b, "the VM could not go on after a pause that failed");
}

// The VM stands still and must not.
static void go_on_stopped(struct bridge *b, const struct ck_err *err)
{
    struct ck_err e = CK_ERR_INIT;
    if (ck_machine_state(b->machine) == CK_MACHINE_STOPPED && ck_machine_cont(b->machine, running_again, b, &e))
        running_again(b->machine, &e, b);
    if (b->state == BR_PAUSING)
        go_on(b, err);
    else
        br_life_end(b, err);
}

// ---- what this process knows ------------------------------------------------------------------

struct leaving {
    uv_work_t work;
    struct bridge *b;
    struct hist_image image;
    char dir[PATH_MAX], id[CK_UUID_MAX], layer[CK_UUID_MAX];
    struct ck_err err;
};

static json_t *written_json(const struct written *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < WRITTEN_MAX; i++) {
        uint64_t key = w->key[(w->next + i) % WRITTEN_MAX];
        if (key)
            json_array_append_new(list, json_integer((json_int_t)key));
    }
    return list;
}

static int meta_json(struct bridge *b, struct ck_buf *out)
{
    const struct usage *u = &b->usage;
    json_t *o = json_pack("{s:i,s:s,s:b,s:b,s:I,s:{s:I,s:I,s:I,s:I},s:o,s:o}", "version", 1, "seen", b->seen,
                          "usage_in_changes", b->usage_in_changes, "client_wrote", b->client_wrote, "last_activity_us",
                          (json_int_t)b->last_activity_us, "usage", "cpu_ms", (json_int_t)u->cpu_ms, "memory_bytes",
                          (json_int_t)u->memory_bytes, "peak_memory_bytes", (json_int_t)u->peak_memory_bytes,
                          "disk_bytes", (json_int_t)u->disk_bytes, "account", br_account_json(b), "written",
                          written_json(&b->written));
    int rc = o ? ck_json_dump(o, out) : -1;
    json_decref(o);
    return rc;
}

static void write_all(uv_work_t *w)
{
    struct leaving *l = w->data;
    hist_write(l->dir, l->id, l->layer, &l->image, &l->err);
}

static void written(uv_work_t *w, int status)
{
    struct leaving *l = w->data;
    struct bridge *b = l->b;
    struct ck_err err = l->err;
    (void)status;
    hist_image_free(&l->image);
    free(l);
    if (b->state != BR_PAUSING) { // it died, or was told to end, in these milliseconds: then it is not paused
        hist_remove(b->conf.dir);
        ck_fail(&err, 502, "vm_died", "the session ended while it was being paused");
        br_life_end(b, &err);
    } else if (err.status) {
        go_on_stopped(b, &err);
    } else {
        b->state = BR_PAUSED;
        br_life_end(b, NULL);
        b->on_shutdown(b, "the session is paused");
    }
}

static int begin_leaving(struct bridge *b, struct ck_err *err)
{
    struct history h = {b->log, b->cons, &b->book};
    CK_CLEAN_BUF struct ck_buf meta = CK_BUF_INIT;
    struct leaving *l = calloc(1, sizeof *l);
    svc_presume(b->svc);
    if (!l || meta_json(b, &meta)) {
        free(l);
        return ck_fail(err, 500, "no_memory", "no memory to save the session's history");
    }
    l->b = b;
    l->work.data = l;
    snprintf(l->dir, sizeof l->dir, "%s", b->conf.dir);
    snprintf(l->id, sizeof l->id, "%s", b->conf.id);
    snprintf(l->layer, sizeof l->layer, "%s", b->life.layer);
    if (!hist_encode(&h, ck_buf_slice(&meta), &l->image, err) &&
        !uv_queue_work(b->loop, &l->work, write_all, written))
        return 0;
    hist_image_free(&l->image);
    free(l);
    return err->status ? -1 : ck_fail(err, 500, "no_thread", "no thread to save the session's history");
}

// Nothing is appended to the log between this event and the end of the process.
static void log_paused(struct bridge *b)
{
    struct ev_tag tag = {.kind = EV_STATE, .class = EV_OTHER, .cell = "", .session = ""};
    CK_CLEAN_JSON json_t *usage = br_usage_json(b);
    snprintf(b->shown, sizeof b->shown, "paused");
    b->shown_reason[0] = 0;
    br_append(b, &tag, evb_state(evlog_next(b->log), ck_wall_us() / 1000, "paused", "", usage));
}

void br_pause_frozen(struct bridge *b, const struct ck_err *err)
{
    struct ck_err e = CK_ERR_INIT;
    if (b->state != BR_PAUSING) { // the VM died
        if (!err)
            ck_fail(&e, 502, "vm_died", "the session ended while it was being paused");
        br_life_end(b, err ? err : &e);
        return;
    }
    if (!err) {
        log_paused(b);
        b->muted = true; // whatever comes now is not in the history, and is said again after the resume
        if (!begin_leaving(b, &e))
            return;
    }
    go_on_stopped(b, err ? err : &e);
}

// ---- once more ----------------------------------------------------------------------------------

static void turned(uv_idle_t *h)
{
    struct bridge *b = h->data;
    struct ck_err err = CK_ERR_INIT;
    if (++b->life.turns <= TURNS)
        return;
    uv_idle_stop(h);
    if (b->state == BR_READY && b->ops == b->life.ops_before && !b->doomed && !check_rest(b, &err)) {
        b->state = BR_PAUSING;
        svc_hold(b->svc, true);
        br_life_freeze(b);
        return;
    }
    if (!err.status && !br_check_alive(b, &err))
        ck_fail(&err, 409, "session_busy", "the session cannot be paused now: a client has just asked for something");
    br_life_end(b, &err);
}

int br_pause(struct bridge *b, struct reply_to to, const char *layer, struct ck_err *err)
{
    if (br_life_may(b, err))
        return -1;
    if (trk_busy(b->trk) || b->commands) // the rest can only be told when this operation is read
        return check_rest(b, err);
    b->life.op = BR_LIFE_PAUSE;
    b->life.to = to;
    snprintf(b->life.layer, sizeof b->life.layer, "%s", layer);
    b->life.turns = 0;
    b->life.ops_before = b->ops;
    uv_idle_start(&b->life.turn, turned);
    return 0;
}
