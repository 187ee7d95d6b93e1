// Forking a session: a layer of it (a new one, or a checkpoint's), hard links of that in the folders of the new ones, a bridge each,
// and rows in the database. Only when all of them stand are they in the list; whatever goes wrong before,
// and a client that leaves, leaves nothing. The source is held only until the links are there.
#include "gateway/life_internal.h"

#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/bridge_end.h"
#include "gateway/registry_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECKPOINT_MS 150000
#define NAME_BYTES_MAX 128

struct child { // one fork
    struct fork *f;
    char id[CK_UUID_MAX];
    struct launch *launch; // on its way
    struct bridge_proc *b; // ready, ours
    struct entry *entry;   // made, not yet in the list; has taken b
};

struct fork {
    struct registry *r;
    struct entry *source; // until its part is done
    struct fork_events ev;
    void *user;
    bool cancelled, linked;
    char layer[CK_UUID_MAX]; // to begin from; "" until it is known
    // of the source, as it was when it was asked
    char *name, *template_name;
    char accelerator[8];
    int memory_mb;
    char owner[CK_UUID_MAX];
    json_t *metadata, *timeouts;
    struct caps caps;
    int count, ready, pending; // pending: launches, rows, endings under way
    struct ck_err err;
    struct child child[];
};

static void fork_free(struct fork *f)
{
    free(f->name);
    free(f->template_name);
    json_decref(f->metadata);
    json_decref(f->timeouts);
    free(f);
}

// --- the end -------------------------------------------------------------------------------------------

static void finish(struct fork *f)
{
    struct registry *r = f->r;
    r->ncreating -= (size_t)f->count;
    owner_getting(r, f->owner, -f->count);
    if (f->err.status)
        r->failed += (size_t)f->count;
    else
        r->created += (size_t)f->count;
    struct session **list = f->err.status ? NULL : calloc((size_t)f->count, sizeof *list);
    for (int i = 0; list && i < f->count; i++)
        list[i] = &f->child[i].entry->pub;
    if (!f->cancelled)
        f->ev.on_done(f->user, list, list ? f->count : 0, f->err.status ? &f->err : NULL);
    free(list);
    fork_free(f);
    registry_maybe_quiet(r);
}

static void on_removed(void *user)
{
    struct child *c = user;
    struct fork *f = c->f;
    bridge_proc_free(c->b);
    if (!--f->pending)
        finish(f);
}

static void remove_all(struct fork *f)
{
    if (!f->err.status)
        ck_fail(&f->err, 503, "cancelled", "the fork was given up");
    f->pending = 1;
    for (int i = 0; i < f->count; i++) {
        struct child *c = &f->child[i];
        if (c->entry) {
            store_delete_session(f->r->store, c->id);
            c->b = c->entry->proc;
            c->entry->proc = NULL;
            session_unref(&c->entry->pub);
            c->entry = NULL;
        }
        if (!c->b)
            continue;
        f->pending++;
        bridge_end(f->r->loop, c->b->dir, c->b->socket, c->b->proc, NULL, on_removed, c);
    }
    if (!--f->pending)
        finish(f);
}

// --- the new sessions ----------------------------------------------------------------------------------

static void all_stored(struct fork *f)
{
    if (f->err.status || f->cancelled) {
        remove_all(f);
        return;
    }
    for (int i = 0; i < f->count; i++) {
        struct entry *e = f->child[i].entry;
        e->used_known = true; // from nothing
        entry_link(e); // takes the reference
        follow_start(e);
        e->life.tidy_wanted = true; // its memory is in its machine now
        life_tidy(e);
        ck_log(CK_LOG_INFO, "registry", "session_forked id=%s", e->pub.id);
    }
    finish(f);
}

static void on_stored(void *user, const struct ck_err *err)
{
    struct child *c = user;
    struct fork *f = c->f;
    if (err && !f->err.status)
        f->err = *err;
    if (!--f->pending)
        all_stored(f);
}

