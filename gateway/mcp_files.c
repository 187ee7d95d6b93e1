// The tools read_file, write_file and list_files. All of it in memory, so all of it bounded: models read
// little; who wants more has the file API.
#include "gateway/mcp.h"

#include "common/ck_json.h"
#include "common/ck_utf8.h"
#include "gateway/picture_shrink.h"
#include "gateway/v1.h"

#include <stdio.h>
#include <stdlib.h>

#define PIECE (256 * 1024) // of what is written
#define URI_MAX 12400

// --- list_files --------------------------------------------------------------------------------------

static void listed(void *user, const json_t *re, const struct ck_frame *f, const struct ck_err *err)
{
    (void)f;
    struct mcp_call *c = user;
    c->op = NULL;
    if (err) {
        mcp_call_fail(c, err);
        return;
    }
    struct ck_buf b = CK_BUF_INIT;
    size_t i;
    json_t *e;
    json_array_foreach (json_object_get(re, "entries"), i, e) {
        const char *type = ck_json_str(e, "type", "other", NULL);
        ck_buf_printf(&b, "%-5s %10lld  %s\n", type, (long long)ck_json_int(e, "size", 0, NULL),
                      ck_json_str(e, "name", "", NULL));
    }
    if (ck_json_bool(re, "truncated", false, NULL))
        ck_buf_add_str(&b, "… and more");
    json_t *result = b.n ? mcp_result(false) : mcp_text_result(false, "(empty)");
    if (b.n)
        mcp_add_text(result, (const char *)b.p, b.n);
    ck_buf_free(&b);
    mcp_call_finish(c, result);
}

void mcp_list_files(struct mcp_call *c)
{
    json_t *op = v1_path_op("file_list", "path", c->args.path);
    json_object_set_new(op, "limit", json_integer(MCP_LIST_MAX));
    c->op = session_call(c->s, op, V1_CALL_TIMEOUT_MS, listed, c);
}

// --- read_file ---------------------------------------------------------------------------------------

// Without a character that is cut at either end.
static struct ck_slice whole_characters(const struct mcp_call *c)
{
    struct ck_slice s = ck_buf_slice(&c->data);
    for (int i = 0; i < 3 && c->args.offset && s.n && (*s.p & 0xc0) == 0x80; i++)
        s = ck_slice(s.p + 1, s.n - 1);
    bool more = (uint64_t)c->args.offset + c->data.n < c->size;
    size_t bad;
    if (more && !ck_utf8_valid(s.p, s.n, &bad) && s.n - bad < 4)
        s.n = bad;
    return s;
}

static void reply_text(struct mcp_call *c, struct ck_slice s)
{
    json_t *result = mcp_result(false);
    json_t *text = json_stringn((const char *)s.p, s.n);
    json_array_append_new(json_object_get(result, "content"), json_pack("{s:s,s:o}", "type", "text", "text", text));
    uint64_t end = (uint64_t)(s.p - c->data.p) + s.n + (uint64_t)c->args.offset;
    char line[160];
    if (end < c->size) {
        int n = snprintf(line, sizeof line, "[bytes %lld to %llu of %llu; go on with offset %llu]",
                         (long long)c->args.offset, (unsigned long long)end, (unsigned long long)c->size,
                         (unsigned long long)end);
        mcp_add_text(result, line, (size_t)n);
    }
    mcp_call_finish(c, result);
}

static bool is_picture(const char *mime)
{
    return !strcmp(mime, "image/png") || !strcmp(mime, "image/jpeg") || !strcmp(mime, "image/webp") ||
           !strcmp(mime, "image/gif");
}

static void reply_blob(struct mcp_call *c);

static void reply_picture(struct mcp_call *c, struct ck_slice bytes, const char *why_whole)
{
    json_t *result = mcp_result(false);
    if (mcp_add_image(result, c->mime, bytes.p, bytes.n)) {
        json_decref(result);
        reply_blob(c);
        return;
    }
    if (why_whole)
        mcp_add_whole(result, why_whole, c->pictures->p[0].was.width, c->pictures->p[0].was.height);
    mcp_call_finish(c, result);
}

static void shrunk(void *user, const char *why)
{
    struct mcp_call *c = user;
    const struct picture *p = &c->pictures->p[0];
    c->shrink = NULL;
    reply_picture(c, ck_buf_slice(&p->bytes), p->is.width ? NULL : why);
}

// A picture that is larger than models look at is made smaller first. False when it need not be, or cannot.
static bool shrink(struct mcp_call *c)
{
    c->pictures = calloc(1, sizeof *c->pictures);
    if (!c->pictures)
        return false;
    c->pictures->edge = MCP_IMAGE_EDGE;
    if (pictures_add(c->pictures, ck_buf_slice(&c->data), (struct picture){.display = PICTURE_NOT_DISPLAYED}) <= 0)
        return false;
    c->shrink = picture_shrink_start(c->m->gw, c->s, c->pictures, shrunk, c);
    if (!c->shrink)
        return false;
    c->converting = true;
    bridge_link_close(c->link); // its end must not be the call's
    c->link = NULL;
    return true;
}

static void reply_bytes(struct mcp_call *c)
{
    struct ck_slice s = whole_characters(c);
    if (is_picture(c->mime) && !c->args.offset && c->data.n == c->size) {
        if (!shrink(c))
            reply_picture(c, ck_buf_slice(&c->data), NULL);
        return;
    }
    if (ck_utf8_valid(s.p, s.n, NULL) && !memchr(s.n ? (const void *)s.p : "", 0, s.n)) {
        reply_text(c, s);
        return;
    }
    reply_blob(c);
}

