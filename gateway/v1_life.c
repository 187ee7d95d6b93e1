// /v1/sessions/{id}/pause, resume, fork, checkpoints, rollback. The registry's life*.c does them; this
// file checks bodies and tells outcomes. An operation goes on when its client leaves, but a fork, which
// then leaves nothing.
#include "gateway/owner.h"
#include "gateway/v1.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_time.h"

#include <stdlib.h>

static void reply_refused(struct http_req *r, const struct ck_err *err)
{
    if (err->status == 429 || err->status == 503)
        http_header_add(r, "Retry-After", "5");
    v1_reply_err(r, err);
}

// The body of a verb that has no fields. False after having answered.
static bool check_empty(struct http_req *r)
{
    static const char *const none[] = {NULL};
    struct ck_err err = CK_ERR_INIT;
    json_t *body = http_body_json(r, &err);
    if (body && !v1_body_only(body, "this request, which has none", none, &err))
        return true;
    http_reply_err(r, &err);
    return false;
}

static void replied(void *user, struct session *s, const struct ck_err *err)
{
    if (err)
        reply_refused(user, err);
    else
        http_reply_json(user, 200, v1_session_model(s, json_incref(s->usage)));
}

typedef int (*verb_fn)(struct session *s, life_done done, void *user, struct ck_err *err);

static void verb(struct http_req *r, verb_fn begin)
{
    struct ck_err err = CK_ERR_INIT;
    struct session *s = v1_session(r, true);
    if (!s || !check_empty(r))
        return;
    int rc = begin(s, replied, r, &err);
    if (rc)
        replied(r, s, rc < 0 ? &err : NULL);
}

void v1_life_pause(struct http_req *r) { verb(r, session_pause); }
void v1_life_resume(struct http_req *r) { verb(r, session_resume); }

// --- checkpoints ---------------------------------------------------------------------------------------

static json_t *checkpoint_model(const struct checkpoint *c)
{
    char created[CK_ISO8601_MAX];
    ck_iso8601_us(c->created_us, created);
    return json_pack("{s:s,s:s,s:s,s:I}", "id", c->id, "name", c->name, "created_at", created, "bytes", (json_int_t)c->bytes);
}

static void checkpointed(void *user, const struct checkpoint *c, const struct ck_err *err)
{
    struct http_req *r = user;
    if (err) {
        reply_refused(r, err);
        return;
    }
    char location[256];
    snprintf(location, sizeof location, "%s/v1/sessions/%s/checkpoints/%s", http_base_url(r), http_param(r, "id"), c->id);
    http_header_add(r, "Location", location);
    http_reply_json(r, 201, checkpoint_model(c));
}

void v1_life_checkpoint(struct http_req *r)
{
    static const char *const known[] = {"name", NULL};
    struct ck_err err = CK_ERR_INIT;
    struct session *s = v1_session(r, true);
    if (!s)
        return;
    json_t *body = http_body_json(r, &err);
    const char *name = NULL;
    if (body && !v1_body_only(body, "a checkpoint", known, &err))
        name = ck_json_str(body, "name", NULL, &err);
    if (err.status || session_checkpoint(s, name, checkpointed, r, &err))
        reply_refused(r, &err);
}

void v1_life_checkpoints(struct http_req *r)
{
    struct session *s = v1_session(r, false);
    if (!s)
        return;
    json_t *list = json_array();
    for (const struct checkpoint *c = session_checkpoints(s); c; c = c->next)
        json_array_append_new(list, checkpoint_model(c));
    http_reply_json(r, 200, list);
}

static void no_such_checkpoint(struct http_req *r)
{
    http_reply_error(r, 404, "no_such_checkpoint", "the session has no such checkpoint: GET …/checkpoints lists "
                             "them");
}

void v1_life_checkpoint_get(struct http_req *r)
{
    struct session *s = v1_session(r, false);
    const struct checkpoint *c = s ? session_find_checkpoint(s, http_param(r, "checkpoint")) : NULL;
    if (c)
        http_reply_json(r, 200, checkpoint_model(c));
    else if (s)
        no_such_checkpoint(r);
}