// NAME-fork-3, cut so that it fits and no character is halved.
static char *fork_name(const char *name, int i)
{
    char suffix[24], *out = malloc(NAME_BYTES_MAX + 1);
    size_t s = (size_t)snprintf(suffix, sizeof suffix, "-fork-%d", i + 1), n = strlen(name);
    if (!out)
        abort();
    if (n + s > NAME_BYTES_MAX)
        n = NAME_BYTES_MAX - s;
    while (n && ((unsigned char)name[n] & 0xc0) == 0x80)
        n--;
    snprintf(out, NAME_BYTES_MAX + 1, "%.*s%s", (int)n, name, suffix);
    return out;
}

static struct entry *new_entry(const struct fork *f, int i)
{
    const struct child *c = &f->child[i];
    struct entry *e = entry_new(f->r, c->id);
    struct session *s = &e->pub;
    s->name = fork_name(f->name, i);
    s->template_name = strdup(f->template_name);
    memcpy(s->accelerator, f->accelerator, sizeof s->accelerator);
    snprintf(s->socket, sizeof s->socket, "%s", c->b->socket);
    s->memory_mb = f->memory_mb;
    memcpy(s->owner, f->owner, sizeof s->owner);
    s->created_us = s->last_activity_us = ck_wall_us();
    s->state = SESSION_IDLE;
    json_decref(s->metadata);
    json_decref(s->timeouts);
    s->metadata = json_deep_copy(f->metadata);
    s->timeouts = json_deep_copy(f->timeouts);
    s->caps = f->caps;
    e->proc = c->b;
    snprintf(e->life.base, sizeof e->life.base, "%s", f->layer);
    e->life.base_known = true;
    return e;
}

static void all_launched(struct fork *f)
{
    if (f->err.status || f->cancelled) {
        remove_all(f);
        return;
    }
    f->pending = f->count;
    for (int i = 0; i < f->count; i++) {
        struct child *c = &f->child[i];
        c->entry = new_entry(f, i);
        c->b = NULL;
        store_put_session(f->r->store, &c->entry->pub, on_stored, c);
    }
}

static void cancel_launches(struct fork *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->child[i].launch)
            launcher_cancel(f->child[i].launch);
}

static void on_launched(void *user, struct bridge_proc *b, const struct ck_err *err)
{
    struct child *c = user;
    struct fork *f = c->f;
    c->launch = NULL;
    c->b = b;
    if (err && !f->err.status) {
        f->err = *err;
        cancel_launches(f);
    }
    if (b && !f->err.status && !f->cancelled) {
        f->ready++;
        if (f->ev.on_progress)
            f->ev.on_progress(f->user, f->ready, f->count);
    }
    if (!--f->pending)
        all_launched(f);
}

static void launch_all(struct fork *f)
{
    f->pending = f->count;
    for (int i = 0; i < f->count; i++)
        f->child[i].launch =
            launcher_fork(f->r->launcher, f->child[i].id, f->layer, caps_for_bridge(&f->caps, f->r->config, f->timeouts),
                          on_launched, &f->child[i]);
}

// --- the source's part ---------------------------------------------------------------------------------

// Told by life_end() of the source: the folders with their links exist, or there is err and none does.
static void source_done(void *user, struct session *s, const struct ck_err *err)
{
    struct fork *f = user;
    (void)s;
    f->source = NULL;
    if (err && !f->err.status)
        f->err = *err;
    if (!f->linked) {
        finish(f);
        return;
    }
    launch_all(f); // also when it is to end: launches remove their folders
    if (f->err.status || f->cancelled)
        cancel_launches(f);
}

static void child_dir(const struct fork *f, int i, char dir[PATH_MAX])
{
    snprintf(dir, PATH_MAX, "%.4000s/%s", f->r->sessions_dir, f->child[i].id);
}

static void do_links(struct life_work *w) // thread pool
{
    const struct fork *f = w->user;
    char dir[PATH_MAX];
    int made = 0;
    if (layer_seal_all(w->dir, f->layer, w->owner, &w->err))
        return;
    for (int i = 0; i < f->count && !w->err.status; i++, made++) {
        child_dir(f, i, dir);
        if (mkdir(dir, 0700))
            ck_fail_errno(&w->err, errno, 507, "fork_failed", "a session's folder cannot be made");
        else
            layer_link(w->dir, dir, f->layer, &w->err);
    }
    for (int i = 0; i < made && w->err.status; i++) {
        child_dir(f, i, dir);
        ck_remove_tree(dir, NULL);
    }
}

