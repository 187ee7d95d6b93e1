// The pictures go into a temporary file of the guest (as an archive does, v1_tar.c), then a program there
// reads it and writes the smaller ones to its standard output. Every step that fails leaves the pictures
// as they are: a cell is never lost over this.
#include "gateway/picture_shrink.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "gateway/life.h"
#include "gateway/v1.h"

#include <stdlib.h>

#define COMMAND_MS 20000
#define PIECE (256 * 1024)

// Its limits are there so that the user's kernel does not pay: the first process to go when memory is short
// is this one, and a picture of more than 2^25 pixels is not tried.
static const char script[] =
    "import io, os, resource, struct, sys\n"
    "with open('/proc/self/oom_score_adj', 'w') as f: f.write('1000')\n"
    "resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\n"
    "with open(sys.argv[1], 'rb') as f: packed = f.read()\n"
    "os.unlink(sys.argv[1])\n"
    "from PIL import Image\n"
    "edge, at = int(sys.argv[2]), 0\n"
    "while at < len(packed):\n"
    "    n, = struct.unpack_from('>I', packed, at)\n"
    "    small = b''\n"
    "    try:\n"
    "        im = Image.open(io.BytesIO(packed[at + 4:at + 4 + n]), formats=('PNG', 'JPEG'))\n"
    "        if im.width * im.height <= 1 << 25:\n"
    "            kind = im.format\n"
    "            keep = {k: im.info[k] for k in ('icc_profile', 'exif') if im.info.get(k)}\n"
    "            if kind == 'JPEG': keep['quality'] = 90\n"
    "            if kind == 'PNG' and im.mode in ('P', '1'): im = im.convert('RGBA' if im.mode == 'P' else 'L')\n"
    "            im.thumbnail((edge, edge), Image.LANCZOS)\n"
    "            out = io.BytesIO()\n"
    "            im.save(out, kind, **keep)\n"
    "            small = out.getvalue()\n"
    "    except Exception: pass\n"
    "    sys.stdout.buffer.write(struct.pack('>I', len(small)) + small)\n"
    "    at += 4 + n\n";

struct picture_shrink {
    uv_timer_t timer; // its close frees
    struct session *s; // ref
    struct bridge_link *link;
    struct pictures *set;
    picture_shrink_done done;
    void *user;
    char file[64];
    int64_t file_rid, command_rid;
    bool made; // the file may be there
    struct ck_buf packed, answer;
};

static void timer_closed(uv_handle_t *h) { free(h->data); }

static void removed(void *user, const json_t *re, const struct ck_frame *f, const struct ck_err *err)
{
    (void)user;
    (void)re;
    (void)f;
    (void)err; // the program has removed it already, when all went well
}

static void finish(struct picture_shrink *k, const char *why)
{
    bridge_link_close(k->link);
    if (k->made && k->s->state != SESSION_DEAD && !k->s->deleted)
        session_call(k->s, v1_path_op("file_remove", "path", k->file), V1_CALL_TIMEOUT_MS, removed, NULL);
    k->done(k->user, why);
    session_unref(k->s);
    ck_buf_free(&k->packed);
    ck_buf_free(&k->answer);
    uv_close((uv_handle_t *)&k->timer, timer_closed);
}

static void run(struct picture_shrink *k)
{
    char edge[16];
    snprintf(edge, sizeof edge, "%u", k->set->edge);
    json_t *op = json_pack("{s:s,s:[s,s,s,s,s,s],s:s,s:I,s:s}", "op", "command", "argv", "/usr/bin/python3", "-I",
                           "-c", script, k->file, edge, "cwd", "/", "timeout_ms", (json_int_t)COMMAND_MS, "url_prefix",
                           "");
    bridge_link_op(k->link, op, NULL, 0, &k->command_rid);
}