void v1_life_checkpoint_delete(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    struct session *s = v1_session(r, false);
    if (!s)
        return;
    if (session_forget_checkpoint(s, http_param(r, "checkpoint"), &err))
        http_reply_err(r, &err);
    else
        http_reply_empty(r, 204);
}

void v1_life_rollback(struct http_req *r)
{
    static const char *const known[] = {"checkpoint", NULL};
    struct ck_err err = CK_ERR_INIT;
    struct session *s = v1_session(r, true);
    if (!s)
        return;
    json_t *body = http_body_json(r, &err);
    const char *which = NULL;
    if (body && !v1_body_only(body, "a rollback", known, &err))
        which = ck_json_str(body, "checkpoint", NULL, &err);
    if (!err.status && !which)
        ck_fail(&err, 400, "bad_field", "field \"checkpoint\" must be the id or name of a checkpoint of this session");
    if (err.status || session_rollback(s, which, replied, r, &err))
        reply_refused(r, &err);
}

// --- forks ---------------------------------------------------------------------------------------------

struct v1_fork {
    struct http_req *r;
    struct fork *fork;
    bool sse;
};

static void send_object(struct http_req *r, const char *event, json_t *o)
{
    struct ck_buf b = CK_BUF_INIT;
    if (!ck_json_dump(o, &b))
        http_sse_send(r, event, -1, b.p, b.n);
    ck_buf_free(&b);
    json_decref(o);
}

static void fork_progress(void *user, int ready, int count)
{
    struct v1_fork *f = user;
    if (f->sse)
        send_object(f->r, "progress", json_pack("{s:s,s:i,s:i}", "type", "progress", "ready", ready, "count", count));
}

static void fork_failed(const struct v1_fork *f, const struct ck_err *err)
{
    if (!f->sse) {
        reply_refused(f->r, err);
        return;
    }
    send_object(f->r, "failed", json_pack("{s:s,s:s,s:s}", "type", "failed", "message", err->text, "reason", err->reason));
    http_stream_end(f->r);
}

static void fork_done(void *user, struct session *const *forks, int count, const struct ck_err *err)
{
    struct v1_fork *f = user;
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, v1_session_model(forks[i], NULL));
    if (err) {
        fork_failed(f, err);
        json_decref(list);
    } else if (f->sse) {
        send_object(f->r, "done", json_pack("{s:s,s:o}", "type", "done", "sessions", list));
        http_stream_end(f->r);
    } else {
        http_reply_json(f->r, 201, list);
    }
    free(f);
}

static void fork_gone(struct http_req *r, void *user)
{
    (void)r;
    struct v1_fork *f = user;
    fork_cancel(f->fork);
    free(f);
}

static void start_fork(struct http_req *r, struct session *s, int64_t count, const char *checkpoint, struct ck_err *err)
{
    static const struct fork_events events = {.on_progress = fork_progress, .on_done = fork_done};
    struct v1_fork *f = calloc(1, sizeof *f);
    if (!f) {
        http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
        return;
    }
    f->r = r;
    const struct fork_wish wish = {.count = count < 1 || count > FORKS_MAX ? 0 : (int)count, .checkpoint = checkpoint,
                                   .owner_max = owner_max_sessions(r, s->owner)};
    f->fork = session_fork(s, &wish, &events, f, err);
    if (!f->fork) {
        free(f);
        reply_refused(r, err);
        return;
    }
    http_set_user(r, f);
    http_on_gone(r, fork_gone);
    f->sse = v1_wants_sse(r);
    if (f->sse) {
        http_sse_begin(r);
        fork_progress(f, 0, (int)count);
    }
}

void v1_life_fork(struct http_req *r)
{
    static const char *const known[] = {"checkpoint", "count", NULL};
    struct ck_err err = CK_ERR_INIT;
    struct session *s = v1_session(r, true);
    if (!s)
        return;
    json_t *body = http_body_json(r, &err);
    int64_t count = body && !v1_body_only(body, "a fork", known, &err) ? ck_json_int(body, "count", 1, &err) : 0;
    const char *checkpoint = err.status ? NULL : ck_json_str(body, "checkpoint", NULL, &err);
    if (err.status)
        http_reply_err(r, &err);
    else
        start_fork(r, s, count, checkpoint, &err);
}
