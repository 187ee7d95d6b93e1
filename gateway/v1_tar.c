// A folder as one tar archive: GET ?archive=tar and PUT ?archive=tar of /v1/sessions/{id}/files/{path}.
//
// tar itself runs inside the guest, as the guest's user: an archive is bytes of strangers, and the
// gateway never reads it. It lies in a temporary file of the guest meanwhile: so a download has a length
// and flows at the client's pace, and an upload that breaks off has unpacked nothing.
#include "gateway/v1.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_utf8.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_mime.h"

#include <stdio.h>
#include <stdlib.h>

#define TAR_MS (15 * 60 * 1000) // of packing, and of unpacking
#define SAID_MAX 4096           // of what tar said
#define EXIT_CHANGED 1          // tar: a file changed while it was read; it is in the archive all the same
enum { EXIT_OUTSIDE = 64, EXIT_NO_ARCHIVE = 65, EXIT_NO_FOLDER = 66 };

// $1: the archive, $2: the folder. What a gateway that was killed left behind goes along the way.
#define SWEEP "find /var/tmp -maxdepth 1 -name '.cellkeep-*' -mmin +120 -delete 2>/dev/null; "
static const char pack_script[] = SWEEP "exec tar -C \"$(dirname \"$2\")\" -cf \"$1\" -- \"$(basename \"$2\")\"";
static const char unpack_script[] =
    SWEEP "trap 'rm -f \"$1\"' EXIT\n"
    "tar -tf \"$1\" >/dev/null || exit 65\n"
    // One line a name, as tar quotes line breaks. tar would leave such members out, and say that it is fine.
    "if tar -tf \"$1\" 2>/dev/null | grep -Eq '^/|(^|/)[.][.](/|$)'; then exit 64; fi\n"
    "{ mkdir -p \"$2\" && [ -d \"$2\" ]; } || exit 66\n"
    "tar -C \"$2\" -xf \"$1\" --no-same-owner --no-overwrite-dir";

struct v1_tar {
    struct http_req *r;
    struct session *s; // ref
    struct bridge_link *link;
    struct v1_deadline *deadline;
    char path[V1_PATH_MAX], archive[64];
    bool up, made, streaming, paused;
    int64_t command_rid, file_rid, stat_rid;
    struct ck_buf said; // the first of tar's stderr
    uint64_t left;
};

static void removed(void *user, const json_t *re, const struct ck_frame *f, const struct ck_err *err)
{
    (void)user;
    (void)re;
    (void)f;
    (void)err; // gone already, or swept away by the next one
}

static void tar_free(struct v1_tar *t)
{
    bridge_link_close(t->link);
    if (t->made && t->s->state != SESSION_DEAD && !t->s->deleted)
        session_call(t->s, v1_path_op("file_remove", "path", t->archive), V1_CALL_TIMEOUT_MS, removed, NULL);
    v1_deadline_free(t->deadline);
    session_unref(t->s);
    ck_buf_free(&t->said);
    free(t);
}

static void tar_fail(struct v1_tar *t, const struct ck_err *err)
{
    if (t->streaming)
        http_stream_abort(t->r); // half an archive must not pass for a whole one
    else
        v1_reply_err(t->r, err);
    tar_free(t);
}

static void run_tar(struct v1_tar *t)
{
    const char *script = t->up ? unpack_script : pack_script;
    json_t *op = json_pack("{s:s,s:[s,s,s,s,s,s],s:s,s:I,s:s}", "op", "command", "argv", "sh", "-c", script, "sh",
                           t->archive, t->path, "cwd", "/", "timeout_ms", (json_int_t)TAR_MS, "url_prefix", "");
    t->made = true;
    v1_deadline_arm_after(t->deadline, TAR_MS + session_wait_ms(t->s));
    bridge_link_op(t->link, op, NULL, 0, &t->command_rid);
}

// --- what tar answers ----------------------------------------------------------------------------------

static bool said(const struct v1_tar *t, const char *text)
{
    return t->said.n && memmem(t->said.p, t->said.n, text, strlen(text));
}

// Its first complaint, without the name of the program.
static void first_line(const struct v1_tar *t, char *out, size_t room)
{
    const uint8_t *p = t->said.n ? t->said.p : (const uint8_t *)"tar failed without saying why";
    size_t n = t->said.n ? t->said.n : strlen((const char *)p);
    const uint8_t *end = memchr(p, '\n', n);
    n = end ? (size_t)(end - p) : n;
    if (n > 5 && !memcmp(p, "tar: ", 5)) {
        p += 5;
        n -= 5;
    }
    snprintf(out, room, "%.*s", (int)(n < room ? n : room - 1), (const char *)p);
    size_t bad;
    while (!ck_utf8_valid(out, strlen(out), &bad))
        out[bad] = '?';
}