// All at once: PICTURES_BYTES_MAX is less than the queue of a link may hold.
static void send_packed(struct picture_shrink *k)
{
    int rc = 0;
    json_int_t rid = (json_int_t)k->file_rid;
    for (size_t at = 0; rc >= 0 && at < k->packed.n; at += PIECE) {
        struct ck_slice piece = {k->packed.p + at, k->packed.n - at < PIECE ? k->packed.n - at : PIECE};
        rc = bridge_link_op(k->link, json_pack("{s:s,s:I}", "op", "data", "rid", rid), &piece, 1, NULL);
    }
    if (rc >= 0)
        bridge_link_op(k->link, json_pack("{s:s,s:I}", "op", "data_end", "rid", rid), NULL, 0, NULL);
    ck_buf_free(&k->packed);
    if (rc < 0)
        finish(k, "the gateway is out of memory");
}

static void on_exit_record(struct picture_shrink *k, const json_t *exit)
{
    if (ck_json_int(exit, "exit_code", 1, NULL)) {
        finish(k, ck_json_bool(exit, "timed_out", false, NULL) ? "shrinking it took too long"
                                                               : "the program that shrinks pictures failed");
        return;
    }
    k->made = false;
    pictures_take(k->set, ck_buf_slice(&k->answer));
    finish(k, "it could not be read, or is too large to be shrunk");
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct picture_shrink *k = user;
    struct ck_err err = CK_ERR_INIT;
    int64_t rid = ck_json_int(h, "re", -1, NULL);
    const char *out = ck_json_str(h, "out", NULL, NULL);
    if (bridge_error(h, &err)) {
        finish(k, err.text);
    } else if (rid == k->file_rid && json_object_get(h, "go")) {
        k->made = true;
        send_packed(k);
    } else if (rid == k->file_rid && json_object_get(h, "stat")) {
        run(k);
    } else if (rid == k->command_rid && out && !strcmp(out, "stdout")) {
        struct ck_slice piece = f->nparts > 1 ? ck_frame_part(f, 1) : ck_slice("", 0);
        if (ck_buf_add(&k->answer, piece.p, piece.n))
            finish(k, "what came back is too large");
    } else if (rid == k->command_rid && json_object_get(h, "exit")) {
        on_exit_record(k, json_object_get(h, "exit"));
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct picture_shrink *k = user;
    k->link = NULL;
    finish(k, err->text);
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static void on_timer(uv_timer_t *t) { finish(t->data, "shrinking it took too long"); }

static void on_no_link(uv_timer_t *t) { finish(t->data, "the session cannot be reached any more"); }

void picture_shrink_hurry(struct picture_shrink *k)
{
    if (k)
        finish(k, "nobody waited for it");
}

struct picture_shrink *picture_shrink_start(struct gateway *gw, struct session *s, struct pictures *set,
                                            picture_shrink_done done, void *user)
{
    struct picture_shrink *k = calloc(1, sizeof *k);
    struct ck_err err = CK_ERR_INIT;
    char id[CK_UUID_MAX];
    if (!k || pictures_pack(set, &k->packed)) {
        if (k)
            ck_buf_free(&k->packed);
        free(k);
        return NULL;
    }
    ck_uuid4(id);
    snprintf(k->file, sizeof k->file, "/var/tmp/.cellkeep-%s", id);
    k->s = session_ref(s);
    k->set = set;
    k->done = done;
    k->user = user;
    k->answer.cap = PICTURES_BYTES_MAX + 4 * PICTURES_MAX;
    k->file_rid = k->command_rid = -2;
    uv_timer_init(gw->loop, &k->timer);
    k->timer.data = k;
    if (s->state != SESSION_DEAD && !s->deleted)
        k->link = session_link_open(s, SESSION_LINK_REQUEST, &link_events, k, &err);
    uv_timer_start(&k->timer, k->link ? on_timer : on_no_link, k->link ? PICTURE_SHRINK_MS : 0, 0);
    if (k->link)
        bridge_link_op(k->link, v1_path_op("file_write", "path", k->file), NULL, 0, &k->file_rid);
    return k;
}
