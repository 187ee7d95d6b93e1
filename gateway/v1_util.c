// What every handler of /v1 begins and ends with: finding the session, one-shot bridge operations,
// bodies parsed off the loop. Never waits.
#include "gateway/owner.h"
#include "gateway/v1.h"

#include "common/ck_json.h"
#include "common/ck_time.h"

#include <stdlib.h>
#include <string.h>

#define V1_PARSE_INLINE_MAX (128 * 1024) // larger bodies would hold up other clients

static struct session *session_of(struct http_req *r)
{
    const char *id = http_param(r, "id");
    return ck_uuid_valid(id) ? owner_find(r, id) : NULL;
}

static void reply_dead(struct http_req *r, const struct session *s)
{
    http_reply_error(r, 410, "session_dead",
                     "the session has ended (%s); delete it and create a new one with POST /v1/sessions",
                     s->reason ? s->reason : "its virtual machine is gone");
}

void v1_reply_err(struct http_req *r, const struct ck_err *err)
{
    bool gone = !strcmp(err->reason, "bridge_gone");
    struct session *s = gone ? session_of(r) : NULL;
    if (s && s->state == SESSION_DEAD)
        reply_dead(r, s);
    else if (gone && !s)
        http_reply_error(r, 404, "no_such_session", "the session was deleted meanwhile");
    else
        http_reply_err(r, err);
}

struct session *v1_session(struct http_req *r, bool alive)
{
    struct session *s = session_of(r);
    if (!s) {
        http_reply_error(r, 404, "no_such_session", "there is no session with this id: GET /v1/sessions lists them");
        return NULL;
    }
    if (alive && s->state == SESSION_DEAD) {
        reply_dead(r, s);
        return NULL;
    }
    return s;
}

int v1_request_path(struct http_req *r, char out[V1_PATH_MAX])
{
    struct ck_err err = CK_ERR_INIT;
    if (!v1_path_from_url(http_param(r, "path"), out, &err))
        return 0;
    http_reply_err(r, &err);
    return -1;
}

int v1_upload_fits(struct http_req *r, const struct session *s, struct ck_err *err)
{
    if (http_body_length(r) > (int64_t)caps_bytes(&s->caps, CAP_UPLOAD_MB))
        return ck_fail(err, 413, "upload_too_large", "the upload has %lld bytes; this session takes at most %d MiB (limits.upload_mb)",
                       (long long)http_body_length(r), s->caps.v[CAP_UPLOAD_MB]);
    return 0;
}

bool v1_wants_sse(const struct http_req *r) { return http_header_has(r, "Accept", "text/event-stream"); }

json_t *v1_session_model(const struct session *s, json_t *usage)
{
    json_t *o = session_json(s);
    json_object_set_new(o, "usage", usage ? usage : json_null());
    return o;
}

struct call {
    struct http_req *r;
    v1_reply reply;
};

static void call_done(void *user, const json_t *re, const struct ck_frame *f, const struct ck_err *err)
{
    struct call c = *(struct call *)user;
    free(user);
    if (err)
        v1_reply_err(c.r, err);
    else
        c.reply(c.r, re, f);
}

void v1_call(struct http_req *r, struct session *s, json_t *op, int timeout_ms, v1_reply reply)
{
    struct call *c = malloc(sizeof *c);
    if (c) {
        *c = (struct call){r, reply};
        // No http_on_gone: the operation is short, its answer is thrown away when the client left.
        session_call(s, op, timeout_ms, call_done, c);
        return;
    }
    json_decref(op);
    http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
}

struct parse_work {
    uv_work_t work;
    struct http_req *r;
    struct ck_slice body;
    v1_parse_fn parse;
    v1_parsed_fn then;
    void *user;
    int rc;
    struct ck_err err;
};

static void parse_in_pool(uv_work_t *work)
{
    struct parse_work *w = work->data;
    w->rc = w->parse(w->body, w->user, &w->err);
}

static void parse_after(uv_work_t *work, int status)
{
    struct parse_work *w = work->data;
    if (status)
        w->rc = ck_fail(&w->err, 503, "shutting_down", "the gateway is shutting down");
    w->then(w->r, w->user, w->rc, &w->err);
    free(w);
}

void v1_parse_body(struct http_req *r, v1_parse_fn parse, v1_parsed_fn then, void *user)
{
    struct ck_slice body = http_body(r);
    struct ck_err err = CK_ERR_INIT;
    struct parse_work *w = body.n > V1_PARSE_INLINE_MAX ? calloc(1, sizeof *w) : NULL;
    if (w) {
        *w = (struct parse_work){.r = r, .body = body, .parse = parse, .then = then, .user = user};
        w->work.data = w;
        if (!uv_queue_work(http_gateway(r)->loop, &w->work, parse_in_pool, parse_after))
            return;
        free(w);
    }
    int rc = parse(body, user, &err);
    then(r, user, rc, &err);
}
