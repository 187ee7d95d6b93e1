// The list of sessions: finding, changing, deleting, and the end of the gateway. How one is made is
// registry_create.c; how one is found again after a restart, registry_recover.c.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_utf8.h"
#include "gateway/bridge_end.h"
#include "gateway/registry_internal.h"
#include "gateway/registry_check.h"
#include "gateway/registry_run.h"

#include <stdlib.h>
#include <string.h>

struct registry *registry_new(const struct registry_options *opt)
{
    struct registry *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->loop = opt->loop;
    r->store = opt->store;
    r->pool = opt->pool;
    r->launcher = opt->launcher;
    r->config = opt->config;
    r->memory_mb = opt->memory_mb;
    snprintf(r->template_dir, sizeof r->template_dir, "%s", opt->template_dir);
    snprintf(r->sessions_dir, sizeof r->sessions_dir, "%s", opt->sessions_dir);
    snprintf(r->qemu, sizeof r->qemu, "%s", opt->qemu);
    snprintf(r->accelerator, sizeof r->accelerator, "%s", opt->accelerator);
    life_idle_start(r);
    return r;
}

struct session *registry_find(struct registry *r, const char *id)
{
    for (struct entry *e = *entry_bucket(r, id); e; e = e->same)
        if (!strcasecmp(e->pub.id, id))
            return &e->pub;
    return NULL;
}

struct session *registry_next(struct registry *r, const struct session *after)
{
    struct entry *e = after ? ((const struct entry *)after)->next : r->first;
    return e ? &e->pub : NULL;
}

size_t registry_count(const struct registry *r)
{
    return r->nlive;
}

void registry_count_states(const struct registry *r, struct registry_counts *out)
{
    memset(out, 0, sizeof *out);
    for (const struct entry *e = r->first; e; e = e->next)
        out->by_state[e->pub.state]++;
    out->creating = r->ncreating;
    out->ending = r->nending;
    out->created = r->created;
    out->failed = r->failed;
    out->died = r->died;
}

void registry_count_used(const struct registry *r, struct registry_used *out, int64_t *disk_bytes)
{
    *out = r->used;
    *disk_bytes = 0;
    for (const struct entry *e = r->first; e; e = e->next) {
        int64_t disk = e->pub.state == SESSION_DEAD ? 0 : ck_json_int(e->pub.usage, "disk_bytes", 0, NULL);
        *disk_bytes += disk > 0 ? disk : 0;
    }
}

const char *registry_ending_name(int i) { return registry_endings[i]; }

bool registry_count_life(const struct registry *r, int i, struct registry_life *out)
{
    if (i < 0 || i + 1 >= LIFE_FORGET) // forgetting is no work
        return false;
    const struct life_count *c = &r->life_counts[i + 1];
    *out = (struct registry_life){life_op_name((enum life_op)(i + 1)), c->ended, c->failed, c->ms};
    return true;
}

int64_t entry_limit_s(const struct entry *e, const char *key, int64_t gateways)
{
    return ck_json_int(e->pub.timeouts, key, gateways, NULL);
}

void entry_dir(const struct entry *e, char dir[PATH_MAX])
{
    snprintf(dir, PATH_MAX, "%.4000s/%s", e->reg->sessions_dir, e->pub.id);
}

// --- changes -------------------------------------------------------------------------------------------

static void save(struct registry *r, struct session *s)
{
    if (!s->deleted)
        store_put_session(r->store, s, NULL, NULL);
}

int registry_set_name(struct registry *r, struct session *s, const char *name, struct ck_err *err)
{
    if (check_name(name, err))
        return -1;
    char *copy = strdup(name);
    if (!copy)
        return ck_fail(err, 503, "no_memory", "out of memory");
    free(s->name);
    s->name = copy;
    save(r, s);
    return 0;
}