static int outcome(const struct v1_tar *t, int64_t code, bool timed_out, struct ck_err *err)
{
    char line[300];
    if (!code || (code == EXIT_CHANGED && !t->up))
        return 0;
    first_line(t, line, sizeof line);
    if (timed_out)
        return ck_fail(err, 504, "session_timeout", "tar took longer than %d minutes", TAR_MS / 60000);
    if (said(t, "No space left"))
        return ck_fail(err, 507, "disk_full", "the session's disk is full: %s", line);
    if (code == EXIT_OUTSIDE)
        return ck_fail(err, 403, "path_outside",
                       "a name in the archive is absolute or has \"..\": nothing was unpacked");
    if (code == EXIT_NO_FOLDER)
        return ck_fail(err, 409, "not_a_folder", "the archive can be unpacked into a folder only: %s", line);
    if (said(t, "Permission denied"))
        return ck_fail(err, 403, "forbidden", "the session's user may not do that: %s", line);
    if (t->up && (code == EXIT_NO_ARCHIVE || said(t, "not look like a tar") || said(t, "Unexpected EOF")))
        return ck_fail(err, 400, "bad_archive", "the body is no whole tar archive: %s", line);
    return ck_fail(err, t->up ? 400 : 500, t->up ? "bad_archive" : "tar_failed", "%s", line);
}

static void on_tar_exit(struct v1_tar *t, const json_t *exit)
{
    struct ck_err err = CK_ERR_INIT;
    v1_deadline_arm(t->deadline);
    if (outcome(t, ck_json_int(exit, "exit_code", 1, NULL), ck_json_bool(exit, "timed_out", false, NULL), &err)) {
        tar_fail(t, &err);
    } else if (t->up) {
        bridge_link_op(t->link, v1_path_op("file_stat", "path", t->path), NULL, 0, &t->stat_rid);
    } else {
        json_t *op = v1_path_op("file_read", "path", t->archive);
        json_object_set_new(op, "offset", json_integer(0));
        json_object_set_new(op, "length", json_integer(-1));
        bridge_link_op(t->link, op, NULL, 0, &t->file_rid);
    }
}

static void on_command(struct v1_tar *t, const json_t *h, const struct ck_frame *f)
{
    const char *out = ck_json_str(h, "out", NULL, NULL);
    const json_t *exit = json_object_get(h, "exit");
    struct ck_slice piece = f->nparts > 1 ? ck_frame_part(f, 1) : ck_slice("", 0);
    if (exit)
        on_tar_exit(t, exit);
    else if (out && !strcmp(out, "stderr") && t->said.n < SAID_MAX)
        ck_buf_add(&t->said, piece.p, piece.n < SAID_MAX - t->said.n ? piece.n : SAID_MAX - t->said.n);
}

// --- down ------------------------------------------------------------------------------------------------

static void on_drain(struct http_req *r, void *user)
{
    (void)r;
    struct v1_tar *t = user;
    v1_deadline_arm(t->deadline);
    bridge_link_resume(t->link);
}

static void add_headers(struct http_req *r, const char *path)
{
    char name[V1_NAME_MAX + 16];
    struct ck_buf b = CK_BUF_INIT;
    snprintf(name, sizeof name, "%s.tar", strcmp(path, "/") ? v1_path_name(path) : "root");
    if (!v1_disposition(true, name, &b) && !ck_buf_add(&b, "", 1))
        http_header_add(r, "Content-Disposition", (const char *)b.p);
    ck_buf_free(&b);
    http_header_add(r, "Cache-Control", "no-store");
}

static void begin_body(struct v1_tar *t, const json_t *h)
{
    int64_t length = ck_json_int(h, "length", -1, NULL);
    struct ck_err err = CK_ERR_INIT;
    if (length <= 0) {
        ck_fail(&err, 500, "tar_failed", "the archive is empty");
        tar_fail(t, &err);
        return;
    }
    t->left = (uint64_t)length;
    t->streaming = true;
    add_headers(t->r, t->path);
    http_stream_begin(t->r, 200, "application/x-tar", length);
    http_on_drain(t->r, on_drain);
}

static void on_piece(struct v1_tar *t, const json_t *h, const struct ck_frame *f)
{
    struct ck_slice piece = f->nparts > 1 ? ck_frame_part(f, 1) : ck_slice("", 0);
    bool last = ck_json_bool(h, "last", false, NULL);
    struct ck_err err = CK_ERR_INIT;
    if (piece.n > t->left || (last && piece.n != t->left)) {
        tar_fail(t, &err); // more or less than was promised
        return;
    }
    t->left -= piece.n;
    int full = http_stream_write(t->r, piece.p, piece.n);
    if (last) {
        http_stream_end(t->r);
        tar_free(t);
    } else if (full) {
        v1_deadline_stop(t->deadline);
        bridge_link_pause(t->link);
    } else {
        v1_deadline_arm(t->deadline);
    }
}

// --- up --------------------------------------------------------------------------------------------------

static void on_link_drain(struct bridge_link *l, void *user)
{
    (void)l;
    struct v1_tar *t = user;
    bool was = t->paused;
    t->paused = false;
    if (was) {
        v1_deadline_stop(t->deadline);
        http_body_resume(t->r);
    }
}

