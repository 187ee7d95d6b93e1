// The bearer token: where it is kept and how it is compared. Never logs or returns it but to the
// ready line.
#include "gateway/auth.h"

#include "common/ck_buf.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"

#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#define TOKEN_MAX 4096

struct auth {
    char *token;
    uint8_t hash[CK_SHA256_LEN];
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

enum http_auth auth_check(const struct auth *a, const char *authorization, const char *query_token)
{
    if (authorization) {
        const char *token = credentials(authorization);
        if (token && *token)
            return auth_token_ok(a, token) ? HTTP_AUTH_HEADER : HTTP_AUTH_NONE;
        if (token) // "token " with nothing after it: jupyter's gateway client without a token
            authorization = NULL;
    }
    return !authorization && auth_token_ok(a, query_token) ? HTTP_AUTH_QUERY : HTTP_AUTH_NONE;
}
