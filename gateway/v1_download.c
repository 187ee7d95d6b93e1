// GET and HEAD of files and folders. A file flows from the bridge's link to the client in pieces,
// paced by the client: never more than the high-water mark is held, whatever its size. The bytes are
// those of untrusted code: see v1_mime.h for what a browser may do with them.
#include "gateway/v1.h"

#include "common/ck_json.h"
#include "common/ck_name.h"
#include "common/ck_time.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_mime.h"
#include "gateway/v1_range.h"

#include <stdlib.h>

#define LIST_MAX 2000 // entries; the answer of a bridge fits that many with names of usual length
#define LIST_MIN 20
#define ETAG_MAX 128
#define NS_PER_S 1000000000

struct v1_get {
    struct http_req *r;
    struct bridge_link *link;
    struct v1_deadline *deadline; // for the next frame, while the client does not hold us up
    char path[V1_PATH_MAX];
    char etag[ETAG_MAX]; // "" = none
    int64_t stat_rid, list_rid, read_rid;
    int list_limit;
    struct v1_range range;
    char type[V1_MIME_MAX];
    bool streaming;
    uint64_t left; // bytes still to come
};

static void get_free(struct v1_get *g)
{
    bridge_link_close(g->link);
    v1_deadline_free(g->deadline);
    free(g);
}

static void get_abort(struct v1_get *g)
{
    http_stream_abort(g->r); // the client must not take half a file for a whole one
    get_free(g);
}

static void get_fail(struct v1_get *g, const struct ck_err *err)
{
    if (g->streaming) {
        get_abort(g);
        return;
    }
    v1_reply_err(g->r, err);
    get_free(g);
}

static void get_op(struct v1_get *g, json_t *op, int64_t *rid)
{
    ck_name_set(op, "path", g->path);
    v1_deadline_arm(g->deadline);
    bridge_link_op(g->link, op, NULL, 0, rid);
}

// --- folders ---------------------------------------------------------------------------------------
// Where an entry is found whose name a client cannot make a URL of, as it is not UTF-8.
static void add_url(const struct v1_get *g, const json_t *from, json_t *entry)
{
    char name[CK_NAME_MAX];
    CK_CLEAN_BUF struct ck_buf url = CK_BUF_INIT;
    const json_t *raw = json_object_get(from, "name_raw_hex");
    if (!raw || ck_name_get(from, "name", name, NULL))
        return;
    if (ck_buf_printf(&url, "%s/v1/sessions/%s/files/", http_base_url(g->r), http_param(g->r, "id")) ||
        v1_path_to_url(g->path, &url) || (g->path[1] && ck_buf_add_str(&url, "/")) || v1_path_to_url(name, &url))
        return;
    json_object_set(entry, "name_raw_hex", (json_t *)(uintptr_t)raw);
    json_object_set_new(entry, "url", json_stringn((const char *)url.p, url.n));
}

static void reply_list(struct v1_get *g, const json_t *re)
{
    json_t *list = json_array(), *e, *out = json_object();
    size_t i;
    json_array_foreach (json_object_get(re, "entries"), i, e) {
        char modified[CK_ISO8601_MAX];
        ck_iso8601_us(ck_json_int(e, "mtime_ns", 0, NULL) / 1000, modified);
        json_t *entry = json_pack("{s:s,s:s,s:I,s:s}", "name", ck_json_str(e, "name", "", NULL), "type",
                                  ck_json_str(e, "type", "other", NULL), "size",
                                  (json_int_t)ck_json_int(e, "size", 0, NULL), "modified_at", modified);
        add_url(g, e, entry);
        json_array_append_new(list, entry);
    }
    ck_name_set(out, "path", g->path);
    json_object_set_new(out, "type", json_string("dir"));
    json_object_set_new(out, "entries", list);
    json_object_set_new(out, "truncated", json_boolean(ck_json_bool(re, "truncated", false, NULL)));
    http_header_add(g->r, "Cache-Control", "no-store");
    http_reply_json(g->r, 200, out);
    get_free(g);
}

static void ask_for_list(struct v1_get *g)
{
    get_op(g, json_pack("{s:s,s:i}", "op", "file_list", "limit", g->list_limit), &g->list_rid);
}

// Names are so long that the answer did not fit: fewer of them do.
static bool list_again(struct v1_get *g, const struct ck_err *err)
{
    if (strcmp(err->reason, "answer_too_large") || g->list_limit / 4 < LIST_MIN)
        return false;
    g->list_limit /= 4;
    ask_for_list(g);
    return true;
}