static void on_data(struct http_req *r, void *user, struct ck_slice piece)
{
    struct v1_tar *t = user;
    struct ck_err err = CK_ERR_INIT;
    int rc =
        bridge_link_op(t->link, json_pack("{s:s,s:I}", "op", "data", "rid", (json_int_t)t->file_rid), &piece, 1, NULL);
    if (rc < 0) {
        ck_fail(&err, 503, "no_memory", "the gateway is out of memory: try again");
        tar_fail(t, &err);
    } else if (rc > 0) {
        t->paused = true;
        v1_deadline_arm(t->deadline);
        http_body_pause(r);
    }
}

static void on_end(struct http_req *r, void *user)
{
    (void)r;
    struct v1_tar *t = user;
    v1_deadline_arm(t->deadline);
    bridge_link_op(t->link, json_pack("{s:s,s:I}", "op", "data_end", "rid", (json_int_t)t->file_rid), NULL, 0, NULL);
}

static const struct http_body_events body_events = {.on_data = on_data, .on_end = on_end};

// Of the archive that goes up: "go", and then that it is there.
static void on_upload(struct v1_tar *t, const json_t *h)
{
    if (json_object_get(h, "go")) {
        v1_deadline_stop(t->deadline);
        http_body_resume(t->r);
    } else if (json_object_get(h, "stat")) {
        run_tar(t);
    }
}

// --- the link --------------------------------------------------------------------------------------------

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct v1_tar *t = user;
    struct ck_err err = CK_ERR_INIT;
    int64_t rid = ck_json_int(h, "re", -1, NULL);
    if (bridge_error(h, &err)) {
        tar_fail(t, &err);
    } else if (rid == t->command_rid) {
        on_command(t, h, f);
    } else if (rid == t->stat_rid) {
        http_reply_json(t->r, 200, v1_stat_model(t->path, json_object_get(h, "stat")));
        tar_free(t);
    } else if (rid == t->file_rid && t->up) {
        on_upload(t, h);
    } else if (rid == t->file_rid && t->streaming) {
        on_piece(t, h, f);
    } else if (rid == t->file_rid) {
        begin_body(t, h);
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_tar *t = user;
    t->link = NULL;
    tar_fail(t, err);
}

static const struct bridge_link_events link_events = {
    .on_frame = on_frame, .on_drain = on_link_drain, .on_close = on_close};

static void expired(void *user, const struct ck_err *err) { tar_fail(user, err); }

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    tar_free(user);
}

// NULL after having answered.
static struct v1_tar *tar_new(struct http_req *r, struct session *s, const char *path, bool up)
{
    struct ck_err err = CK_ERR_INIT;
    char id[CK_UUID_MAX];
    struct v1_tar *t = NULL;
    if (strcmp(http_query(r, "archive"), "tar"))
        ck_fail(&err, 400, "bad_field", "archive must be \"tar\"");
    else if (!ck_utf8_valid(path, strlen(path), NULL))
        ck_fail(&err, 400, "bad_path", "a folder whose path is not UTF-8 cannot be packed: pack one above it");
    else if (up && v1_upload_fits(r, s, &err))
        t = NULL;
    else if (!(t = calloc(1, sizeof *t)))
        ck_fail(&err, 503, "no_memory", "the gateway is out of memory: try again");
    if (t) {
        ck_uuid4(id);
        *t = (struct v1_tar){.r = r, .s = session_ref(s), .up = up, .command_rid = -2, .file_rid = -2, .stat_rid = -2};
        snprintf(t->path, sizeof t->path, "%s", path);
        snprintf(t->archive, sizeof t->archive, "/var/tmp/.cellkeep-%s", id);
        t->link = session_link_open(s, SESSION_LINK_REQUEST, &link_events, t, &err);
    }
    if (!t || err.status) {
        v1_reply_err(r, &err);
        if (t)
            tar_free(t);
        return NULL;
    }
    session_touch(s);
    bridge_link_watch(t->link, true);
    t->deadline = v1_deadline_new(http_gateway(r)->loop, expired, t);
    http_set_user(r, t);
    http_on_gone(r, on_gone);
    return t;
}

void v1_tar_get(struct http_req *r, struct session *s, const char *path)
{
    if (http_method(r) == HTTP_HEAD) { // its length is known only when it has been packed
        add_headers(r, path);
        http_stream_begin(r, 200, "application/x-tar", -1);
        http_stream_end(r);
        return;
    }
    struct v1_tar *t = tar_new(r, s, path, false);
    if (t)
        run_tar(t);
}

void v1_tar_put(struct http_req *r, struct session *s, const char *path)
{
    struct v1_tar *t = tar_new(r, s, path, true);
    if (!t)
        return;
    v1_deadline_arm_after(t->deadline, session_wait_ms(s));
    http_body_read(r, &body_events, caps_bytes(&s->caps, CAP_UPLOAD_MB));
    http_body_pause(r); // until the guest is ready
    bridge_link_op(t->link, v1_path_op("file_write", "path", t->archive), NULL, 0, &t->file_rid);
}
