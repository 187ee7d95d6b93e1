// What is done in a session's folder, off the loop: sealing layers, and removing those that nobody
// needs any more while nothing else happens to the session.
#include "gateway/life_internal.h"

#include "gateway/registry_internal.h"

#include <stdlib.h>
#include <string.h>

static void do_work(uv_work_t *u)
{
    struct life_work *w = u->data;
    w->run(w);
}

static void on_worked(uv_work_t *u, int status)
{
    struct life_work *w = u->data;
    struct entry *e = w->e;
    (void)status;
    w->done(w);
    free(w);
    session_unref(&e->pub);
}

struct life_work *life_work_new(struct entry *e, const char *layer, life_work_fn run, void (*done)(struct life_work *w))
{
    struct life_work *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->work.data = w;
    w->e = e;
    w->run = run;
    w->done = done;
    w->owner = launcher_uid(e->proc);
    snprintf(w->layer, sizeof w->layer, "%s", layer);
    entry_dir(e, w->dir);
    session_ref(&e->pub);
    return w;
}

void life_work_go(struct life_work *w)
{
    uv_queue_work(w->e->reg->loop, &w->work, do_work, on_worked);
}

static void do_seal(struct life_work *w) // thread pool
{
    layer_seal(w->dir, w->layer, w->owner, &w->bytes, &w->err);
}

void life_seal(struct entry *e, const char *layer, void *user, void (*done)(struct life_work *w))
{
    struct life_work *w = life_work_new(e, layer, do_seal, done);
    w->user = user;
    life_work_go(w);
}

// --- tidying -------------------------------------------------------------------------------------------

struct tidy {
    struct layer_wants wants;
    char list[CHECKPOINTS_MAX + 1][CK_UUID_MAX];
};

static void do_tidy(struct life_work *w) // thread pool
{
    const struct tidy *t = w->user;
    layer_tidy(w->dir, &t->wants);
}

static void on_tidied(struct life_work *w)
{
    struct entry *e = w->e;
    void (*start)(struct entry *) = e->life.start;
    struct ck_err gone = CK_ERR_INIT;
    free(w->user);
    e->life.tidying = false;
    e->life.start = NULL;
    ck_fail(&gone, 404, "no_such_session", "the session was deleted meanwhile");
    if (start && e->closing)
        life_end(e, &gone);
    else if (start)
        start(e);
    else
        life_tidy(e);
}

void life_tidy(struct entry *e)
{
    struct life *l = &e->life;
    if (!l->tidy_wanted || l->tidying || l->op != LIFE_NONE || e->closing || e->reg->draining || !e->proc)
        return;
    struct tidy *t = calloc(1, sizeof *t);
    if (!t)
        return; // another time
    l->tidy_wanted = false;
    l->tidying = true;
    bool paused = e->pub.state == SESSION_PAUSED; // then there is no disk but those of layers
    t->wants = (struct layer_wants){.wanted = (const char(*)[CK_UUID_MAX])t->list, .base_known = paused || l->base_known,
                                    .stopped = paused};
    if (!paused)
        memcpy(t->wants.base, l->base, sizeof l->base);
    for (const struct checkpoint *c = l->checkpoints; c && t->wants.nwanted < CHECKPOINTS_MAX; c = c->next)
        memcpy(t->list[t->wants.nwanted++], c->layer, CK_UUID_MAX);
    if (paused)
        memcpy(t->list[t->wants.nwanted++], l->layer, CK_UUID_MAX);
    struct life_work *w = life_work_new(e, "", do_tidy, on_tidied);
    w->user = t;
    life_work_go(w);
}
