// Which session a call is about: the one that it names, else its client's own, else a fresh one. One
// start at a time a client, however many of its calls wait for it.
#include "gateway/mcp.h"

#include "common/ck_clean.h"
#include "gateway/owner.h"
#include "gateway/serve.h"

#include <stdio.h>
#include <stdlib.h>

struct mcp_start {
    struct mcp *m;
    char peer[CK_UUID_MAX]; // "" = for one call of the modern era
    bool keep; // it has a name of its client's: others may find it by that
    struct mcp_call *waiting; // none when all of them were cancelled
};

struct session *mcp_session_find(struct mcp_call *c, const char *handle)
{
    struct registry *reg = c->m->gw->registry;
    struct session *s = ck_uuid_valid(handle) ? registry_find(reg, handle) : NULL, *found = NULL;
    if (s && owner_sees(c->owner, s))
        return s;
    for (s = registry_next(reg, NULL); s; s = registry_next(reg, s)) // the newest of that name
        if (!strcmp(s->name, handle) && owner_sees(c->owner, s))
            found = s;
    return found;
}

static void ready(struct mcp_call *c, struct session *s)
{
    c->s = session_ref(s);
    mcp_call_go(c);
}

static struct mcp_peer *peer_of(const struct mcp_start *st)
{
    for (struct mcp_peer *p = *st->peer ? st->m->peers : NULL; p; p = p->next)
        if (!strcmp(p->id, st->peer))
            return p;
    return NULL;
}

static void removed(void *user, const struct ck_err *err)
{
    (void)user;
    (void)err;
}

static void started(void *user, struct session *s, const struct ck_err *err)
{
    struct mcp_start *st = user;
    struct mcp_peer *p = peer_of(st);
    struct mcp_call *c;
    if (p) {
        p->start = NULL;
        if (s)
            snprintf(p->session, sizeof p->session, "%s", s->id);
    }
    bool wanted = p || st->waiting || st->keep;
    if (s && !wanted)
        registry_delete(st->m->gw->registry, s, removed, NULL);
    while ((c = st->waiting)) {
        st->waiting = c->next_waiting;
        c->start = NULL;
        c->fresh = !p;
        if (s)
            ready(c, s);
        else
            mcp_call_fail(c, err);
    }
    free(st);
}

// c waits for the new session.
static void start(struct mcp_call *c, const char *name)
{
    struct mcp_peer *p = c->peer;
    struct mcp_start *st = calloc(1, sizeof *st);
    if (!st) {
        mcp_call_finish(c, NULL);
        return;
    }
    st->m = c->m;
    st->waiting = c;
    c->start = st;
    c->next_waiting = NULL;
    bool own = p && c->args.tool != MCP_NEW_SESSION;
    st->keep = own && name;
    if (own) {
        snprintf(st->peer, sizeof st->peer, "%s", p->id);
        p->start = st;
    }
    CK_CLEAN_JSON json_t *metadata = own && !name ? json_pack("{s:s}", "mcp_session", p->id) : NULL;
    struct session_spec spec = {.name = name ? name : "mcp", .metadata = metadata,
                                .owner = c->owner, .owner_max = c->owner_max};
    registry_create(c->m->gw->registry, &spec, started, st);
}

void mcp_session_forget(struct mcp_call *c)
{
    struct mcp_call **at = c->start ? &c->start->waiting : NULL;
    while (at && *at && *at != c)
        at = &(*at)->next_waiting;
    if (at && *at)
        *at = c->next_waiting;
    c->start = NULL;
}

static bool alive(const struct session *s) { return s && s->state != SESSION_DEAD; }

static void no_such_session(struct mcp_call *c, const struct session *s)
{
    mcp_call_finish(c, mcp_text_result(true,
                                       s ? "The session \"%.200s\" has ended; start another with new_session."
                                         : "There is no session \"%.200s\"; new_session starts one.",
                                       c->args.session));
}

// The client's own session, or the one that its URL names.
static void need_default(struct mcp_call *c)
{
    struct mcp_peer *p = c->peer;
    struct session *s = *p->session ? registry_find(c->m->gw->registry, p->session) : NULL;
    if (!alive(s) && p->named)
        s = mcp_session_find(c, p->named);
    if (alive(s)) {
        snprintf(p->session, sizeof p->session, "%s", s->id);
        ready(c, s);
        return;
    }
    c->lost = *p->session != '\0';
    if (p->start) {
        c->start = p->start;
        c->next_waiting = p->start->waiting;
        p->start->waiting = c;
    } else {
        start(c, p->named);
    }
}

void mcp_session_need(struct mcp_call *c)
{
    if (c->args.tool == MCP_NEW_SESSION) {
        start(c, c->args.name);
    } else if (c->args.session) {
        struct session *s = mcp_session_find(c, c->args.session);
        if (alive(s))
            ready(c, s);
        else
            no_such_session(c, s);
    } else if (c->peer) {
        need_default(c);
    } else if (c->args.tool == MCP_READ_FILE || c->args.tool == MCP_LIST_FILES) {
        mcp_call_finish(
            c, mcp_text_result(true, "Say which session: a fresh one has no files. The argument \"session\" is the "
                                     "handle that an earlier result gave."));
    } else {
        start(c, NULL);
    }
}

static void closed(void *user, const struct ck_err *err)
{
    struct mcp_call *c = user;
    if (err)
        mcp_call_fail(c, err);
    else
        mcp_call_finish(c, mcp_text_result(false, "The session is closed."));
}

void mcp_session_close(struct mcp_call *c)
{
    const char *handle = c->args.session ? c->args.session : c->peer ? c->peer->session : "";
    struct session *s = *handle ? mcp_session_find(c, handle) : NULL;
    if (!*handle)
        mcp_call_finish(c, mcp_text_result(true, "Say which session: the argument \"session\" is its handle."));
    else if (!s)
        no_such_session(c, NULL);
    else {
        c->converting = true; // it cannot be cancelled
        if (c->peer && !strcmp(c->peer->session, s->id))
            c->peer->session[0] = '\0';
        registry_delete(c->m->gw->registry, s, closed, c);
    }
}
