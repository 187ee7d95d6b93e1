// Making a session: (which template ->) a bridge from the pool, or one launched for it -> claim -> a row in the database -> in the list. Only then
// does the caller hear of it, so that a gateway that is killed in between leaves nothing that a client
// was told of. A pooled bridge that turns out to be dead is replaced by another.
#include "common/ck_ignore.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/bridge_end.h"
#include "gateway/pool.h"
#include "gateway/registry_check.h"
#include "gateway/registry_internal.h"
#include "gateway/template_names.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 3
#define CLAIM_MS 30000
#define CLAIM_RESTART_MS 130000 // an environment or folder of its own needs a fresh kernel

struct creation {
    uv_timer_t timer; // tells an error that is known at once
    struct registry *r;
    registry_created done;
    void *user;
    char *name, *cwd; // NULL = default
    char owner[CK_UUID_MAX];
    bool counted; // as one that its owner is getting
    char *template_name; // likewise
    int memory_mb;       // 0 = any
    bool own;            // is of the gateway's template, which the pool has; from is not used
    struct layer_origin from;
    uv_work_t work;
    json_t *env, *timeouts, *metadata, *artifact_ignore;
    struct caps caps;
    struct bridge_proc *b;
    struct entry *entry;
    int tries;
    struct ck_err err;
};

static void on_freed(uv_handle_t *h)
{
    struct creation *c = h->data;
    free(c->name);
    free(c->cwd);
    free(c->template_name);
    json_decref(c->env);
    json_decref(c->timeouts);
    json_decref(c->metadata);
    json_decref(c->artifact_ignore);
    free(c);
}

static void finish(struct creation *c, struct session *s, const struct ck_err *err)
{
    struct registry *r = c->r;
    r->ncreating--;
    if (c->counted)
        owner_getting(r, c->owner, -1);
    if (err)
        r->failed++;
    else
        r->created++;
    uv_close((uv_handle_t *)&c->timer, on_freed);
    c->done(c->user, s, err);
    registry_maybe_quiet(r);
}

struct discarded {
    struct registry *r;
    struct bridge_proc *b;
};

static void on_discarded(void *user)
{
    struct discarded *d = user;
    bridge_proc_free(d->b);
    d->r->nending--;
    registry_maybe_quiet(d->r);
    free(d);
}

static void discard(struct registry *r, struct bridge_proc *b)
{
    struct discarded *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->r = r;
    d->b = b;
    r->nending++;
    bridge_end(r->loop, b->dir, b->socket, b->proc, NULL, on_discarded, d);
}

static void on_stored(void *user, const struct ck_err *err)
{
    struct creation *c = user;
    struct entry *e = c->entry;
    if (err) {
        discard(c->r, e->proc);
        e->proc = NULL;
        session_unref(&e->pub);
        finish(c, NULL, err);
        return;
    }
    e->used_known = true; // from nothing
    entry_link(e); // takes the reference
    follow_start(e);
    ck_log(CK_LOG_INFO, "registry", "session_created id=%s", e->pub.id);
    finish(c, &e->pub, NULL);
}

static json_t *object_or_empty(const json_t *j)
{
    return j ? json_deep_copy(j) : json_object();
}

static void store_entry(struct creation *c)
{
    struct entry *e = entry_new(c->r, c->b->id);
    struct session *s = &e->pub;
    char generated[32];
    snprintf(generated, sizeof generated, "session-%.8s", c->b->id);
    s->name = strdup(c->name ? c->name : generated);
    s->template_name = strdup(c->template_name ? c->template_name : TEMPLATE_DEFAULT);
    snprintf(s->accelerator, sizeof s->accelerator, "%s", c->r->accelerator);
    snprintf(s->socket, sizeof s->socket, "%s", c->b->socket);
    memcpy(s->owner, c->owner, sizeof s->owner);
    s->memory_mb = c->own ? c->r->memory_mb : c->from.memory_mb;
    s->created_us = s->last_activity_us = ck_wall_us();
    s->state = SESSION_IDLE;
    e->life.base_known = true; // the template's
    json_decref(s->metadata);
    json_decref(s->timeouts);
    s->metadata = object_or_empty(c->metadata);
    s->timeouts = object_or_empty(c->timeouts);
    s->caps = c->caps;
    e->proc = c->b;
    c->b = NULL;
    c->entry = e;
    store_put_session(c->r->store, s, on_stored, c);
}

static void on_bridge(void *user, struct bridge_proc *b, const struct ck_err *err);

static void on_claimed(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct creation *c = user;
    (void)re;
    (void)frame;
    if (!err) {
        store_entry(c);
        return;
    }
    ck_log(CK_LOG_WARN, "registry", "claim_failed id=%s error=\"%s\"", c->b->id, err->text);
    discard(c->r, c->b);
    c->b = NULL;
    if (err->status == 503 && ++c->tries < TRIES && !c->r->draining) { // it had died in the pool
        pool_get(c->r->pool, c->own ? NULL : &c->from, on_bridge, c);
        return;
    }
    finish(c, NULL, err);
}

