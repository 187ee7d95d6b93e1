// Checkpoints of one session, and going back to one. A checkpoint is a row in the database and a layer
// in the session's folder; the row is written last and removed first, so that there is none without its
// layer.
#include "gateway/life_internal.h"

#include "common/ck_time.h"
#include "gateway/registry_check.h"
#include "gateway/registry_internal.h"

#include <stdlib.h>
#include <string.h>

#define CHECKPOINT_MS 150000
#define ROLLBACK_MS 150000 // the bridge's own is 120 s

// --- the list ------------------------------------------------------------------------------------------

const struct checkpoint *session_checkpoints(const struct session *s)
{
    return ((const struct entry *)s)->life.checkpoints;
}

const struct checkpoint *session_find_checkpoint(const struct session *s, const char *id_or_name)
{
    const struct checkpoint *c = session_checkpoints(s);
    while (c && strcmp(c->id, id_or_name) != 0 && strcmp(c->name, id_or_name) != 0)
        c = c->next;
    return c;
}

static struct checkpoint *checkpoint_new(const char *id, const char *name, int64_t created_us, int64_t bytes, const char *layer)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    if (!c || !(c->name = strdup(name)))
        abort();
    snprintf(c->id, sizeof c->id, "%s", id);
    snprintf(c->layer, sizeof c->layer, "%s", layer);
    c->created_us = created_us;
    c->bytes = bytes;
    return c;
}

static void checkpoint_free(struct checkpoint *c)
{
    if (c)
        free(c->name);
    free(c);
}

static void append(struct entry *e, struct checkpoint *c)
{
    struct checkpoint **at = &e->life.checkpoints;
    while (*at)
        at = &(*at)->next;
    *at = c;
    e->life.ncheckpoints++;
}

void checkpoint_add(struct entry *e, const char *id, const char *name, int64_t created_us, int64_t bytes, const char *layer)
{
    append(e, checkpoint_new(id, name, created_us, bytes, layer));
}

void checkpoints_free(struct entry *e)
{
    while (e->life.checkpoints) {
        struct checkpoint *c = e->life.checkpoints;
        e->life.checkpoints = c->next;
        checkpoint_free(c);
    }
}

int checkpoint_unknown(struct ck_err *err)
{
    return ck_fail(err, 404, "no_such_checkpoint",
                   "the session has no checkpoint of this id or name: GET …/checkpoints lists them");
}

int session_forget_checkpoint(struct session *s, const char *id_or_name, struct ck_err *err)
{
    struct entry *e = (struct entry *)s;
    struct checkpoint *c = (struct checkpoint *)(uintptr_t)session_find_checkpoint(s, id_or_name), **at;
    if (!c)
        return checkpoint_unknown(err);
    if (life_judge(LIFE_FORGET, s->state, e->life.op, err) == LIFE_REFUSED)
        return -1;
    for (at = &e->life.checkpoints; *at != c; at = &(*at)->next)
        ;
    *at = c->next;
    e->life.ncheckpoints--;
    store_delete_checkpoint(e->reg->store, c->id);
    checkpoint_free(c);
    e->life.tidy_wanted = true;
    life_tidy(e);
    return 0;
}

// --- making one ----------------------------------------------------------------------------------------

struct making {
    struct entry *e;
    struct checkpoint *c;
    checkpoint_done done;
    void *user;
};

// Told by life_end(): the checkpoint is in the list, or there is err.
static void on_made(void *user, struct session *s, const struct ck_err *err)
{
    struct making *m = user;
    m->done(m->user, s && !err ? m->c : NULL, err);
    if (!s || err)
        checkpoint_free(m->c);
    free(m);
}

static void on_stored(void *user, const struct ck_err *err)
{
    struct making *m = user;
    if (!err && !m->e->closing)
        append(m->e, m->c);
    else
        m->e->life.tidy_wanted = true;
    life_end(m->e, err);
}

static void on_sealed(struct life_work *w)
{
    struct making *m = w->user;
    struct entry *e = w->e;
    m->c->bytes = w->bytes;
    if (!w->err.status && !e->closing) {
        store_put_checkpoint(e->reg->store, e->pub.id, m->c, on_stored, m);
        return;
    }
    e->life.tidy_wanted = true;
    life_end(e, w->err.status ? &w->err : NULL);
}

static void on_layer(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct making *m = user;
    struct entry *e = m->e;
    (void)re;
    (void)frame;
    if (err) {
        e->life.base_known = false; // a bridge that is only slow may have made it
        life_end(e, err);
        return;
    }
    memcpy(e->life.base, m->c->layer, CK_UUID_MAX);
    e->life.base_known = true;
    life_seal(e, m->c->layer, m, on_sealed);
}

