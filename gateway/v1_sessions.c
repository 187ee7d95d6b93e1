// /v1/sessions: create, list, look at, change, delete, interrupt, restart. The registry owns the
// sessions; this file only translates. Never logs or repeats environments and metadata.
#include "gateway/owner.h"
#include "gateway/v1.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <stdlib.h>

#define LIST_DEFAULT 1000

// {cell_s, idle_s, delete_s}: base with what the body says on top. New reference.
static json_t *merged_timeouts(const json_t *base, const struct v1_session_body *b)
{
    const struct {
        const char *key;
        int64_t value;
    } given[] = {{"cell_s", b->cell_s}, {"idle_s", b->idle_s}, {"delete_s", b->delete_s}};
    json_t *o = base ? json_copy((json_t *)base) : json_object();
    for (size_t i = 0; i < 3; i++)
        if (given[i].value >= 0)
            json_object_set_new(o, given[i].key, json_integer(given[i].value));
    return o;
}

static void created(void *user, struct session *s, const struct ck_err *err)
{
    struct http_req *r = user;
    if (err) {
        if (err->status == 503 || err->status == 429)
            http_header_add(r, "Retry-After", "5");
        http_reply_err(r, err);
        return;
    }
    char location[256];
    snprintf(location, sizeof location, "%s/v1/sessions/%s", http_base_url(r), s->id);
    http_header_add(r, "Location", location);
    http_reply_json(r, 201, v1_session_model(s, NULL));
}

void v1_sessions_create(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    struct v1_session_body b;
    if (v1_session_body_parse(http_body(r), false, &b, &err)) {
        http_reply_err(r, &err);
    } else {
        CK_CLEAN_JSON json_t *timeouts = merged_timeouts(NULL, &b);
        struct session_spec spec = {
            .name = b.name,
            .template_name = b.template_name,
            .memory_mb = b.memory_mb > 0 ? (int)b.memory_mb : 0,
            .env = b.env,
            .timeouts = timeouts,
            .metadata = b.metadata,
            .limits = b.limits,
            .artifact_ignore = b.artifact_ignore,
            .owner = http_owner(r),
            .owner_max = owner_max_sessions(r, http_owner(r)),
        };
        registry_create(http_gateway(r)->registry, &spec, created, r);
    }
    v1_session_body_free(&b);
}

// Does the session's metadata hold every member of want?
static bool metadata_matches(const json_t *have, const json_t *want)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)want, key, v)
        if (!json_equal(json_object_get(have, key), v))
            return false;
    return true;
}

struct list_query {
    const char *name, *state, *after;
    json_t *metadata; // owned
    size_t limit;
};

static bool is_state(const char *word)
{
    for (int i = SESSION_STARTING; i <= SESSION_DEAD; i++)
        if (!strcmp(word, session_state_name((enum session_state)i)))
            return true;
    return false;
}

static int list_query(struct http_req *r, struct list_query *q, struct ck_err *err)
{
    const char *limit = http_query(r, "limit"), *metadata = http_query(r, "metadata");
    *q = (struct list_query){http_query(r, "name"), http_query(r, "state"), http_query(r, "after"), NULL, LIST_DEFAULT};
    if (limit) {
        char *end;
        unsigned long v = strtoul(limit, &end, 10);
        if (*limit < '0' || *limit > '9' || *end || v < 1 || v > LIST_DEFAULT)
            return ck_fail(err, 400, "bad_field", "limit must be a number from 1 to %d", LIST_DEFAULT);
        q->limit = v;
    }
    if (q->state && !is_state(q->state))
        return ck_fail(err, 400, "bad_field", "state must be starting, idle, busy, paused or dead");
    if (q->after && !ck_uuid_valid(q->after))
        return ck_fail(err, 400, "bad_field", "after must be the id of the last session of the page before");
    if (metadata) {
        q->metadata = ck_json_parse_object(metadata, strlen(metadata), false, err);
        return q->metadata ? 0 : ck_wrap(err, "metadata");
    }
    return 0;
}