static void reply_blob(struct mcp_call *c)
{
    struct ck_buf uri = {.cap = URI_MAX};
    json_t *result = mcp_result(false);
    if (!ck_buf_printf(&uri, "%s/v1/sessions/%s/files/", c->base, c->s->id) && !v1_path_to_url(c->args.path, &uri) &&
        !ck_buf_add(&uri, "", 1))
        mcp_add_blob(result, (const char *)uri.p, *c->mime ? c->mime : "application/octet-stream", c->data.p,
                     c->data.n);
    ck_buf_free(&uri);
    mcp_call_finish(c, result);
}

static void on_stat(struct mcp_call *c, const json_t *h)
{
    const json_t *stat = json_object_get(h, "stat");
    const char *type = ck_json_str(stat, "type", "other", NULL);
    if (strcmp(type, "file")) {
        mcp_call_finish(c, mcp_text_result(true, "%s is %s.", c->args.path,
                                           !strcmp(type, "dir") ? "a folder: use list_files" : "no regular file"));
        return;
    }
    c->size = (uint64_t)ck_json_int(stat, "size", 0, NULL);
    snprintf(c->mime, sizeof c->mime, "%.150s", ck_json_str(stat, "mime", "", NULL));
    uint64_t offset = (uint64_t)c->args.offset;
    uint64_t left = offset < c->size ? c->size - offset : 0;
    uint64_t want =
        is_picture(c->mime) && !offset && c->size <= MCP_IMAGE_MAX / 4 * 3 ? c->size : (uint64_t)c->args.limit;
    if (!left) {
        mcp_call_finish(c,
                        mcp_text_result(offset > c->size, "(%s; the file has %llu bytes)",
                                        offset ? "nothing behind this offset" : "empty", (unsigned long long)c->size));
        return;
    }
    json_t *op = v1_path_op("file_read", "path", c->args.path);
    json_object_set_new(op, "offset", json_integer((json_int_t)offset));
    json_object_set_new(op, "length", json_integer((json_int_t)(want < left ? want : left)));
    c->rid = -1;
    bridge_link_op(c->link, op, NULL, 0, &c->rid);
}

// The whole content is queued at once: the body that it came with is smaller than the queue may be.
static void send_content(struct mcp_call *c)
{
    const struct ck_buf *b = &c->args.content;
    int rc = 0;
    for (size_t at = 0; rc >= 0 && at < b->n; at += PIECE) {
        struct ck_slice piece = {b->p + at, b->n - at < PIECE ? b->n - at : PIECE};
        rc = bridge_link_op(c->link, json_pack("{s:s,s:I}", "op", "data", "rid", (json_int_t)c->rid), &piece, 1, NULL);
    }
    if (rc >= 0)
        rc =
            bridge_link_op(c->link, json_pack("{s:s,s:I}", "op", "data_end", "rid", (json_int_t)c->rid), NULL, 0, NULL);
    if (rc < 0)
        mcp_call_finish(c, NULL);
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct mcp_call *c = user;
    struct ck_err err = CK_ERR_INIT;
    if (ck_json_int(h, "re", -1, NULL) != c->rid)
        return;
    if (bridge_error(h, &err)) {
        mcp_call_fail(c, &err);
    } else if (json_object_get(h, "go")) {
        send_content(c);
    } else if (json_object_get(h, "created")) {
        mcp_call_finish(c, mcp_text_result(false, "wrote %s, %lld bytes", c->args.path,
                                           (long long)ck_json_int(json_object_get(h, "stat"), "size", 0, NULL)));
    } else if (json_object_get(h, "data")) {
        struct ck_slice piece = f->nparts > 1 ? ck_frame_part(f, 1) : ck_slice("", 0);
        if (c->data.n + piece.n > MCP_READ_MAX || ck_buf_add(&c->data, piece.p, piece.n)) {
            mcp_call_finish(c, NULL);
        } else if (ck_json_bool(h, "last", false, NULL)) {
            reply_bytes(c);
        }
    } else if (!json_object_get(h, "length")) {
        on_stat(c, h);
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct mcp_call *c = user;
    c->link = NULL;
    mcp_call_fail(c, err);
}

static const struct bridge_link_events events = {.on_frame = on_frame, .on_close = on_close};

static bool open_link(struct mcp_call *c)
{
    struct ck_err err = CK_ERR_INIT;
    c->link = session_link_open(c->s, SESSION_LINK_REQUEST, &events, c, &err);
    if (!c->link) {
        mcp_call_fail(c, &err);
        return false;
    }
    session_touch(c->s);
    bridge_link_watch(c->link, true);
    return true;
}

void mcp_read_file(struct mcp_call *c)
{
    if (open_link(c))
        bridge_link_op(c->link, v1_path_op("file_stat", "path", c->args.path), NULL, 0, &c->rid);
}

void mcp_write_file(struct mcp_call *c)
{
    if (c->args.content.n > caps_bytes(&c->s->caps, CAP_UPLOAD_MB)) {
        mcp_call_finish(c, mcp_text_result(true, "The content has %zu bytes; this session takes at most %d MiB.",
                                           c->args.content.n, c->s->caps.v[CAP_UPLOAD_MB]));
        return;
    }
    if (open_link(c))
        bridge_link_op(c->link, v1_path_op("file_write", "path", c->args.path), NULL, 0, &c->rid);
}
