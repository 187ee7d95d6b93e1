// PUT of a file: the body flows into the guest as it comes, as fast as the guest takes it. The agent
// writes a temporary file and renames it at the end: half an upload leaves nothing behind. Never
// holds more of the body than one piece and the link's queue.
#include "gateway/v1.h"

#include "common/ck_json.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_mime.h"
#include "gateway/v1_range.h"

#include <stdlib.h>

struct v1_put {
    struct http_req *r;
    struct bridge_link *link;
    struct v1_deadline *deadline; // for what the guest has to do next
    char path[V1_PATH_MAX];
    int64_t stat_rid, write_rid;
    bool paused;
};

static void put_free(struct v1_put *p)
{
    bridge_link_close(p->link); // without a data_end: nothing is left in the guest
    v1_deadline_free(p->deadline);
    free(p);
}

static void put_fail(struct v1_put *p, const struct ck_err *err)
{
    v1_reply_err(p->r, err);
    put_free(p);
}

static void start_write(struct v1_put *p)
{
    json_t *op = v1_path_op("file_write", "path", p->path);
    v1_deadline_arm(p->deadline);
    bridge_link_op(p->link, op, NULL, 0, &p->write_rid);
}

// The client's conditions against what is there; re is NULL when nothing is.
static int conditions(const struct v1_put *p, const json_t *re, struct ck_err *err)
{
    const char *match = http_header_in(p->r, "If-Match"), *none = http_header_in(p->r, "If-None-Match");
    char etag[128];
    v1_etag_clean(ck_json_str(json_object_get(re, "stat"), "etag", NULL, NULL), etag, sizeof etag);
    if (match && (!re || !v1_etag_listed(match, etag, false)))
        return ck_fail(err, 412, "precondition_failed", "the file is not the version that If-Match names");
    if (none && re && v1_etag_listed(none, etag, true))
        return ck_fail(err, 412, "precondition_failed", "the file exists, which If-None-Match forbids");
    return 0;
}

static void on_stat(struct v1_put *p, const json_t *re, const struct ck_err *failed)
{
    struct ck_err err = CK_ERR_INIT;
    if (failed->status && failed->status != 404)
        put_fail(p, failed);
    else if (conditions(p, failed->status ? NULL : re, &err))
        put_fail(p, &err);
    else
        start_write(p);
}

static void stored(struct v1_put *p, const json_t *re)
{
    const json_t *stat = json_object_get(re, "stat");
    char etag[128], quoted[130];
    if (v1_etag_clean(ck_json_str(stat, "etag", NULL, NULL), etag, sizeof etag)) {
        snprintf(quoted, sizeof quoted, "\"%s\"", etag);
        http_header_add(p->r, "ETag", quoted);
    }
    bool made = ck_json_bool(re, "created", false, NULL);
    http_reply_json(p->r, made ? 201 : 200, v1_stat_model(p->path, stat));
    put_free(p);
}

// The guest is ready for more: from here it is the client that is waited for.
static void take_body(struct v1_put *p)
{
    v1_deadline_stop(p->deadline);
    http_body_resume(p->r);
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    (void)f;
    struct v1_put *p = user;
    struct ck_err err = CK_ERR_INIT;
    int64_t rid = ck_json_int(h, "re", -1, NULL);
    bool failed = bridge_error(h, &err);
    if (rid == p->stat_rid)
        on_stat(p, h, &err);
    else if (failed)
        put_fail(p, &err);
    else if (json_object_get(h, "go"))
        take_body(p);
    else if (json_object_get(h, "stat"))
        stored(p, h);
}

static void on_link_drain(struct bridge_link *l, void *user)
{
    (void)l;
    struct v1_put *p = user;
    bool was = p->paused;
    p->paused = false;
    if (was)
        take_body(p);
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_put *p = user;
    p->link = NULL;
    put_fail(p, err);
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_drain = on_link_drain, .on_close = on_close};

static void on_data(struct http_req *r, void *user, struct ck_slice piece)
{
    struct v1_put *p = user;
    json_t *op = json_pack("{s:s,s:I}", "op", "data", "rid", (json_int_t)p->write_rid);
    int rc = bridge_link_op(p->link, op, &piece, 1, NULL);
    if (rc < 0) {
        struct ck_err err = CK_ERR_INIT;
        ck_fail(&err, 503, "no_memory", "the gateway is out of memory: try again");
        put_fail(p, &err);
    } else if (rc > 0) {
        p->paused = true;
        v1_deadline_arm(p->deadline);
        http_body_pause(r);
    }
}

static void on_end(struct http_req *r, void *user)
{
    (void)r;
    struct v1_put *p = user;
    v1_deadline_arm(p->deadline);
    bridge_link_op(p->link, json_pack("{s:s,s:I}", "op", "data_end", "rid", (json_int_t)p->write_rid), NULL, 0, NULL);
}

static const struct http_body_events body_events = {.on_data = on_data, .on_end = on_end};

static void expired(void *user, const struct ck_err *err) { put_fail(user, err); }

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    put_free(user);
}

void v1_files_put(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    struct ck_err err = CK_ERR_INIT;
    struct v1_put *p = s ? calloc(1, sizeof *p) : NULL;
    if (!s)
        return;
    if (!p) {
        http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
        return;
    }
    if (v1_request_path(r, p->path)) {
        free(p);
        return;
    }
    if (http_query(r, "archive")) {
        v1_tar_put(r, s, p->path);
        free(p);
        return;
    }
    p->r = r;
    p->stat_rid = p->write_rid = -2;
    if (http_header_in(r, "Content-Range")) // RFC 9110 14.4: a part must never pass for the whole
        ck_fail(&err, 400, "bad_request", "parts of a file cannot be written (Content-Range): send the whole file");
    else if (!strcmp(p->path, "/"))
        ck_fail(&err, 409, "is_a_folder", "the path is a folder: name a file in it");
    else if (!v1_upload_fits(r, s, &err))
        p->link = session_link_open(s, SESSION_LINK_REQUEST, &link_events, p, &err);
    if (!p->link) {
        put_fail(p, &err);
        return;
    }
    session_touch(s);
    p->deadline = v1_deadline_new(http_gateway(r)->loop, expired, p);
    v1_deadline_arm(p->deadline);
    http_set_user(r, p);
    http_on_gone(r, on_gone);
    http_body_read(r, &body_events, caps_bytes(&s->caps, CAP_UPLOAD_MB));
    http_body_pause(r); // until the guest is ready
    if (http_header_in(r, "If-Match") || http_header_in(r, "If-None-Match"))
        bridge_link_op(p->link, v1_path_op("file_stat", "path", p->path), NULL, 0, &p->stat_rid);
    else
        start_write(p);
}
