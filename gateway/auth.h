// Who may talk to the gateway: one bearer token (issue 2), compared in constant time over SHA-256
// hashes so that neither length nor content leaks. Tokens are never logged.
#pragma once
#include "common/ck_error.h"
#include "gateway/http.h"

struct auth; // opaque; loop thread

// token NULL: read STATE/token, or make it (mode 0600) with 32 random bytes in hex. Empty token text
// is refused. Start-up only (reads files).
int auth_open(const char *token, const char *state_dir, struct auth **out, struct ck_err *err);
void auth_free(struct auth *a);
const char *auth_token(const struct auth *a); // for the ready line alone
bool auth_token_ok(const struct auth *a, const char *token);

// What a request carries, from its Authorization value and its token query value (either may be
// NULL). Pure but for the hash. A wrong header is not rescued by a right query.
enum http_auth auth_check(const struct auth *a, const char *authorization, const char *query_token);
