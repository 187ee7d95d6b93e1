// Jupyter's wire format, both ways. What comes in is a stranger's: counts and sizes are checked
// before anything is looked at, and the signature before anything is believed. Must never keep or
// print a key.
#include "kernel-bridge/jwire.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "kernel-bridge/jscan.h"

#include <assert.h>

#define DELIMITER "<IDS|MSG>"

const char *const jw_channel_names[] = {"shell", "control", "stdin", "iopub"};
static_assert(sizeof jw_channel_names / sizeof *jw_channel_names == JW_CHANNELS, "a name for each channel");

bool jw_channel_from_name(const char *name, enum jw_channel *out)
{
    for (unsigned i = 0; i < JW_CHANNELS; i++)
        if (!strcmp(name, jw_channel_names[i])) {
            *out = (enum jw_channel)i;
            return true;
        }
    return false;
}

int jw_sign(struct ck_slice key, const struct ck_slice part[4], char *out)
{
    uint8_t mac[CK_SHA256_LEN];
    out[0] = 0;
    if (!key.n)
        return 0;
    if (ck_hmac_sha256(key, part, 4, mac))
        return -1;
    ck_hex(mac, sizeof mac, out);
    return 0;
}

static int check_signature(struct ck_slice given, struct ck_slice key, const struct ck_slice part[4],
                           struct ck_err *err)
{
    char want[JW_SIG_HEX];
    if (jw_sign(key, part, want))
        return ck_fail(err, 500, "no_crypto", "could not compute a signature");
    if (given.n != strlen(want) || !ck_equal_const_time(given.p, want, given.n))
        return ck_fail(err, 400, "bad_signature", "message with a wrong signature");
    return 0;
}

int jw_parse(const struct ck_slice *parts, size_t nparts, struct ck_slice key, struct jw_msg *out, struct ck_err *err)
{
    if (nparts > JW_PARTS_MAX)
        return ck_fail(err, 400, "bad_message", "message of %zu parts, at most %d are taken", nparts, JW_PARTS_MAX);
    size_t d = 0;
    while (d < nparts && d <= JW_IDENTS_MAX && !ck_slice_is(parts[d], DELIMITER))
        d++;
    if (d >= nparts || d > JW_IDENTS_MAX || nparts - d < 6)
        return ck_fail(err, 400, "bad_message", "message without delimiter, signature and four parts");
    *out = (struct jw_msg){.buffers = parts + d + 6, .nbuffers = (uint32_t)(nparts - d - 6)};
    for (size_t i = 0; i < nparts; i++)
        out->bytes += parts[i].n;
    memcpy(out->part, parts + d + 2, sizeof out->part);
    if (out->part[JW_HEADER].n > JW_HEADER_MAX || out->part[JW_PARENT].n > JW_HEADER_MAX)
        return ck_fail(err, 400, "bad_message", "message header over %d bytes", JW_HEADER_MAX);
    return check_signature(parts[d + 1], key, out->part, err);
}

static bool is_object(struct ck_slice s)
{
    size_t i = 0;
    while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\t' || s.p[i] == '\n' || s.p[i] == '\r'))
        i++;
    return i < s.n && s.p[i] == '{';
}

// Valid JSON, if need be by leaving out what is nested deeper than anybody takes. *at: where it is bad.
static bool made_valid(struct jw_msg *m, int i, struct ck_buf *scratch, size_t *at)
{
    struct ck_buf cut = CK_BUF_INIT;
    size_t left_out;
    if (ck_json_valid(m->part[i].p, m->part[i].n, at))
        return true;
    if (jscan_prune(m->part[i], CK_JSON_DEPTH_MAX, &cut, &left_out) || !left_out ||
        !ck_json_valid(cut.p, cut.n, at)) {
        ck_buf_free(&cut);
        return false;
    }
    ck_buf_free(scratch);
    *scratch = cut;
    m->part[i] = ck_buf_slice(scratch);
    m->left_out += left_out;
    return true;
}

int jw_check(struct jw_msg *m, struct ck_buf scratch[4], struct ck_err *err)
{
    static const char *const names[] = {"header", "parent_header", "metadata", "content"};
    m->left_out = 0;
    for (int i = 0; i < 4; i++) {
        if (jscan_needs_repair(m->part[i])) {
            if (jscan_repair(m->part[i], &scratch[i]))
                return ck_fail(err, 500, "no_memory", "no memory to repair a message");
            m->part[i] = ck_buf_slice(&scratch[i]);
        }
        size_t at = 0;
        if (!is_object(m->part[i]) || !made_valid(m, i, &scratch[i], &at))
            return ck_fail(err, 400, "bad_message", "%s is not a JSON object (byte %zu)", names[i], at);
    }
    return 0;
}

void jw_read_head(struct ck_slice header, struct jw_head *out)
{
    struct jscan it = jscan_open(header);
    struct ck_slice k, v;
    *out = (struct jw_head){"", "", ""};
    while (jscan_next(&it, &k, &v)) {
        if (ck_slice_is(k, "msg_id"))
            jscan_str(v, out->msg_id, sizeof out->msg_id);
        else if (ck_slice_is(k, "session"))
            jscan_str(v, out->session, sizeof out->session);
        else if (ck_slice_is(k, "msg_type"))
            jscan_str(v, out->type, sizeof out->type);
    }
}

int jw_make_header(struct ck_buf *out, const char *msg_id, const char *session, const char *type, int64_t wall_us)
{
    char date[CK_ISO8601_MAX];
    ck_iso8601_us(wall_us, date);
    int bad = ck_buf_add_str(out, "{\"msg_id\":");
    bad |= ck_buf_add_json_str(out, msg_id, strlen(msg_id));
    bad |= ck_buf_add_str(out, ",\"session\":");
    bad |= ck_buf_add_json_str(out, session, strlen(session));
    bad |= ck_buf_add_str(out, ",\"username\":\"cellkeep\",\"date\":\"");
    bad |= ck_buf_add_str(out, date);
    bad |= ck_buf_add_str(out, "\",\"msg_type\":");
    bad |= ck_buf_add_json_str(out, type, strlen(type));
    bad |= ck_buf_add_str(out, ",\"version\":\"5.3\"}");
    return bad ? -1 : 0;
}
