// The table of MCP clients that said `initialize`. Bounded; nothing in here waits.
#include "gateway/mcp.h"

#include "common/ck_json.h"

#include <stdio.h>
#include <stdlib.h>

static void unlink_peer(struct mcp *m, struct mcp_peer *p)
{
    if (p->prev)
        p->prev->next = p->next;
    else
        m->peers = p->next;
    if (p->next)
        p->next->prev = p->prev;
    p->next = p->prev = NULL;
    m->npeers--;
}

static void link_first(struct mcp *m, struct mcp_peer *p)
{
    p->next = m->peers;
    p->prev = NULL;
    if (m->peers)
        m->peers->prev = p;
    m->peers = p;
    m->npeers++;
}

static bool in_use(const struct mcp *m, const struct mcp_peer *p)
{
    for (const struct mcp_call *c = m->calls; c; c = c->next)
        if (c->peer == p)
            return true;
    return p->start != NULL;
}

// The longest unused one that nothing is under way for. Its session stays: it pauses, and is deleted,
// when its time is over.
static void make_room(struct mcp *m)
{
    struct mcp_peer *last = m->peers;
    while (last && last->next)
        last = last->next;
    while (last && in_use(m, last))
        last = last->prev;
    if (last)
        mcp_peer_remove(last, m);
}

static struct mcp_peer *peer_add(struct mcp *m, const char *id, const char *version, const char *named,
                                 const char *owner)
{
    if (m->npeers >= MCP_PEERS_MAX)
        make_room(m);
    struct mcp_peer *p = m->npeers < MCP_PEERS_MAX ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;
    p->named = named ? strdup(named) : NULL;
    if (named && !p->named) {
        free(p);
        return NULL;
    }
    snprintf(p->id, sizeof p->id, "%s", id);
    snprintf(p->version, sizeof p->version, "%s", version);
    snprintf(p->owner, sizeof p->owner, "%s", owner);
    link_first(m, p);
    return p;
}

struct mcp_peer *mcp_peer_new(struct mcp *m, const char *version, const char *named, const char *owner)
{
    char id[CK_UUID_MAX];
    ck_uuid4(id);
    return peer_add(m, id, version, named, owner);
}

// A client of an earlier gateway, or one that had to make room: its session remembers it.
static struct mcp_peer *adopt(struct mcp *m, const char *id, const char *owner)
{
    for (struct session *s = registry_next(m->gw->registry, NULL); s; s = registry_next(m->gw->registry, s)) {
        const char *of = ck_json_str(s->metadata, "mcp_session", NULL, NULL);
        if (!of || strcmp(of, id) || strcmp(s->owner, owner) || s->state == SESSION_DEAD)
            continue;
        struct mcp_peer *p = peer_add(m, id, MCP_LEGACY_LATEST, NULL, owner);
        if (p)
            snprintf(p->session, sizeof p->session, "%s", s->id);
        return p;
    }
    return NULL;
}

struct mcp_peer *mcp_peer_find(struct mcp *m, const char *id, const char *owner)
{
    if (!ck_uuid_valid(id))
        return NULL;
    for (struct mcp_peer *p = m->peers; p; p = p->next) {
        if (strcmp(p->id, id))
            continue;
        if (strcmp(p->owner, owner))
            return NULL;
        unlink_peer(m, p);
        link_first(m, p);
        return p;
    }
    return adopt(m, id, owner);
}

void mcp_peer_remove(struct mcp_peer *p, struct mcp *m)
{
    struct mcp_call *next;
    for (struct mcp_call *c = m->calls; c; c = next) {
        next = c->next;
        if (c->peer != p)
            continue;
        c->peer = NULL;
        mcp_call_cancel(c); // may end it, and no other
    }
    unlink_peer(m, p);
    free(p->named);
    free(p);
}