static void list_folder(struct v1_get *g)
{
    if (http_query(g->r, "archive")) {
        struct session *s = v1_session(g->r, true);
        http_on_gone(g->r, NULL);
        if (s)
            v1_tar_get(g->r, s, g->path);
        get_free(g);
        return;
    }
    g->list_limit = LIST_MAX;
    ask_for_list(g);
}

// --- files -----------------------------------------------------------------------------------------
static void add_headers(struct v1_get *g, const json_t *stat)
{
    char date[V1_HTTP_DATE_MAX], quoted[ETAG_MAX + 2];
    v1_http_date(ck_json_int(stat, "mtime_ns", 0, NULL) / NS_PER_S, date);
    http_header_add(g->r, "Last-Modified", date);
    if (g->etag[0]) {
        snprintf(quoted, sizeof quoted, "\"%s\"", g->etag);
        http_header_add(g->r, "ETag", quoted);
    }
    http_header_add(g->r, "Cache-Control", "private, no-cache");
    http_header_add(g->r, "Accept-Ranges", "bytes");
    http_header_add(g->r, "Content-Security-Policy", "sandbox; default-src 'none'");
    struct ck_buf b = CK_BUF_INIT;
    bool attachment = !v1_mime_inert(g->type) || http_query(g->r, "download");
    if (!v1_disposition(attachment, v1_path_name(g->path), &b) && !ck_buf_add(&b, "", 1))
        http_header_add(g->r, "Content-Disposition", (const char *)b.p);
    ck_buf_free(&b);
}

// The client's conditions. 0 = go on, else the status to answer with.
static int conditions(const struct v1_get *g, int64_t mtime_s)
{
    const char *match = http_header_in(g->r, "If-Match"), *none = http_header_in(g->r, "If-None-Match");
    if (match && !v1_etag_listed(match, g->etag, false))
        return 412;
    if (none)
        return v1_etag_listed(none, g->etag, true) ? 304 : 0;
    int64_t since = v1_http_date_parse(http_header_in(g->r, "If-Modified-Since"));
    return since >= 0 && mtime_s <= since ? 304 : 0;
}

// May the Range header be used? If-Range names the version that the client has a part of.
static bool range_allowed(const struct v1_get *g, int64_t mtime_s)
{
    const char *if_range = http_header_in(g->r, "If-Range");
    return !if_range || v1_etag_listed(if_range, g->etag, false) || v1_http_date_parse(if_range) == mtime_s;
}

static void answer_whole_without_body(struct v1_get *g, int64_t size)
{
    http_stream_begin(g->r, 200, g->type, size);
    http_stream_end(g->r);
    get_free(g);
}

static void start_read(struct v1_get *g, uint64_t size)
{
    if (g->range.kind == V1_RANGE_PART) {
        char value[96];
        snprintf(value, sizeof value, "bytes %llu-%llu/%llu", (unsigned long long)g->range.first,
                 (unsigned long long)(g->range.first + g->range.length - 1), (unsigned long long)size);
        http_header_add(g->r, "Content-Range", value);
    }
    json_t *op = json_pack("{s:s,s:I,s:I}", "op", "file_read", "offset", (json_int_t)g->range.first, "length",
                           (json_int_t)g->range.length);
    if (g->etag[0])
        json_object_set_new(op, "etag", json_string(g->etag));
    get_op(g, op, &g->read_rid);
}

static void have_file(struct v1_get *g, const json_t *stat)
{
    uint64_t size = (uint64_t)ck_json_int(stat, "size", 0, NULL);
    int64_t mtime_s = ck_json_int(stat, "mtime_ns", 0, NULL) / NS_PER_S;
    v1_mime_header(ck_json_str(stat, "mime", NULL, NULL), g->type);
    v1_etag_clean(ck_json_str(stat, "etag", NULL, NULL), g->etag, sizeof g->etag);
    int status = conditions(g, mtime_s);
    if (status == 412) {
        http_reply_error(g->r, 412, "precondition_failed", "the file is not the version that If-Match names");
        get_free(g);
        return;
    }
    const char *range = range_allowed(g, mtime_s) ? http_header_in(g->r, "Range") : NULL;
    bool head = http_method(g->r) == HTTP_HEAD;
    g->range = v1_range_parse(head ? NULL : range, size);
    if (status != 304 && g->range.kind == V1_RANGE_UNSATISFIABLE) {
        char value[64];
        snprintf(value, sizeof value, "bytes */%llu", (unsigned long long)size);
        http_header_add(g->r, "Content-Range", value);
        http_reply_error(g->r, 416, "bad_range", "the range begins behind the end of the file (%llu bytes)",
                         (unsigned long long)size);
        get_free(g);
        return;
    }
    add_headers(g, stat);
    if (status == 304) {
        http_reply_empty(g->r, 304);
        get_free(g);
    } else if (head || !size) {
        answer_whole_without_body(g, (int64_t)size);
    } else {
        start_read(g, size);
    }
}

