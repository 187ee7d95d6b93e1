// Who may see which session: a token sees those that it made, the gateway's own token all of them.
// Every door looks sessions up through here. Loop thread only.
#pragma once
#include "gateway/http.h"
#include "gateway/registry.h"

bool owner_sees(const char *owner, const struct session *s); // owner: http_owner()
struct session *owner_find(struct http_req *r, const char *id); // NULL: there is none that r may see
// The next one that r may see; as registry_next().
struct session *owner_next(struct http_req *r, const struct session *after);
int owner_max_sessions(struct http_req *r, const char *owner); // 0 = any number
