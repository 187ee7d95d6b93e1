// /v1/tokens: make, list and revoke tokens; for the gateway's own token alone. The text of a token is told
// once, in the answer that makes it; what is kept is its hash. Never logs either.
#include "gateway/v1_tokens.h"

#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/http_server.h"
#include "gateway/store.h"
#include "gateway/v1.h"

#include <stdlib.h>

#define MAX_SESSIONS_MAX 1000000

static void add_row(void *user, const struct store_token *row)
{
    uint8_t hash[CK_SHA256_LEN];
    struct ck_err err = CK_ERR_INIT;
    if (strlen(row->hash) != 2 * sizeof hash || ck_unhex(row->hash, 2 * sizeof hash, hash) || !ck_uuid_valid(row->id) ||
        auth_token_add(user, row->id, row->name, hash, row->created_us, row->max_sessions, &err))
        ck_log(CK_LOG_WARN, "tokens", "token_skipped id=%.36s", row->id);
}

int tokens_load(struct store *store, struct auth *a, struct ck_err *err)
{
    return store_load_tokens(store, add_row, a, err);
}

static bool allowed(struct http_req *r)
{
    if (!*http_owner(r))
        return true;
    http_reply_error(r, 403, "forbidden", "tokens are made and revoked with the gateway's own token");
    return false;
}

static json_t *model(const struct auth_token *t)
{
    char created[CK_ISO8601_MAX];
    ck_iso8601_us(t->created_us, created);
    return json_pack("{s:s,s:s,s:s,s:i}", "id", t->id, "name", t->name, "created_at", created, "max_sessions",
                     t->max_sessions);
}

// A token that is on its way to the disk: only then it counts, and is told.
struct making {
    struct http_req *r;
    char id[CK_UUID_MAX], text[AUTH_TOKEN_TEXT];
    uint8_t hash[CK_SHA256_LEN];
    char *name;
    int64_t created_us;
    int max_sessions;
};

static void made(void *user, const struct ck_err *failed)
{
    struct making *m = user;
    struct ck_err err = CK_ERR_INIT;
    struct auth *a = http_gateway(m->r)->auth;
    if (failed) {
        http_reply_err(m->r, failed);
    } else if (auth_token_add(a, m->id, m->name, m->hash, m->created_us, m->max_sessions, &err)) {
        http_reply_err(m->r, &err);
    } else {
        json_t *o = model(auth_token_find(a, m->id));
        json_object_set_new(o, "token", json_string(m->text));
        http_header_add(m->r, "Cache-Control", "no-store");
        http_reply_json(m->r, 201, o);
    }
    explicit_bzero(m->text, sizeof m->text);
    free(m->name);
    free(m);
}

static int body_of(struct http_req *r, const char **name, int *max_sessions, struct ck_err *err)
{
    static const char *const known[] = {"name", "max_sessions", NULL};
    json_t *body = http_body_json(r, err);
    if (!body || v1_body_only(body, "a token", known, err))
        return -1;
    *name = ck_json_str(body, "name", "", err);
    int64_t max = ck_json_int(body, "max_sessions", 0, err);
    if (err->status)
        return -1;
    if (strlen(*name) > V1_NAME_FIELD_MAX)
        return ck_fail(err, 400, "bad_field", "field \"name\" may have at most %d bytes", V1_NAME_FIELD_MAX);
    if (max < 0 || max > MAX_SESSIONS_MAX)
        return ck_fail(err, 400, "bad_field", "field \"max_sessions\" must be a whole number from 0 (no limit) to %d",
                       MAX_SESSIONS_MAX);
    *max_sessions = (int)max;
    return 0;
}

void v1_tokens_create(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    const char *name;
    char hex[CK_SHA256_HEX];
    struct making *m = NULL;
    if (!allowed(r))
        return;
    int max = 0;
    if (!body_of(r, &name, &max, &err) && (!(m = calloc(1, sizeof *m)) || !(m->name = strdup(name))))
        ck_fail(&err, 503, "no_memory", "the gateway is out of memory: try again");
    if (!m || err.status) {
        free(m);
        http_reply_err(r, &err);
        return;
    }
    m->r = r;
    m->max_sessions = max;
    m->created_us = ck_wall_us();
    ck_uuid4(m->id);
    auth_token_new(m->text, m->hash);
    ck_hex(m->hash, sizeof m->hash, hex);
    struct store_token row = {m->id, m->name, hex, m->created_us, m->max_sessions};
    store_put_token(http_gateway(r)->store, &row, made, m);
}

void v1_tokens_list(struct http_req *r)
{
    if (!allowed(r))
        return;
    json_t *list = json_array();
    for (const struct auth_token *t = auth_tokens(http_gateway(r)->auth); t; t = t->next)
        json_array_append_new(list, model(t));
    http_reply_json(r, 200, list);
}

static void revoked(void *user, const struct ck_err *err)
{
    if (err)
        http_reply_err(user, err);
    else
        http_reply_empty(user, 204);
}

// At once, with every connection that it opened; its sessions stay, for the gateway's own token.
void v1_tokens_delete(struct http_req *r)
{
    const char *id = http_param(r, "token");
    struct gateway *gw = http_gateway(r);
    if (!allowed(r))
        return;
    if (!auth_token_find(gw->auth, id)) {
        http_reply_error(r, 404, "no_such_token", "there is no token with this id: GET /v1/tokens lists them");
        return;
    }
    auth_token_remove(gw->auth, id);
    http_server_cut_owner(gw->http, id);
    store_delete_token(gw->store, id, revoked, r);
}