static void on_stat(struct v1_get *g, const json_t *re)
{
    const json_t *stat = json_object_get(re, "stat");
    const char *type = ck_json_str(stat, "type", "other", NULL);
    struct ck_err err = CK_ERR_INIT;
    if (!strcmp(type, "dir")) {
        list_folder(g);
    } else if (http_query(g->r, "archive")) {
        ck_fail(&err, 409, "not_a_folder", "only a folder comes as an archive: fetch the file as it is");
        get_fail(g, &err);
    } else if (!strcmp(type, "file")) {
        have_file(g, stat);
    } else {
        ck_fail(&err, 403, "not_a_file", "this is neither a regular file nor a folder");
        get_fail(g, &err);
    }
}

static void on_drain(struct http_req *r, void *user)
{
    (void)r;
    struct v1_get *g = user;
    v1_deadline_arm(g->deadline);
    bridge_link_resume(g->link);
}

static void on_read(struct v1_get *g, const json_t *re, const struct ck_frame *f)
{
    if (!g->streaming) {
        int64_t length = ck_json_int(re, "length", -1, NULL);
        if (length < 0 || (uint64_t)length != g->range.length) {
            struct ck_err err = CK_ERR_INIT;
            ck_fail(&err, 409, "file_changed", "the file changed while it was read: try again");
            get_fail(g, &err);
            return;
        }
        g->left = (uint64_t)length;
        g->streaming = true;
        http_stream_begin(g->r, g->range.kind == V1_RANGE_PART ? 206 : 200, g->type, length);
        http_on_drain(g->r, on_drain);
        return;
    }
    struct ck_slice piece = f->nparts > 1 ? ck_frame_part(f, 1) : ck_slice("", 0);
    bool last = ck_json_bool(re, "last", false, NULL);
    if (piece.n > g->left || (last && piece.n != g->left)) {
        get_abort(g); // more or less than was promised
        return;
    }
    g->left -= piece.n;
    int full = http_stream_write(g->r, piece.p, piece.n);
    if (last) {
        http_stream_end(g->r);
        get_free(g);
    } else if (full) {
        v1_deadline_stop(g->deadline);
        bridge_link_pause(g->link);
    } else {
        v1_deadline_arm(g->deadline);
    }
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct v1_get *g = user;
    struct ck_err err = CK_ERR_INIT;
    int64_t rid = ck_json_int(h, "re", -1, NULL);
    bool failed = bridge_error(h, &err);
    if (failed && rid == g->list_rid && list_again(g, &err))
        return;
    if (failed)
        get_fail(g, &err);
    else if (rid == g->stat_rid)
        on_stat(g, h);
    else if (rid == g->list_rid)
        reply_list(g, h);
    else if (rid == g->read_rid)
        on_read(g, h, f);
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_get *g = user;
    g->link = NULL;
    get_fail(g, err);
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static void expired(void *user, const struct ck_err *err) { get_fail(user, err); }

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    get_free(user);
}

void v1_files_get(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    struct ck_err err = CK_ERR_INIT;
    struct v1_get *g = s ? calloc(1, sizeof *g) : NULL;
    if (!s)
        return;
    if (!g) {
        http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
        return;
    }
    if (v1_request_path(r, g->path)) {
        free(g);
        return;
    }
    g->r = r;
    g->stat_rid = g->list_rid = g->read_rid = -2;
    g->link = session_link_open(s, SESSION_LINK_REQUEST, &link_events, g, &err);
    if (!g->link) {
        get_fail(g, &err);
        return;
    }
    g->deadline = v1_deadline_new(http_gateway(r)->loop, expired, g);
    http_set_user(r, g);
    http_on_gone(r, on_gone);
    get_op(g, json_pack("{s:s}", "op", "file_stat"), &g->stat_rid);
}