static void on_linked(struct life_work *w)
{
    struct fork *f = w->user;
    struct entry *e = w->e;
    f->linked = !w->err.status;
    e->life.tidy_wanted = true;
    life_end(e, w->err.status ? &w->err : NULL);
}

static void link_all(struct fork *f)
{
    struct life_work *w = life_work_new(f->source, f->layer, do_links, on_linked);
    w->user = f;
    life_work_go(w);
}

static void on_layer(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct fork *f = user;
    struct entry *e = f->source;
    (void)re;
    (void)frame;
    if (err) {
        e->life.base_known = false;
        life_end(e, err);
        return;
    }
    memcpy(e->life.base, f->layer, CK_UUID_MAX);
    e->life.base_known = true;
    link_all(f);
}

static void fork_start(struct entry *e)
{
    struct fork *f = e->life.job;
    if (!*f->layer && e->pub.state == SESSION_PAUSED)
        memcpy(f->layer, e->life.layer, CK_UUID_MAX);
    if (*f->layer) { // it is there; a checkpoint cannot be deleted while this is under way
        link_all(f);
        return;
    }
    ck_uuid4(f->layer);
    life_call(e, "checkpoint", f->layer, CHECKPOINT_MS, on_layer, f);
}

// --- asking --------------------------------------------------------------------------------------------

static int admit(const struct registry *r, int count, struct ck_err *err)
{
    size_t max = (size_t)r->config->max_sessions, have = r->nlive + r->ncreating;
    if (count < 1 || count > FORKS_MAX)
        return ck_fail(err, 400, "bad_field", "field \"count\" must be a whole number from 1 to %d", FORKS_MAX);
    if (r->draining)
        return ck_fail(err, 503, "draining", "the gateway is shutting down");
    if (max && have + (size_t)count > max)
        return ck_fail(err, 429, "too_many_sessions",
                       "%d more would be over the limit of %zu sessions, of which %zu exist; "
                       "delete some first (see --max-sessions)",
                       count, max, have);
    return 0;
}

static struct fork *fork_new(struct entry *e, const struct checkpoint *from, int count, const struct fork_events *ev,
                             void *user)
{
    const struct session *s = &e->pub;
    struct fork *f = calloc(1, sizeof *f + (size_t)count * sizeof f->child[0]);
    if (!f)
        abort();
    f->r = e->reg;
    f->source = e;
    f->ev = *ev;
    f->user = user;
    if (from)
        memcpy(f->layer, from->layer, CK_UUID_MAX);
    f->count = count;
    f->name = strdup(s->name);
    f->template_name = strdup(s->template_name);
    memcpy(f->accelerator, s->accelerator, sizeof f->accelerator);
    f->memory_mb = s->memory_mb;
    memcpy(f->owner, s->owner, sizeof f->owner);
    f->metadata = json_deep_copy(s->metadata);
    f->timeouts = json_deep_copy(s->timeouts);
    f->caps = s->caps;
    for (int i = 0; i < count; i++) {
        f->child[i].f = f;
        ck_uuid4(f->child[i].id);
    }
    return f;
}

struct fork *session_fork(struct session *s, const struct fork_wish *wish, const struct fork_events *ev, void *user,
                          struct ck_err *err)
{
    struct entry *e = (struct entry *)s;
    int count = wish->count;
    if (admit(e->reg, count, err) || owner_admit(e->reg, s->owner, wish->owner_max, (size_t)count, err) ||
        life_judge(LIFE_FORK, s->state, e->life.op, err) != LIFE_GO)
        return NULL;
    const struct checkpoint *from = wish->checkpoint ? session_find_checkpoint(s, wish->checkpoint) : NULL;
    if (wish->checkpoint && !from) {
        checkpoint_unknown(err);
        return NULL;
    }
    struct fork *f = fork_new(e, from, count, ev, user);
    e->life.job = f;
    e->reg->ncreating += (size_t)count;
    owner_getting(e->reg, f->owner, count);
    if (life_begin(e, LIFE_FORK, fork_start, source_done, f, err) == LIFE_GO)
        return f;
    e->reg->ncreating -= (size_t)count;
    owner_getting(e->reg, f->owner, -count);
    fork_free(f);
    return NULL;
}

void fork_cancel(struct fork *f)
{
    f->cancelled = true;
    cancel_launches(f);
}
