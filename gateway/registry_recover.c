// What an earlier gateway left: rows in the database, folders and processes. Known sessions whose
// process lives (by pid *and* start time) go on; known ones without a process are paused, when their
// folder says so, or else dead, but stay in the list; pooled bridges that fit are used again; everything
// else is ended and removed. Runs before the loop; talking to bridges happens afterwards, in the background.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "gateway/bridge_end.h"
#include "gateway/pool.h"
#include "gateway/registry_internal.h"
#include "gateway/registry_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INFO_MS 3000

static void add_session(void *user, const struct store_session *row)
{
    struct registry *r = user;
    struct entry *e = entry_new(r, row->id);
    struct session *s = &e->pub;
    json_t *limits = row->limits ? json_loads(row->limits, 0, NULL) : NULL;
    caps_read(limits, r->config->caps, &s->caps);
    json_decref(limits);
    json_t *metadata = json_loads(row->metadata, 0, NULL), *timeouts = json_loads(row->timeouts, 0, NULL);
    s->name = strdup(row->name);
    s->template_name = strdup(row->template_name);
    snprintf(s->accelerator, sizeof s->accelerator, "%s", row->accelerator);
    snprintf(s->socket, sizeof s->socket, "%.60s/%s/bridge.sock", r->sessions_dir, row->id);
    s->memory_mb = row->memory_mb;
    if (ck_uuid_valid(row->owner))
        memcpy(s->owner, row->owner, sizeof s->owner);
    s->created_us = row->created_us;
    s->last_activity_us = row->last_activity_us;
    s->state = row->dead ? SESSION_DEAD : SESSION_STARTING;
    s->reason = row->reason ? strdup(row->reason) : NULL;
    s->paused_us = row->paused_us;
    s->usage = row->usage ? json_loads(row->usage, 0, NULL) : NULL;
    if (metadata) {
        json_decref(s->metadata);
        s->metadata = metadata;
    }
    if (timeouts) {
        json_decref(s->timeouts);
        s->timeouts = timeouts;
    }
    entry_link(e);
}

// A row whose layer is gone (somebody removed it by hand) would be a promise that cannot be kept.
static void add_checkpoint(void *user, const struct store_checkpoint *row)
{
    struct registry *r = user;
    struct session *s = registry_find(r, row->session);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3900s/%.36s/layers/%.36s/layer.json", r->sessions_dir, row->session, row->layer);
    if (s && ck_uuid_valid(row->layer) && !access(path, R_OK)) {
        checkpoint_add((struct entry *)s, row->id, row->name, row->created_us, row->bytes, row->layer);
        return;
    }
    ck_log(CK_LOG_WARN, "registry", "checkpoint_lost id=%s session=%s", row->id, row->session);
    store_delete_checkpoint(r->store, row->id);
}

static void add_jsession(void *user, const struct store_jsession *row)
{
    registry_js_restore(user, row);
}

// --- strangers: bridges that no row knows ----------------------------------------------------------------

struct stranger {
    struct stranger *next;
    struct registry *r;
    struct bridge_proc *b;
};

static void on_stranger_ended(void *user)
{
    struct stranger *x = user;
    x->r->nending--;
    bridge_proc_free(x->b);
    registry_maybe_quiet(x->r);
    free(x);
}

static void end_stranger(struct stranger *x, bool graceful)
{
    ck_log(CK_LOG_INFO, "registry", "orphan_removed id=%s pid=%d", x->b->id, (int)x->b->proc.pid);
    bridge_end(x->r->loop, x->b->dir, x->b->socket, x->b->proc, graceful ? "no session of this gateway" : NULL,
               on_stranger_ended, x);
}

static bool fits_pool(const struct registry *r, const json_t *info)
{
    const char *template = ck_json_str(info, "template", "", NULL), *ours = strrchr(r->template_dir, '/');
    return !strcmp(ck_json_str(info, "state", "", NULL), "pool") && ours && !strcmp(template, ours + 1) &&
           !strcmp(ck_json_str(info, "accelerator", "", NULL), r->accelerator) &&
           ck_json_int(info, "memory_mb", 0, NULL) == r->memory_mb;
}

static void on_stranger_info(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct stranger *x = user;
    struct registry *r = x->r;
    (void)frame;
    if (err || r->draining || !fits_pool(r, ck_json_obj(re, "info", NULL))) {
        end_stranger(x, !err);
        return;
    }
    ck_log(CK_LOG_INFO, "registry", "pool_bridge_found id=%s", x->b->id);
    r->nending--;
    pool_adopt(r->pool, x->b);
    free(x);
}

static void meet_stranger(struct registry *r, struct bridge_proc *b)
{
    struct stranger *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->r = r;
    x->b = b;
    r->nending++;
    if (b->proc.pid)
        bridge_call(r->loop, b->socket, json_pack("{s:s}", "op", "info"), NULL, 0, INFO_MS, on_stranger_info, x);
    else
        end_stranger(x, false);
}

// --- the folder --------------------------------------------------------------------------------------

static void take_up(struct entry *e, struct bridge_proc *b)
{
    e->proc = b;
    if (e->pub.state == SESSION_DEAD)
        return;
    e->life.tidy_wanted = true;
    int64_t since = e->pub.paused_us;
    if (b->proc.pid) {
        e->pub.paused_us = 0;
        follow_start(e);
    } else if (life_found_paused(e)) {
        struct ck_err err = CK_ERR_INIT;
        e->pub.paused_us = since ? since : e->pub.paused_us; // the database's word, when it has one
        if (folder_locked(b->dir)) // an earlier gateway was about to resume it
            life_want(e, NULL, NULL, &err);
    } else
        entry_set_state(e, SESSION_DEAD, "the session's process ended while no gateway was running");
}

static void look_at(struct registry *r, const char *id)
{
    char dir[PATH_MAX];
    struct stat st;
    struct bridge_proc *b = NULL;
    snprintf(dir, sizeof dir, "%.4000s/%s", r->sessions_dir, id);
    if (lstat(dir, &st) || !S_ISDIR(st.st_mode))
        return;
    if (launcher_adopt(r->launcher, id, folder_bridge(dir), st.st_uid, &b))
        return;
    struct session *s = registry_find(r, id);
    if (s)
        take_up((struct entry *)s, b);
    else
        meet_stranger(r, b);
}

static int scan(struct registry *r, struct ck_err *err)
{
    DIR *d = opendir(r->sessions_dir);
    const struct dirent *de;
    if (!d)
        return ck_fail_errno(err, errno, 500, "state_dir", "cannot read %s", r->sessions_dir);
    while ((de = readdir(d)))
        if (ck_uuid_valid(de->d_name))
            look_at(r, de->d_name);
    closedir(d);
    return 0;
}

int registry_recover(struct registry *r, struct ck_err *err)
{
    size_t live = 0, dead = 0;
    if (store_load_sessions(r->store, add_session, r, err) || store_load_jsessions(r->store, add_jsession, r, err) ||
        store_load_checkpoints(r->store, add_checkpoint, r, err) || scan(r, err))
        return -1;
    for (struct entry *e = r->first; e; e = e->next) {
        if (!e->proc)
            entry_set_state(e, SESSION_DEAD, "the session's folder is gone");
        *(e->pub.state == SESSION_DEAD ? &dead : &live) += 1;
        life_tidy(e);
    }
    if (live + dead)
        ck_log(CK_LOG_INFO, "registry", "recovered live=%zu dead=%zu", live, dead);
    return 0;
}