static void checkpoint_start(struct entry *e)
{
    struct making *m = e->life.job;
    if (e->pub.state == SESSION_PAUSED) { // what is there is what it is
        memcpy(m->c->layer, e->life.layer, CK_UUID_MAX);
        life_seal(e, m->c->layer, m, on_sealed);
        return;
    }
    ck_uuid4(m->c->layer);
    life_call(e, "checkpoint", m->c->layer, CHECKPOINT_MS, on_layer, m);
}

static int check_new(const struct session *s, const char *name, struct ck_err *err)
{
    if (((const struct entry *)s)->life.ncheckpoints >= CHECKPOINTS_MAX)
        return ck_fail(err, 429, "too_many_checkpoints", "a session has at most %d checkpoints; delete one first",
                       CHECKPOINTS_MAX);
    if (check_checkpoint_name(name, err))
        return -1;
    if (session_find_checkpoint(s, name))
        return ck_fail(err, 409, "checkpoint_exists", "the session has a checkpoint of this name already");
    return 0;
}

int session_checkpoint(struct session *s, const char *name, checkpoint_done done, void *user, struct ck_err *err)
{
    struct entry *e = (struct entry *)s;
    char id[CK_UUID_MAX], made_up[40];
    ck_uuid4(id);
    snprintf(made_up, sizeof made_up, "checkpoint-%.8s", id);
    if (check_new(s, name ? name : made_up, err))
        return -1;
    if (life_judge(LIFE_CHECKPOINT, s->state, e->life.op, err) != LIFE_GO)
        return -1;
    struct making *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    *m = (struct making){e, checkpoint_new(id, name ? name : made_up, ck_wall_us(), 0, ""), done, user};
    e->life.job = m;
    if (life_begin(e, LIFE_CHECKPOINT, checkpoint_start, on_made, m, err) == LIFE_GO)
        return 0;
    checkpoint_free(m->c);
    free(m);
    return -1;
}

// --- going back ----------------------------------------------------------------------------------------

struct rollback {
    struct entry *e;
    char checkpoint[CK_UUID_MAX], layer[CK_UUID_MAX];
    life_done done;
    void *user;
};

static void on_back(void *user, struct session *s, const struct ck_err *err)
{
    struct rollback *b = user;
    b->done(b->user, s, err);
    free(b);
}

static void on_answer(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    struct rollback *b = user;
    struct entry *e = b->e;
    (void)re;
    (void)frame;
    if (!err) {
        memcpy(e->life.base, b->layer, CK_UUID_MAX);
        e->life.base_known = e->life.tidy_wanted = true;
    } else {
        e->life.base_known = false; // it may have been half done
    }
    session_touch(&e->pub);
    life_end(e, err);
}

static void rollback_start(struct entry *e)
{
    struct rollback *b = e->life.job;
    life_call(e, "rollback", b->layer, ROLLBACK_MS, on_answer, b);
}

static int begin(struct rollback *b, struct ck_err *err)
{
    b->e->life.job = b->e->life.op == LIFE_NONE ? b : b->e->life.job;
    return life_begin(b->e, LIFE_ROLLBACK, rollback_start, on_back, b, err) == LIFE_GO ? 0 : -1;
}

// The session was paused, and runs again or not.
static void on_running(void *user, struct session *s, const struct ck_err *err)
{
    struct rollback *b = user;
    struct ck_err e = CK_ERR_INIT;
    if (s && !err) {
        if (!session_find_checkpoint(s, b->checkpoint))
            checkpoint_unknown(&e);
        else if (!begin(b, &e))
            return;
        err = &e;
    }
    on_back(b, s, err);
}

int session_rollback(struct session *s, const char *id_or_name, life_done done, void *user, struct ck_err *err)
{
    struct entry *e = (struct entry *)s;
    const struct checkpoint *c = session_find_checkpoint(s, id_or_name);
    if (!c)
        return checkpoint_unknown(err);
    enum life_verdict v = life_judge(LIFE_ROLLBACK, s->state, e->life.op, err);
    if (v == LIFE_REFUSED)
        return -1;
    struct rollback *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    *b = (struct rollback){.e = e, .done = done, .user = user};
    memcpy(b->checkpoint, c->id, CK_UUID_MAX);
    memcpy(b->layer, c->layer, CK_UUID_MAX);
    int rc = v == LIFE_RESUME_FIRST ? life_want(e, on_running, b, err) : begin(b, err);
    if (rc)
        free(b);
    return rc ? -1 : 0;
}
