// /v1/sessions/{id}/files/{path}: removing, moving and making folders, and the JSON of a stat.
// Downloads are v1_download.c's, uploads v1_upload.c's. Every path is opened by the agent inside
// the guest, on behalf of its user: no file of the host can be meant.
#include "gateway/v1.h"

#include "common/ck_json.h"
#include "common/ck_name.h"
#include "common/ck_time.h"

json_t *v1_stat_model(const char *path, const json_t *stat)
{
    char modified[CK_ISO8601_MAX];
    ck_iso8601_us(ck_json_int(stat, "mtime_ns", 0, NULL) / 1000, modified);
    json_t *o = json_object();
    ck_name_set(o, "path", path);
    ck_name_set(o, "name", v1_path_name(path));
    json_object_set_new(o, "type", json_string(ck_json_str(stat, "type", "other", NULL)));
    json_object_set_new(o, "size", json_integer(ck_json_int(stat, "size", 0, NULL)));
    json_object_set_new(o, "modified_at", json_string(modified));
    static const char *const more[] = {"mode", "mime", "etag"};
    for (size_t i = 0; i < 3; i++)
        if (json_object_get(stat, more[i]))
            json_object_set(o, more[i], json_object_get(stat, more[i]));
    return o;
}

json_t *v1_path_op(const char *op, const char *key, const char *path)
{
    json_t *o = json_pack("{s:s}", "op", op);
    ck_name_set(o, key, path);
    return o;
}

static void removed(struct http_req *r, const json_t *re, const struct ck_frame *f)
{
    (void)re;
    (void)f;
    http_reply_empty(r, 204);
}

static bool flag(struct http_req *r, const char *name)
{
    const char *v = http_query(r, name);
    return v && (!strcmp(v, "true") || !strcmp(v, "1"));
}

void v1_files_delete(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    char path[V1_PATH_MAX];
    if (!s || v1_request_path(r, path))
        return;
    if (!strcmp(path, "/")) {
        http_reply_error(r, 403, "bad_path", "the root folder cannot be removed");
        return;
    }
    session_touch(s);
    json_t *op = v1_path_op("file_remove", "path", path);
    json_object_set_new(op, "recursive", json_boolean(flag(r, "recursive")));
    v1_call(r, s, op, V1_CALL_TIMEOUT_MS, removed);
}

static void changed(struct http_req *r, const json_t *re, const struct ck_frame *f)
{
    (void)f;
    char path[V1_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    json_t *body = http_body_json(r, &err);
    const char *to = body ? ck_json_str(body, "to", NULL, NULL) : NULL;
    if (to ? v1_path_from_body(to, path, &err) : v1_path_from_url(http_param(r, "path"), path, &err))
        http_reply_err(r, &err);
    else
        http_reply_json(r, to ? 200 : 201, v1_stat_model(path, json_object_get(re, "stat")));
}

// {"action":"mkdir"} or {"action":"move","to":"..."}; NULL with err.
static json_t *action_op(struct http_req *r, const char *path, struct ck_err *err)
{
    static const char *const known[] = {"action", "to", NULL};
    json_t *body = http_body_json(r, err);
    if (!body || v1_body_only(body, "a file action", known, err))
        return NULL;
    const char *action = ck_json_str(body, "action", "", err), *to = ck_json_str(body, "to", NULL, err);
    char target[V1_PATH_MAX];
    if (err->status)
        return NULL;
    if (!strcmp(action, "mkdir") && !to)
        return v1_path_op("file_mkdir", "path", path);
    if (!strcmp(action, "move") && to) {
        if (v1_path_from_body(to, target, err))
            return NULL;
        json_t *op = v1_path_op("file_move", "from", path);
        ck_name_set(op, "to", target);
        return op;
    }
    ck_fail(err, 400, "bad_field", "the body must be {\"action\":\"mkdir\"} or {\"action\":\"move\",\"to\":PATH}");
    return NULL;
}

void v1_files_post(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    char path[V1_PATH_MAX];
    if (!s || v1_request_path(r, path))
        return;
    struct ck_err err = CK_ERR_INIT;
    json_t *op = action_op(r, path, &err);
    if (!op) {
        http_reply_err(r, &err);
        return;
    }
    session_touch(s);
    v1_call(r, s, op, V1_CALL_TIMEOUT_MS, changed);
}