static void on_bridge(void *user, struct bridge_proc *b, const struct ck_err *err)
{
    struct creation *c = user;
    if (err) {
        finish(c, NULL, err);
        return;
    }
    c->b = b;
    bool restarts = c->cwd || json_object_size(c->env);
    json_t *op = json_pack("{s:s,s:s,s:o,s:o}", "op", "claim", "name", c->name ? c->name : "", "kernel_env",
                           object_or_empty(c->env), "limits",
                           caps_for_bridge(&c->caps, c->r->config, c->timeouts));
    if (c->cwd)
        json_object_set_new(op, "cwd", json_string(c->cwd));
    if (c->artifact_ignore)
        json_object_set(op, "artifact_ignore", c->artifact_ignore);
    bridge_call(c->r->loop, b->socket, op, NULL, 0, restarts ? CLAIM_RESTART_MS : CLAIM_MS, on_claimed, c);
}

static void on_refused(uv_timer_t *t)
{
    struct creation *c = t->data;
    struct ck_err err = c->err;
    finish(c, NULL, &err);
}

static int admit(const struct registry *r, const struct session_spec *spec, struct caps *caps, struct ck_err *err)
{
    size_t max = (size_t)r->config->max_sessions;
    int max_mb = r->config->max_memory_mb;
    if (r->draining)
        return ck_fail(err, 503, "draining", "the gateway is shutting down");
    if (check_spec(spec, err) || caps_parse(spec->limits, r->config->caps, caps, err) ||
        caps_check_timeouts(spec->timeouts, r->config, err))
        return -1;
    if (max_mb && spec->memory_mb > max_mb)
        return ck_fail(err, 400, "bad_field", "\"memory_mb\" may be at most %d: that is this server's maximum", max_mb);
    if (max && r->nlive + r->ncreating >= max)
        return ck_fail(err, 429, "too_many_sessions", "%zu sessions are the limit; delete one first (see --max-sessions)", max);
    return owner_admit(r, spec->owner ? spec->owner : "", spec->owner_max, 1, err);
}

struct template_ask registry_templates(const struct registry *r)
{
    return (struct template_ask){.cache_dir = r->config->cache_dir, .gateway_memory_mb = r->memory_mb,
                                 .accelerator = r->accelerator, .qemu = r->qemu};
}

static void do_choose(uv_work_t *w) // thread pool
{
    struct creation *c = w->data;
    struct template_ask ask = registry_templates(c->r);
    ask.name = c->template_name;
    ask.memory_mb = c->memory_mb;
    template_choose(&ask, &c->from, &c->err);
}

static void on_chosen(uv_work_t *w, int status)
{
    struct creation *c = w->data;
    (void)status;
    struct ck_err err = c->err;
    if (!err.status && c->r->draining)
        ck_fail(&err, 503, "draining", "the gateway is shutting down");
    if (err.status)
        finish(c, NULL, &err);
    else
        pool_get(c->r->pool, &c->from, on_bridge, c);
}

void registry_create(struct registry *r, const struct session_spec *spec, registry_created done, void *user)
{
    struct creation *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->r = r;
    c->done = done;
    c->user = user;
    uv_timer_init(r->loop, &c->timer);
    c->timer.data = c;
    bool refused = admit(r, spec, &c->caps, &c->err) != 0;
    r->ncreating++;
    if (refused) {
        uv_timer_start(&c->timer, on_refused, 0, 0);
        return;
    }
    if (spec->owner)
        memccpy(c->owner, spec->owner, 0, sizeof c->owner - 1);
    owner_getting(r, c->owner, 1);
    c->counted = true;
    c->name = spec->name ? strdup(spec->name) : NULL;
    c->cwd = spec->cwd ? strdup(spec->cwd) : NULL;
    c->env = spec->env ? json_deep_copy(spec->env) : NULL;
    c->timeouts = spec->timeouts ? json_deep_copy(spec->timeouts) : NULL;
    c->artifact_ignore = spec->artifact_ignore     ? json_deep_copy(spec->artifact_ignore)
                         : r->config->artifact_ignore ? ck_ignore_split(r->config->artifact_ignore)
                                                      : NULL;
    c->metadata = spec->metadata ? json_deep_copy(spec->metadata) : NULL;
    c->template_name = spec->template_name ? strdup(spec->template_name) : NULL;
    c->memory_mb = spec->memory_mb;
    c->own = (!c->template_name || !strcmp(c->template_name, TEMPLATE_DEFAULT)) && (!c->memory_mb || c->memory_mb == r->memory_mb);
    c->work.data = c;
    if (c->own)
        pool_get(r->pool, NULL, on_bridge, c);
    else
        uv_queue_work(r->loop, &c->work, do_choose, on_chosen);
}
