// A kernel's messages on any bytes: the multipart codec, the repair of text, field access, the
// tracker and the finished cell. Input: parts separated by the byte 0xFE; the first byte chooses the
// channel and whether the message is signed rightly.
#include "common/ck_json.h"
#include "kernel-bridge/celljson.h"
#include "kernel-bridge/evbuild.h"
#include "kernel-bridge/jscan.h"
#include "kernel-bridge/tracker.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char cell_id[] = "c";

static void check_repair(struct ck_slice s)
{
    CK_CLEAN_BUF struct ck_buf once = CK_BUF_INIT;
    if (jscan_repair(s, &once) || jscan_needs_repair(ck_buf_slice(&once)))
        abort(); // what was repaired needs no repair
}

static void follow(const struct jw_msg *m, enum jw_channel ch)
{
    struct jw_head head, parent;
    struct trk_step step;
    struct trk_cell *c;
    struct trk_spec spec = {.id = cell_id, .url_prefix = "", .code = ck_slice_str("1")};
    struct ck_err err = CK_ERR_INIT;
    struct tracker *t = trk_new(4, 4096);
    jw_read_head(m->part[JW_HEADER], &head);
    jw_read_head(m->part[JW_PARENT], &parent);
    struct evb_msg e = {ch, &head, &parent, "", m};
    struct ck_blob *frame = evb_message(1, 1, &e);
    struct ck_frame f;
    size_t used;
    if (frame && (ck_frame_parse(frame->p, frame->n, frame->n, &f, &used, &err) ||
                  !ck_json_valid(ck_frame_part(&f, 0).p, ck_frame_part(&f, 0).n, NULL)))
        abort();
    ck_blob_unref(frame);
    trk_queue(t, &spec, &c, &err);
    trk_take(t, c, 1000);
    c->phase = TRK_RUNNING;
    memcpy(parent.msg_id, cell_id, sizeof cell_id); // else nothing would reach the cell
    for (int i = 0; i < 3; i++)
        trk_message(t, ch, &head, &parent, m->part[JW_CONTENT], 1000, &step);
    CK_CLEAN_BUF struct ck_buf json = CK_BUF_INIT;
    struct cell_facts facts = {.id = cell_id, .status = trk_status(c), .out = &c->out, .artifacts = ck_slice_str("[]"),
                               .ended_by = "", .detail = ""};
    if (cell_json(&facts, &json) || !ck_json_valid(json.p, json.n, NULL))
        abort();
    trk_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ck_slice part[JW_PARTS_MAX + 10];
    size_t n = 0;
    struct ck_err err = CK_ERR_INIT;
    struct jw_msg m;
    if (size < 1)
        return 0;
    const uint8_t *at = data + 1, *end = data + size;
    while (n < JW_PARTS_MAX + 10) {
        const uint8_t *sep = memchr(at, 0xFE, (size_t)(end - at));
        part[n++] = ck_slice(at, (size_t)((sep ? sep : end) - at));
        if (!sep)
            break;
        at = sep + 1;
    }
    char sig[JW_SIG_HEX];
    if ((data[0] & 4) && n >= 6) { // sign what stands where a message's parts stand after one identity
        jw_sign(ck_slice_str("k"), part + (n > 6 ? 3 : 2), sig);
        part[n > 6 ? 2 : 1] = ck_slice_str(sig);
        part[n > 6 ? 1 : 0] = ck_slice_str("<IDS|MSG>");
    }
    check_repair(ck_slice(data, size));
    if (jw_parse(part, n, ck_slice_str("k"), &m, &err))
        return 0;
    struct ck_buf scratch[4] = {CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT};
    if (!jw_check(&m, scratch, &err))
        follow(&m, (enum jw_channel)(data[0] & 3));
    for (int i = 0; i < 4; i++)
        ck_buf_free(&scratch[i]);
    return 0;
}
