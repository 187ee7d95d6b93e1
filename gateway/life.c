// The lock of a session's life: one operation at a time, who waits for its end, who waits for the
// session to run again, and who is told. What the operations do is in life_pause.c, life_checkpoint.c and
// life_fork.c. Must never leave anybody waiting whose operation has ended.
#include "gateway/life_internal.h"

#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/registry_internal.h"

#include <stdlib.h>

// --- watching ------------------------------------------------------------------------------------------

void session_watch(struct session *s, struct session_watch *w, void (*on)(struct session_watch *w, enum session_event what))
{
    struct life *l = &((struct entry *)s)->life;
    w->s = session_ref(s);
    w->on = on;
    w->prev = NULL;
    w->next = l->watches;
    if (w->next)
        w->next->prev = w;
    l->watches = w;
}

void session_unwatch(struct session_watch *w)
{
    struct session *s = w->s;
    if (!s)
        return;
    if (w->prev)
        w->prev->next = w->next;
    else
        ((struct entry *)s)->life.watches = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->s = NULL;
    session_unref(s);
}

void life_tell(struct entry *e, enum session_event what)
{
    session_ref(&e->pub);
    for (struct session_watch *w = e->life.watches, *next; w; w = next) {
        next = w->next;
        w->on(w, what);
    }
    session_unref(&e->pub);
}

bool session_settling(const struct session *s)
{
    return ((const struct entry *)s)->life.op == LIFE_PAUSE;
}

// --- waiting -------------------------------------------------------------------------------------------

static void add_waiter(struct life_waiter **list, life_done done, void *user)
{
    struct life_waiter *w = done ? calloc(1, sizeof *w) : NULL;
    if (!done)
        return;
    if (!w)
        abort();
    w->done = done;
    w->user = user;
    while (*list) // a handful
        list = &(*list)->next;
    *list = w;
}

static void tell_waiters(struct entry *e, struct life_waiter **list, const struct ck_err *err)
{
    struct ck_err gone = CK_ERR_INIT;
    struct life_waiter *w = *list;
    *list = NULL;
    ck_fail(&gone, 404, "no_such_session", "the session was deleted meanwhile");
    while (w) {
        struct life_waiter *next = w->next;
        if (e->closing)
            w->done(w->user, NULL, &gone);
        else
            w->done(w->user, &e->pub, err);
        free(w);
        w = next;
    }
}

static void resume_failed(struct entry *e, const struct ck_err *err)
{
    links_fail(e, err);
    tell_waiters(e, &e->life.resumers, err);
}

// Those who want the session to run get it, or a resume begins. Not while something stands in the way.
static void settle(struct entry *e)
{
    struct ck_err err = CK_ERR_INIT;
    if (!e->life.resumers && !links_waiting(e))
        return;
    if (life_reachable(e->pub.state, e->life.op)) {
        links_go(e);
        tell_waiters(e, &e->life.resumers, NULL);
    } else if (e->life.op == LIFE_NONE && life_begin_resume(e, &err)) {
        resume_failed(e, &err);
    }
}

int life_want(struct entry *e, life_done done, void *user, struct ck_err *err)
{
    if (e->closing)
        return ck_fail(err, 404, "no_such_session", "the session is being deleted");
    enum life_verdict v = life_judge(LIFE_RESUME, e->pub.state, e->life.op, err);
    if (v == LIFE_REFUSED || v == LIFE_ALREADY)
        return v == LIFE_ALREADY ? 1 : -1;
    if (v == LIFE_GO && life_begin_resume(e, err))
        return -1;
    add_waiter(&e->life.resumers, done, user);
    return 0;
}

// --- the lock ------------------------------------------------------------------------------------------

enum life_verdict life_begin(struct entry *e, enum life_op op, void (*start)(struct entry *e), life_done done, void *user,
                             struct ck_err *err)
{
    struct life *l = &e->life;
    if (e->closing) {
        ck_fail(err, 404, "no_such_session", "the session is being deleted");
        return LIFE_REFUSED;
    }
    enum life_verdict v = life_judge(op, e->pub.state, l->op, err);
    if (v == LIFE_GO || v == LIFE_JOIN)
        add_waiter(&l->waiters, done, user);
    if (v != LIFE_GO)
        return v;
    session_ref(&e->pub);
    e->reg->nlife++;
    l->op = op;
    l->began_ms = ck_mono_ms();
    if (l->tidying)
        l->start = start;
    else
        start(e);
    return LIFE_GO;
}

static void count(const struct entry *e, const struct ck_err *err)
{
    struct life_count *c = &e->reg->life_counts[e->life.op];
    int64_t ms = ck_mono_ms() - e->life.began_ms;
    c->ended++;
    c->failed += err != NULL;
    c->ms += ms;
    ck_log(err && err->status >= 500 ? CK_LOG_WARN : CK_LOG_INFO, "life", "op=%s id=%s ms=%lld result=%s error=\"%s\"",
           life_op_name(e->life.op), e->pub.id, (long long)ms, err ? err->reason : "ok", err ? err->text : "");
}

void life_end(struct entry *e, const struct ck_err *err)
{
    struct life *l = &e->life;
    struct ck_err gone = CK_ERR_INIT;
    ck_fail(&gone, 404, "no_such_session", "the session was deleted meanwhile");
    bool resume = l->op == LIFE_RESUME;
    count(e, err);
    l->op = LIFE_NONE;
    struct life_waiter *mine = l->waiters;
    l->waiters = NULL;
    if (e->closing || (resume && err))
        resume_failed(e, e->closing ? &gone : err);
    tell_waiters(e, &mine, err);
    if (e->closing) {
        life_tell(e, SESSION_ENDED);
        registry_end(e);
    } else {
        settle(e);
        life_tidy(e);
    }
    struct registry *r = e->reg;
    r->nlife--;
    session_unref(&e->pub);
    registry_maybe_quiet(r);
}

void life_call(struct entry *e, const char *op, const char *layer, int timeout_ms, bridge_call_done done, void *user)
{
    bridge_call_patient(bridge_call(e->reg->loop, e->pub.socket, json_pack("{s:s,s:s}", "op", op, "layer", layer), NULL, 0,
                                    timeout_ms, done, user));
}

// What waits for a session that is being deleted with nothing under way has nothing to wait for.
void life_abort(struct entry *e)
{
    if (e->life.op == LIFE_NONE) {
        life_tell(e, SESSION_ENDED);
        return;
    }
    if (e->life.tidying && e->life.start) // it has not begun
        return;
    if (e->life.launch)
        launcher_cancel(e->life.launch);
    else if (e->proc && e->proc->proc.pid)
        ck_proc_signal(e->proc->proc, SIGKILL, NULL);
}
