// /v1/sessions/{id}/cells/{cell}: look at a cell, cancel it, answer its input().
#include "gateway/v1.h"

#include "common/ck_json.h"

static json_t *cell_op(struct http_req *r, const char *op)
{
    return json_pack("{s:s,s:s}", "op", op, "cell", http_param(r, "cell"));
}

// The session, when the id of the cell can be one; NULL after having answered. A dead session's
// bridge may still answer for its cells, so it is asked.
static struct session *cell_session(struct http_req *r, bool alive)
{
    struct session *s = v1_session(r, alive);
    if (s && !ck_uuid_valid(http_param(r, "cell"))) {
        http_reply_error(r, 404, "no_such_cell", "there is no cell with this id in the session");
        return NULL;
    }
    return s;
}

static void reply_cell(struct http_req *r, const json_t *re, const struct ck_frame *f)
{
    if (f->nparts > 1) {
        struct ck_slice finished = ck_frame_part(f, 1);
        http_reply_bytes(r, 200, "application/json", finished.p, finished.n);
        return;
    }
    http_reply_json(r, 200, json_pack("{s:s,s:s}", "id", http_param(r, "cell"), "status",
                                      ck_json_str(re, "status", "queued", NULL)));
}

void v1_cells_get(struct http_req *r)
{
    struct session *s = cell_session(r, false);
    if (s)
        v1_call(r, s, cell_op(r, "cell"), V1_CALL_TIMEOUT_MS, reply_cell);
}

static void reply_cancelled(struct http_req *r, const json_t *re, const struct ck_frame *f)
{
    (void)re;
    (void)f;
    if (http_method(r) == HTTP_DELETE)
        http_reply_empty(r, 204);
    else
        http_reply_json(r, 200, json_pack("{s:s,s:b}", "id", http_param(r, "cell"), "cancelled", 1));
}

void v1_cells_cancel(struct http_req *r)
{
    struct session *s = cell_session(r, true);
    if (s)
        v1_call(r, s, cell_op(r, "cancel"), V1_CALL_TIMEOUT_MS, reply_cancelled);
}

static void reply_ok(struct http_req *r, const json_t *re, const struct ck_frame *f)
{
    (void)re;
    (void)f;
    http_reply_empty(r, 204);
}

void v1_cells_stdin(struct http_req *r)
{
    struct session *s = cell_session(r, true);
    if (!s)
        return;
    struct ck_err err = CK_ERR_INIT;
    json_t *body;
    const char *value = v1_stdin_body_parse(http_body(r), &body, &err);
    if (value) {
        json_t *op = cell_op(r, "stdin");
        json_object_set_new(op, "value", json_string(value));
        v1_call(r, s, op, V1_CALL_TIMEOUT_MS, reply_ok);
    } else {
        http_reply_err(r, &err);
    }
    json_decref(body);
}
