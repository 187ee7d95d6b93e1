// How many sessions a token has and is getting. Sessions of the gateway's own token are not counted: only
// the limit of all sessions bounds them.
#include "gateway/registry_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct getting **find(struct getting **at, const char *owner)
{
    while (*at && strcmp((*at)->owner, owner))
        at = &(*at)->next;
    return at;
}

int owner_admit(const struct registry *r, const char *owner, int max, size_t more, struct ck_err *err)
{
    if (!*owner || max <= 0)
        return 0;
    size_t have = 0;
    for (const struct getting *g = r->getting; g; g = g->next)
        have += strcmp(g->owner, owner) ? 0 : g->n;
    for (const struct entry *e = r->first; e; e = e->next)
        have += e->pub.state != SESSION_DEAD && !strcmp(e->pub.owner, owner);
    if (have + more > (size_t)max)
        return ck_fail(err, 429, "too_many_sessions",
                       "this token may have %d sessions at once and has %zu; delete one first", max, have);
    return 0;
}

void owner_getting(struct registry *r, const char *owner, int n)
{
    if (!*owner)
        return;
    struct getting **at = find(&r->getting, owner);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            abort();
        snprintf((*at)->owner, sizeof (*at)->owner, "%s", owner);
    }
    struct getting *g = *at;
    g->n += (size_t)n;
    if (!g->n) {
        *at = g->next;
        free(g);
    }
}
