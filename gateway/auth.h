// Who may talk to the gateway: one bearer token (issue 2), compared in constant time over SHA-256
// hashes so that neither length nor content leaks. Tokens are never logged.
#pragma once
#include "common/ck_crypto.h"
#include "common/ck_error.h"
#include "gateway/http.h"

struct auth; // opaque; loop thread

// token NULL: read STATE/token, or make it (mode 0600) with 32 random bytes in hex. Empty token text
// is refused. Start-up only (reads files).
int auth_open(const char *token, const char *state_dir, struct auth **out, struct ck_err *err);
void auth_free(struct auth *a);
const char *auth_token(const struct auth *a); // for the ready line alone
bool auth_token_ok(const struct auth *a, const char *token);

// --- tokens beside the gateway's own ---------------------------------------------------------------------
// Each has sessions of its own and sees no others; the gateway's own token sees all. Only hashes are kept.
struct auth_token { // read-only
    struct auth_token *next; // oldest first
    char id[CK_UUID_MAX];
    char *name; // never NULL
    uint8_t hash[CK_SHA256_LEN];
    int64_t created_us;
    int max_sessions; // 0 = no limit of its own
};
#define AUTH_TOKENS_MAX 10000
#define AUTH_TOKEN_TEXT (2 * 32 + 4) // "ck_", 64 hex digits, NUL

void auth_token_new(char text[AUTH_TOKEN_TEXT], uint8_t hash[CK_SHA256_LEN]);
int auth_token_add(struct auth *a, const char *id, const char *name, const uint8_t *hash, int64_t created_us,
                   int max_sessions, struct ck_err *err);
const struct auth_token *auth_tokens(const struct auth *a);
const struct auth_token *auth_token_find(const struct auth *a, const char *id); // NULL = unknown
void auth_token_remove(struct auth *a, const char *id);

// As auth_check; *who is NULL for the gateway's own token, and when there is no right one.
enum http_auth auth_identify(const struct auth *a, const char *authorization, const char *query_token,
                             const struct auth_token **who);

// Did it come with a token at all, right or wrong? Values as above.
bool auth_tried(const char *authorization, const char *query_token);

// What a request carries, from its Authorization value and its token query value (either may be
// NULL). Pure but for the hash. A wrong header is not rescued by a right query.
enum http_auth auth_check(const struct auth *a, const char *authorization, const char *query_token);
