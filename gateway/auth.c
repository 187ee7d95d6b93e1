// The bearer tokens: where they are kept and how they are compared. Never logs or returns it but to the
// ready line.
#include "gateway/auth.h"

#include "common/ck_buf.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#define TOKEN_MAX 4096

struct auth {
    char *token;
    uint8_t hash[CK_SHA256_LEN];
    struct auth_token *tokens;
    int ntokens;
};

static int adopt_token(struct auth *a, const char *p, size_t n, struct ck_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] <= 0x20 || p[i] == 0x7f)
            return ck_fail(err, 500, "bad_token", "the token has a space or control character");
    if (!n || n > TOKEN_MAX)
        return ck_fail(err, 500, "bad_token", "the token is empty or over %d characters", TOKEN_MAX);
    a->token = strndup(p, n);
    if (!a->token || ck_sha256(ck_slice(p, n), a->hash))
        return ck_fail(err, 500, "no_memory", "out of memory");
    return 0;
}

static int make_token(struct auth *a, const char *path, struct ck_err *err)
{
    uint8_t raw[32];
    char text[2 * sizeof raw + 2];
    ck_random(raw, sizeof raw);
    ck_hex(raw, sizeof raw, text);
    if (adopt_token(a, text, 2 * sizeof raw, err))
        return -1;
    text[2 * sizeof raw] = '\n';
    return ck_write_file_atomic(path, text, 2 * sizeof raw + 1, 0600, err);
}

static int read_or_make(struct auth *a, const char *state_dir, struct ck_err *err)
{
    char path[4096];
    struct stat st;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_path(path, sizeof path, err, "%s/token", state_dir))
        return -1;
    if (lstat(path, &st))
        return make_token(a, path, err);
    if (!S_ISREG(st.st_mode) || st.st_mode & 077)
        return ck_fail(err, 500, "token_file", "%s must be a file with mode 0600; run: chmod 600 %s", path, path);
    if (ck_read_file(path, TOKEN_MAX, &b, err))
        return -1;
    while (b.n && (b.p[b.n - 1] == '\n' || b.p[b.n - 1] == '\r'))
        b.n--;
    if (adopt_token(a, (const char *)b.p, b.n, err))
        return ck_wrap(err, "%s", path);
    return 0;
}

int auth_open(const char *token, const char *state_dir, struct auth **out, struct ck_err *err)
{
    struct auth *a = calloc(1, sizeof *a);
    if (!a)
        return ck_fail(err, 500, "no_memory", "out of memory");
    if (token ? adopt_token(a, token, strlen(token), err) : read_or_make(a, state_dir, err)) {
        auth_free(a);
        return -1;
    }
    *out = a;
    return 0;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    while (a->tokens)
        auth_token_remove(a, a->tokens->id);
    if (a->token)
        explicit_bzero(a->token, strlen(a->token));
    free(a->token);
    free(a);
}

const char *auth_token(const struct auth *a)
{
    return a->token;
}

bool auth_token_ok(const struct auth *a, const char *token)
{
    uint8_t hash[CK_SHA256_LEN];
    return token && !ck_sha256(ck_slice_str(token), hash) && ck_equal_const_time(hash, a->hash, sizeof hash);
}

// The credentials after "Bearer" or "token", or NULL when the scheme is another one.
static const char *credentials(const char *authorization)
{
    static const char *const schemes[] = {"bearer", "token"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (!strncasecmp(authorization, schemes[i], n) && (authorization[n] == ' ' || !authorization[n]))
            return authorization + n + strspn(authorization + n, " ");
    }
    return NULL;
}

// Every hash is looked at, whichever it is: the time tells nothing.
static bool any_token(const struct auth *a, const char *text, const struct auth_token **who)
{
    uint8_t hash[CK_SHA256_LEN];
    *who = NULL;
    if (!text || ck_sha256(ck_slice_str(text), hash))
        return false;
    for (const struct auth_token *t = a->tokens; t; t = t->next)
        if (ck_equal_const_time(hash, t->hash, sizeof hash))
            *who = t;
    return ck_equal_const_time(hash, a->hash, sizeof hash) || *who;
}

bool auth_tried(const char *authorization, const char *query_token)
{
    const char *token = authorization ? credentials(authorization) : NULL;
    if (authorization && (!token || *token))
        return *authorization;
    return query_token && *query_token;
}

enum http_auth auth_identify(const struct auth *a, const char *authorization, const char *query_token,
                             const struct auth_token **who)
{
    *who = NULL;
    if (authorization) {
        const char *token = credentials(authorization);
        if (token && *token)
            return any_token(a, token, who) ? HTTP_AUTH_HEADER : HTTP_AUTH_NONE;
        if (token) // "token " with nothing after it: jupyter's gateway client without a token
            authorization = NULL;
    }
    return !authorization && any_token(a, query_token, who) ? HTTP_AUTH_QUERY : HTTP_AUTH_NONE;
}

enum http_auth auth_check(const struct auth *a, const char *authorization, const char *query_token)
{
    const struct auth_token *who;
    return auth_identify(a, authorization, query_token, &who);
}

// --- tokens beside the gateway's own ---------------------------------------------------------------------

void auth_token_new(char text[AUTH_TOKEN_TEXT], uint8_t hash[CK_SHA256_LEN])
{
    uint8_t raw[32];
    ck_random(raw, sizeof raw);
    ck_hex(raw, sizeof raw, text + snprintf(text, AUTH_TOKEN_TEXT, "ck_"));
    explicit_bzero(raw, sizeof raw);
    ck_sha256(ck_slice_str(text), hash);
}

int auth_token_add(struct auth *a, const char *id, const char *name, const uint8_t *hash, int64_t created_us,
                   int max_sessions, struct ck_err *err)
{
    if (a->ntokens >= AUTH_TOKENS_MAX)
        return ck_fail(err, 429, "too_many_tokens", "%d tokens are the limit: revoke some", AUTH_TOKENS_MAX);
    struct auth_token *t = calloc(1, sizeof *t), **at = &a->tokens;
    if (!t || !(t->name = strdup(name))) {
        free(t);
        return ck_fail(err, 503, "no_memory", "the gateway is out of memory");
    }
    memccpy(t->id, id, 0, sizeof t->id - 1);
    memcpy(t->hash, hash, sizeof t->hash);
    t->created_us = created_us;
    t->max_sessions = max_sessions;
    while (*at)
        at = &(*at)->next;
    *at = t;
    a->ntokens++;
    return 0;
}

const struct auth_token *auth_tokens(const struct auth *a) { return a->tokens; }

const struct auth_token *auth_token_find(const struct auth *a, const char *id)
{
    const struct auth_token *t = a->tokens;
    while (t && strcmp(t->id, id))
        t = t->next;
    return t;
}

void auth_token_remove(struct auth *a, const char *id)
{
    struct auth_token **at = &a->tokens;
    while (*at && strcmp((*at)->id, id))
        at = &(*at)->next;
    struct auth_token *t = *at;
    if (!t)
        return;
    *at = t->next;
    a->ntokens--;
    free(t->name);
    free(t);
}