int registry_set_metadata(struct registry *r, struct session *s, const json_t *metadata, struct ck_err *err)
{
    if (check_metadata(metadata, err))
        return -1;
    json_decref(s->metadata);
    s->metadata = json_deep_copy(metadata);
    save(r, s);
    return 0;
}

int registry_set_timeouts(struct registry *r, struct session *s, const json_t *timeouts, struct ck_err *err)
{
    if (check_timeouts(timeouts, err) || caps_check_timeouts(timeouts, r->config, err))
        return -1;
    json_decref(s->timeouts);
    s->timeouts = json_deep_copy(timeouts);
    save(r, s);
    return 0;
}

// --- deleting ------------------------------------------------------------------------------------------

void registry_maybe_quiet(struct registry *r)
{
    if (!r->quiet || r->ncreating || r->nending || r->nlife)
        return;
    void (*quiet)(void *) = r->quiet;
    r->quiet = NULL;
    quiet(r->quiet_user);
}

static void on_ended(void *user)
{
    struct entry *e = user;
    struct registry *r = e->reg;
    bridge_proc_free(e->proc);
    e->proc = NULL;
    r->nending--;
    ck_log(CK_LOG_INFO, "registry", "session_deleted id=%s owner=%s vm_cpu_ms=%lld wall_ms=%lld", e->pub.id,
           e->pub.owner[0] ? e->pub.owner : "-", (long long)e->used.vm_cpu_ms, (long long)e->used.wall_ms);
    while (e->waiters) {
        struct deletion_waiter *w = e->waiters;
        e->waiters = w->next;
        w->done(w->user, NULL);
        free(w);
    }
    session_unref(&e->pub);
    registry_maybe_quiet(r);
}

static const char *end_reason(const struct registry *r)
{
    return r->draining ? "the gateway was stopped with --on-exit kill, which ends its sessions"
                       : "the session was deleted";
}

void registry_delete(struct registry *r, struct session *s, registry_done done, void *user)
{
    struct entry *e = (struct entry *)s;
    struct deletion_waiter *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->done = done;
    w->user = user;
    w->next = e->waiters;
    e->waiters = w;
    if (e->closing)
        return;
    e->closing = true;
    r->nending++;
    follow_stop(e);
    links_let_go(e);
    entry_unlink(e); // the list's reference is now the deletion's
    store_delete_session(r->store, e->pub.id);
    bool idle = e->life.op == LIFE_NONE;
    life_abort(e);
    if (idle)
        registry_end(e); // else life_end() does
}

void registry_end(struct entry *e)
{
    char dir[PATH_MAX];
    entry_dir(e, dir);
    struct ck_proc_id proc = e->proc ? e->proc->proc : (struct ck_proc_id){0, 0};
    if (!proc.pid) // paused, as far as we know; an earlier gateway may have begun to resume it
        proc = folder_bridge(dir);
    bridge_end(e->reg->loop, dir, e->pub.socket, proc, end_reason(e->reg), on_ended, e);
}

// --- the end of the gateway ----------------------------------------------------------------------------

static void nothing(void *user, const struct ck_err *err)
{
    (void)user;
    (void)err;
}

void registry_drain(struct registry *r, bool kill, void (*quiet)(void *user), void *user)
{
    r->draining = true;
    while (kill && r->first)
        registry_delete(r, &r->first->pub, nothing, NULL);
    r->quiet = quiet;
    r->quiet_user = user;
    registry_maybe_quiet(r);
}

void registry_close(struct registry *r)
{
    if (!r)
        return;
    life_idle_stop(r);
    for (struct entry *e = r->first; e; e = e->next) {
        follow_stop(e);
        links_let_go(e);
    }
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    while (r->first) {
        struct entry *e = r->first;
        entry_unlink(e);
        bridge_proc_free(e->proc);
        session_unref(&e->pub);
    }
    while (r->js_first) {
        struct js_entry *j = r->js_first;
        r->js_first = j->next;
        free(j->pub.path);
        free(j->pub.name);
        free(j->pub.type);
        free(j);
    }
    free(r);
}
