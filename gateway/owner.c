// The one place that compares owners. What may not be seen does not exist: 404, never 403.
#include "gateway/owner.h"

#include "gateway/auth.h"
#include "gateway/serve.h"

bool owner_sees(const char *owner, const struct session *s) { return !*owner || !strcmp(owner, s->owner); }

struct session *owner_find(struct http_req *r, const char *id)
{
    struct session *s = registry_find(http_gateway(r)->registry, id);
    return s && owner_sees(http_owner(r), s) ? s : NULL;
}

struct session *owner_next(struct http_req *r, const struct session *after)
{
    struct session *s = registry_next(http_gateway(r)->registry, after);
    while (s && !owner_sees(http_owner(r), s))
        s = registry_next(http_gateway(r)->registry, s);
    return s;
}

int owner_max_sessions(struct http_req *r, const char *owner)
{
    const struct auth_token *t = *owner ? auth_token_find(http_gateway(r)->auth, owner) : NULL;
    return t ? t->max_sessions : 0;
}
