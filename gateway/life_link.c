// Reaching a session: every link and call of a door is made here, so that one that finds its session
// paused waits for a resume and all others know whether the session is at rest.
#include "gateway/life_internal.h"

#include "common/ck_time.h"
#include "gateway/registry_internal.h"

#include <stdlib.h>

#define WAITING_MAX 1024 // that wait for the resume of one session
#define KEPT_MS 10000    // a link that nobody uses is kept so long

struct slink { // one link of a door, until it ends
    struct slink *next, *prev;
    struct entry *e; // a reference
    struct bridge_link *link;
    enum session_link kind;
    bool waiting, doomed;
    int64_t deadline_ms; // while waiting, or kept
};

static void on_ended(void *owner)
{
    struct slink *k = owner;
    if (k->e->life.kept == k)
        k->e->life.kept = NULL;
    if (k->prev)
        k->prev->next = k->next;
    else
        k->e->life.links = k->next;
    if (k->next)
        k->next->prev = k->prev;
    session_unref(&k->e->pub);
    free(k);
}

static void add(struct entry *e, struct slink *k)
{
    k->e = e;
    session_ref(&e->pub);
    k->next = e->life.links;
    if (k->next)
        k->next->prev = k;
    e->life.links = k;
    bridge_link_on_end(k->link, on_ended, k);
}

static int too_many(const struct entry *e, struct ck_err *err)
{
    size_t n = 0;
    for (const struct slink *k = e->life.links; k; k = k->next)
        n += k->waiting;
    return n < WAITING_MAX ? 0 : ck_fail(err, 503, "resume_crowded", "too many requests wait for this session to be resumed");
}

struct bridge_link *session_link_open(struct session *s, enum session_link kind, const struct bridge_link_events *ev,
                                      void *user, struct ck_err *err)
{
    struct entry *e = (struct entry *)s;
    bool waiting = !life_reachable(s->state, e->life.op);
    if (waiting && (too_many(e, err) || life_want(e, NULL, NULL, err) < 0))
        return NULL;
    struct slink *k = calloc(1, sizeof *k);
    struct bridge_link *l = !k ? NULL : waiting ? bridge_link_hold(e->reg->loop, ev, user, err)
                                                : bridge_link_open(e->reg->loop, s->socket, ev, user, err);
    if (!l) {
        if (!k)
            ck_fail(err, 503, "no_memory", "the gateway is out of memory: try again");
        free(k);
        return NULL;
    }
    *k = (struct slink){.link = l, .kind = kind, .waiting = waiting, .deadline_ms = ck_mono_ms() + SESSION_RESUME_MS};
    add(e, k);
    return l;
}

// --- the link that is kept ------------------------------------------------------------------------------
// Connecting costs a cell a fifth of a millisecond in both processes. So the link of a cell that has ended
// waits for the next one.

static void kept_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)user;
    (void)f;
    if (!json_object_get(h, "re")) // not an answer that came too late for whoever asked
        bridge_link_close(l);
}

static void kept_closed(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l; // on_ended() has forgotten it
    (void)user;
    (void)err;
}

static const struct bridge_link_events kept_events = {.on_frame = kept_frame, .on_close = kept_closed};

struct bridge_link *session_link_take(struct session *s, const struct bridge_link_events *ev, void *user,
                                      struct ck_err *err)
{
    struct entry *e = (struct entry *)s;
    struct slink *k = e->life.kept;
    if (!k || !life_reachable(s->state, e->life.op))
        return session_link_open(s, SESSION_LINK_REQUEST, ev, user, err);
    e->life.kept = NULL;
    k->kind = SESSION_LINK_REQUEST;
    bridge_link_rebind(k->link, ev, user);
    return k->link;
}

void session_link_give(struct bridge_link *l)
{
    struct slink *k = bridge_link_owner(l);
    struct entry *e = k->e;
    if (e->life.kept || e->closing || e->reg->draining || !life_reachable(e->pub.state, e->life.op) || !bridge_link_idle(l)) {
        bridge_link_close(l);
        return;
    }
    e->life.kept = k;
    k->kind = SESSION_LINK_FEED; // the session is at rest with it
    k->deadline_ms = ck_mono_ms() + KEPT_MS;
    bridge_link_watch(l, false);
    bridge_link_rebind(l, &kept_events, NULL);
}

void links_let_go(struct entry *e)
{
    if (e->life.kept)
        bridge_link_close(e->life.kept->link);
}

// --- calls ----------------------------------------------------------------------------------------------

static struct bridge_link *open_for_call(void *context, const struct bridge_link_events *ev, void *user, struct ck_err *err)
{
    return session_link_open(context, SESSION_LINK_REQUEST, ev, user, err);
}

struct bridge_call *session_call(struct session *s, json_t *op, int timeout_ms, bridge_call_done done, void *user)
{
    return bridge_call_over(((struct entry *)s)->reg->loop, open_for_call, s, op, NULL, 0, timeout_ms, done, user);
}

int64_t session_wait_ms(const struct session *s)
{
    return life_reachable(s->state, ((const struct entry *)s)->life.op) ? 0 : SESSION_RESUME_MS;
}

// --- what becomes of them ------------------------------------------------------------------------------

bool links_waiting(const struct entry *e)
{
    const struct slink *k = e->life.links;
    while (k && !k->waiting)
        k = k->next;
    return k != NULL;
}

void links_go(struct entry *e)
{
    for (struct slink *k = e->life.links, *next; k; k = next) {
        next = k->next;
        if (!k->waiting)
            continue;
        k->waiting = false;
        bridge_link_begin(k->link, e->pub.socket);
    }
}

// Their owners' callbacks may open and close links: those meant are marked first, each round begins anew.
static void fail_those(struct entry *e, int64_t before_ms, const struct ck_err *err)
{
    session_ref(&e->pub);
    for (struct slink *k = e->life.links; k; k = k->next)
        k->doomed = k->waiting && k->deadline_ms <= before_ms;
    for (struct slink *k = e->life.links; k;) {
        if (!k->doomed) {
            k = k->next;
            continue;
        }
        bridge_link_fail(k->link, err); // k is gone
        k = e->life.links;
    }
    session_unref(&e->pub);
}

void links_fail(struct entry *e, const struct ck_err *err)
{
    fail_those(e, INT64_MAX, err);
}

void links_expire(struct entry *e, int64_t now_ms)
{
    struct ck_err err = CK_ERR_INIT;
    if (e->life.kept && e->life.kept->deadline_ms <= now_ms)
        links_let_go(e);
    ck_fail(&err, 503, "resume_timeout", "the session could not be resumed within %d s; try again", SESSION_RESUME_MS / 1000);
    fail_those(e, now_ms, &err);
}

bool links_at_rest(const struct entry *e)
{
    for (const struct slink *k = e->life.links; k; k = k->next)
        if (k->kind == SESSION_LINK_REQUEST || bridge_link_queued(k->link))
            return false;
    return true;
}