void v1_sessions_list(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    struct list_query q;
    int rc = list_query(r, &q, &err);
    CK_CLEAN_JSON json_t *metadata = q.metadata;
    if (rc) {
        http_reply_err(r, &err);
        return;
    }
    struct session *after = q.after ? owner_find(r, q.after) : NULL, *s;
    if (q.after && !after) {
        http_reply_error(r, 404, "no_such_session", "the session named by after is gone: list from the start");
        return;
    }
    json_t *list = json_array();
    const char *last = NULL;
    for (s = owner_next(r, after); s; s = owner_next(r, s)) {
        if ((q.name && strcmp(q.name, s->name)) || (q.state && strcmp(q.state, session_state_name(s->state))) ||
            (metadata && !metadata_matches(s->metadata, metadata)))
            continue;
        if (json_array_size(list) == q.limit)
            break;
        json_array_append_new(list, v1_session_model(s, json_incref(s->usage)));
        last = s->id;
    }
    if (s && last) { // there is more
        char link[256];
        snprintf(link, sizeof link, "<%s/v1/sessions?after=%s&limit=%zu>; rel=\"next\"", http_base_url(r), last, q.limit);
        http_header_add(r, "Link", link);
    }
    http_reply_json(r, 200, list);
}

struct model_call {
    struct http_req *r;
    struct session *s; // ref
};

// Answers with the session; usage when the guest told it in time, null otherwise.
static void usage_done(void *user, const json_t *re, const struct ck_frame *f, const struct ck_err *err)
{
    (void)f;
    struct model_call c = *(struct model_call *)user;
    free(user);
    json_t *usage = err ? NULL : json_incref(json_object_get(re, "usage"));
    http_reply_json(c.r, 200, v1_session_model(c.s, usage));
    session_unref(c.s);
}

static void reply_with_usage(struct http_req *r, struct session *s)
{
    struct model_call *c = s->state == SESSION_DEAD || s->state == SESSION_PAUSED ? NULL : malloc(sizeof *c);
    if (c) {
        *c = (struct model_call){r, session_ref(s)};
        json_t *op = json_pack("{s:s}", "op", "usage");
        if (bridge_call(http_gateway(r)->loop, s->socket, op, NULL, 0, V1_USAGE_TIMEOUT_MS, usage_done, c))
            return;
        session_unref(s);
        free(c);
    }
    http_reply_json(r, 200, v1_session_model(s, json_incref(s->usage))); // of a paused one: the last known
}

void v1_sessions_get(struct http_req *r)
{
    struct session *s = v1_session(r, false);
    if (s)
        reply_with_usage(r, s);
}

static int patch(struct registry *reg, struct session *s, const struct v1_session_body *b, struct ck_err *err)
{
    if (b->name && registry_set_name(reg, s, b->name, err))
        return -1;
    if (b->metadata && registry_set_metadata(reg, s, b->metadata, err))
        return -1;
    if (b->cell_s < 0 && b->idle_s < 0 && b->delete_s < 0)
        return 0;
    CK_CLEAN_JSON json_t *timeouts = merged_timeouts(s->timeouts, b);
    return registry_set_timeouts(reg, s, timeouts, err);
}

void v1_sessions_patch(struct http_req *r)
{
    struct session *s = v1_session(r, false);
    if (!s)
        return;
    struct ck_err err = CK_ERR_INIT;
    struct v1_session_body b;
    int rc = v1_session_body_parse(http_body(r), true, &b, &err);
    if (!rc)
        rc = patch(http_gateway(r)->registry, s, &b, &err);
    v1_session_body_free(&b);
    if (rc)
        http_reply_err(r, &err);
    else
        reply_with_usage(r, s);
}

static void deleted(void *user, const struct ck_err *err)
{
    if (err)
        http_reply_err(user, err);
    else
        http_reply_empty(user, 204);
}

void v1_sessions_delete(struct http_req *r)
{
    struct session *s = v1_session(r, false);
    if (s)
        registry_delete(http_gateway(r)->registry, s, deleted, r);
}

static void reply_current(struct http_req *r, const json_t *re, const struct ck_frame *f)
{
    (void)re;
    (void)f;
    struct session *s = v1_session(r, false); // may be gone by now: then it has answered
    if (s)
        reply_with_usage(r, s);
}

void v1_sessions_interrupt(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    if (s)
        v1_call(r, s, json_pack("{s:s}", "op", "interrupt"), V1_CALL_TIMEOUT_MS, reply_current);
}

void v1_sessions_restart(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    if (!s)
        return;
    session_touch(s);
    v1_call(r, s, json_pack("{s:s}", "op", "restart"), V1_RESTART_TIMEOUT_MS, reply_current);
}
