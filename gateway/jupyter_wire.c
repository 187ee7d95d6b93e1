// Codec of the Jupyter WebSocket frames. It is handed the bytes of strangers: every number is
// checked before it is used, and nothing here touches a socket, allocates while decoding, or
// changes a byte of the parts it passes on.
#include "gateway/jupyter_wire.h"

#include "common/ck_json.h"
#include "gateway/jupyter_json.h"

#include <assert.h>

static const char *const channel_names[] = {"shell", "control", "stdin", "iopub", ""};
static_assert(sizeof channel_names / sizeof *channel_names == JUP_CHANNELS + 1, "one name a channel");

enum { P_HEADER, P_PARENT, P_METADATA, P_CONTENT, P_BUFFERS };

const char *jup_channel_name(enum jup_channel ch) { return channel_names[ch <= JUP_CHANNELS ? ch : JUP_CHANNELS]; }

enum jup_channel jup_channel_of(struct ck_slice name)
{
    for (int i = 0; i < JUP_CHANNELS; i++) {
        if (ck_slice_is(name, channel_names[i]))
            return (enum jup_channel)i;
    }
    return JUP_CHANNEL_NONE;
}

static uint64_t get_le64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int malformed(struct ck_err *err, const char *what)
{
    return ck_fail(err, 400, "bad_message", "malformed Jupyter message: %s", what);
}

int jup_head_of(struct ck_slice header, struct jup_head *out, struct ck_err *err)
{
    *out = (struct jup_head){"", "", ""};
    struct jup_json_iter it;
    struct ck_slice key, value;
    jup_json_begin(&it, header);
    while (jup_json_next(&it, &key, &value) == 1) {
        if (ck_slice_is(key, "msg_id"))
            jup_json_text(value, out->msg_id, sizeof out->msg_id);
        else if (ck_slice_is(key, "msg_type"))
            jup_json_text(value, out->msg_type, sizeof out->msg_type);
        else if (ck_slice_is(key, "session"))
            jup_json_text(value, out->session, sizeof out->session);
    }
    if (out->msg_id[0] && out->msg_type[0] && out->session[0])
        return 0;
    return malformed(err, "the header needs msg_id, msg_type and session, each a string of 1 to 255 bytes");
}

// Fills in what may be missing and checks what goes on to the kernel. is_json: the parts were cut out
// of a text that is JSON as a whole.
static int check_parts(struct jup_in *m, bool is_json, struct ck_err *err)
{
    static const char *const names[] = {"header", "parent_header", "metadata", "content"};
    for (int i = 0; i < P_BUFFERS; i++) {
        struct ck_slice *s = &m->part[i];
        if (s->n == 0 || ck_slice_is(*s, "null"))
            *s = ck_slice("{}", 2);
        size_t at;
        if (!jup_json_is_object(*s) || (!is_json && !ck_json_valid(s->p, s->n, &at)))
            return ck_fail(err, 400, "bad_message", "malformed Jupyter message: the %s is not a JSON object", names[i]);
        // Early, so that a refusal of the rest can be answered under the message's own id.
        if (i == P_HEADER && jup_head_of(*s, &m->head, err))
            return -1;
    }
    return 0;
}

// The channel comes last, so that a wrong one can be told under the message's own id.
static int check(struct jup_in *m, bool is_json, struct ck_err *err)
{
    if (check_parts(m, is_json, err))
        return -1;
    return m->channel < JUP_IOPUB ? 0 : malformed(err, "clients may send on the channels shell, control and stdin only");
}

// Reads the offset table of v1. Slice i of the message is [off i, off i+1). Returns n, or 0.
static uint64_t v1_table(struct ck_slice f)
{
    if (f.n < 8)
        return 0;
    uint64_t n = get_le64(f.p);
    if (n < 6 || n - 2 > JUP_PARTS_MAX || 8 * (n + 1) > f.n)
        return 0;
    return n;
}

static int decode_v1(struct ck_slice f, struct jup_in *m, struct ck_err *err)
{
    uint64_t n = v1_table(f);
    if (!n)
        return malformed(err, "the offset table is short, or counts fewer than 5 or too many parts");
    uint64_t from = get_le64(f.p + 8);
    if (from < 8 * (n + 1))
        return malformed(err, "an offset points into the offset table");
    m->nparts = (uint32_t)(n - 2);
    struct ck_slice channel = ck_slice("", 0);
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t to = get_le64(f.p + 8 * (i + 2));
        if (to < from || to > f.n)
            return malformed(err, "offsets must not go back, nor past the end of the frame");
        struct ck_slice s = ck_slice(f.p + from, (size_t)(to - from));
        if (i == 0)
            channel = s;
        else
            m->part[i - 1] = s;
        from = to;
    }
    m->channel = channel.n ? jup_channel_of(channel) : JUP_SHELL;
    return check(m, false, err);
}

// The JSON object of a legacy frame. Buffers named inside it are ignored: `[]`, `{}` or absent.
static void legacy_fields(struct ck_slice json, struct jup_in *m, struct ck_slice *channel)
{
    struct jup_json_iter it;
    struct ck_slice key, value;
    jup_json_begin(&it, json);
    while (jup_json_next(&it, &key, &value) == 1) {
        if (ck_slice_is(key, "header"))
            m->part[P_HEADER] = value;
        else if (ck_slice_is(key, "parent_header"))
            m->part[P_PARENT] = value;
        else if (ck_slice_is(key, "metadata"))
            m->part[P_METADATA] = value;
        else if (ck_slice_is(key, "content"))
            m->part[P_CONTENT] = value;
        else if (ck_slice_is(key, "channel"))
            *channel = value;
    }
}

static enum jup_channel legacy_channel(struct ck_slice raw)
{
    char name[16];
    if (raw.n == 0 || ck_slice_is(raw, "null"))
        return JUP_SHELL;
    if (jup_json_text(raw, name, sizeof name))
        return JUP_CHANNEL_NONE;
    return name[0] ? jup_channel_of(ck_slice_str(name)) : JUP_SHELL;
}

static int decode_json(struct ck_slice json, struct jup_in *m, struct ck_err *err)
{
    size_t at;
    if (!ck_json_valid(json.p, json.n, &at))
        return ck_fail(err, 400, "bad_message", "malformed Jupyter message: JSON goes wrong at byte %zu", at);
    for (int i = 0; i < P_BUFFERS; i++)
        m->part[i] = ck_slice("", 0);
    struct ck_slice channel = ck_slice("", 0);
    legacy_fields(json, m, &channel);
    if (m->nparts < P_BUFFERS)
        m->nparts = P_BUFFERS;
    m->channel = legacy_channel(channel);
    return check(m, true, err);
}

static int decode_legacy_binary(struct ck_slice f, struct jup_in *m, struct ck_err *err)
{
    uint64_t n = f.n < 4 ? 0 : get_be32(f.p);
    if (n < 1 || n - 1 > JUP_PARTS_MAX - P_BUFFERS || 4 * (n + 1) > f.n)
        return malformed(err, "neither a JSON object nor a table of buffers that fits the frame");
    uint64_t from = get_be32(f.p + 4);
    if (from < 4 * (n + 1))
        return malformed(err, "an offset points into the offset table");
    struct ck_slice json = ck_slice("", 0);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = i + 1 < n ? get_be32(f.p + 4 * (i + 2)) : f.n;
        if (to < from || to > f.n)
            return malformed(err, "offsets must not go back, nor past the end of the frame");
        struct ck_slice s = ck_slice(f.p + from, (size_t)(to - from));
        if (i == 0)
            json = s;
        else
            m->part[P_BUFFERS + i - 1] = s;
        from = to;
    }
    m->nparts = (uint32_t)(P_BUFFERS + n - 1);
    return decode_json(json, m, err);
}

static bool looks_like_json(struct ck_slice f)
{
    size_t i = 0;
    while (i < f.n && jup_json_space(f.p[i]))
        i++;
    return i < f.n && f.p[i] == '{';
}

int jup_decode(enum jup_dialect dialect, bool binary, struct ck_slice frame, struct jup_in *out, struct ck_err *err)
{
    out->nparts = 0;
    out->channel = JUP_CHANNEL_NONE;
    out->head = (struct jup_head){"", "", ""};
    // A v1 frame with 123 offsets begins with '{' too, but it is never a text frame.
    if (looks_like_json(frame) && (dialect == JUP_LEGACY || !binary))
        return decode_json(frame, out, err);
    return dialect == JUP_V1 ? decode_v1(frame, out, err) : decode_legacy_binary(frame, out, err);
}

static bool peek_v1(struct ck_slice f, enum jup_channel *ch, struct ck_slice *header)
{
    uint64_t n = v1_table(f);
    if (!n)
        return false;
    uint64_t a = get_le64(f.p + 8), b = get_le64(f.p + 16), c = get_le64(f.p + 24);
    if (a < 8 * (n + 1) || b < a || c < b || c > f.n)
        return false;
    *ch = jup_channel_of(ck_slice(f.p + a, (size_t)(b - a)));
    *header = ck_slice(f.p + b, (size_t)(c - b));
    return true;
}

static bool peek_head(struct ck_slice header, struct jup_head *head)
{
    if (!jup_json_is_object(header) || !ck_json_valid(header.p, header.n, NULL))
        return false;
    return !jup_head_of(header, head, NULL) || head->msg_id[0];
}

bool jup_peek(enum jup_dialect dialect, bool binary, struct ck_slice f, enum jup_channel *ch, struct jup_head *head,
              struct ck_slice *header)
{
    *ch = JUP_SHELL;
    *header = ck_slice("", 0);
    if (dialect == JUP_V1 && (binary || !looks_like_json(f)))
        return peek_v1(f, ch, header) && peek_head(*header, head);
    if (!looks_like_json(f)) {
        uint32_t n = f.n < 8 ? 0 : get_be32(f.p);
        uint32_t from = n ? get_be32(f.p + 4) : 0;
        if (n < 1 || n > JUP_PARTS_MAX || from < 4 * (n + 1) || from > f.n)
            return false;
        f = ck_slice(f.p + from, f.n - from);
    }
    struct jup_json_iter it;
    struct ck_slice key, value;
    jup_json_begin(&it, f);
    while (jup_json_next(&it, &key, &value) == 1) {
        if (ck_slice_is(key, "header"))
            *header = value;
        else if (ck_slice_is(key, "channel"))
            *ch = legacy_channel(value);
    }
    return peek_head(*header, head);
}

// Writing happens twice through the same functions: once to count (p NULL), once into the blob.
struct sink {
    uint8_t *p;
    size_t n;
};

static void put(struct sink *k, const void *p, size_t n)
{
    if (k->p && n)
        memcpy(k->p + k->n, p, n);
    k->n += n;
}

static void put_str(struct sink *k, const char *s) { put(k, s, strlen(s)); }
static void put_slice(struct sink *k, struct ck_slice s) { put(k, s.p, s.n); }

static void put_le64(struct sink *k, uint64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(v >> (8 * i));
    put(k, b, sizeof b);
}

static void put_be32(struct sink *k, uint64_t v)
{
    uint8_t b[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    put(k, b, sizeof b);
}

static void put_v1(struct sink *k, const struct jup_out *m)
{
    struct ck_slice channel = ck_slice_str(jup_channel_name(m->channel));
    uint64_t n = 6 + (uint64_t)m->nbuffers, at = 8 * (n + 1);
    put_le64(k, n);
    put_le64(k, at);
    put_le64(k, at += channel.n);
    for (int i = 0; i < P_BUFFERS; i++)
        put_le64(k, at += m->part[i].n);
    for (uint32_t i = 0; i < m->nbuffers; i++)
        put_le64(k, at += m->buffers[i].n);
    put_slice(k, channel);
    for (int i = 0; i < P_BUFFERS; i++)
        put_slice(k, m->part[i]);
    for (uint32_t i = 0; i < m->nbuffers; i++)
        put_slice(k, m->buffers[i]);
}

static void put_member(struct sink *k, const char *before, struct ck_slice value)
{
    put_str(k, before);
    put_slice(k, value.n ? value : ck_slice("{}", 2));
}

static void put_json(struct sink *k, const struct jup_out *m)
{
    struct ck_slice id = ck_slice("null", 4), type = ck_slice("null", 4);
    jup_json_member(m->part[P_HEADER], "msg_id", &id);
    jup_json_member(m->part[P_HEADER], "msg_type", &type);
    put_member(k, "{\"header\":", m->part[P_HEADER]);
    put_member(k, ",\"parent_header\":", m->part[P_PARENT]);
    put_member(k, ",\"metadata\":", m->part[P_METADATA]);
    put_member(k, ",\"content\":", m->part[P_CONTENT]);
    put_str(k, m->nbuffers ? ",\"channel\":\"" : ",\"buffers\":[],\"channel\":\"");
    put_str(k, jup_channel_name(m->channel));
    put_member(k, "\",\"msg_id\":", id);
    put_member(k, ",\"msg_type\":", type);
    put_str(k, "}");
}

static void put_legacy_binary(struct sink *k, const struct jup_out *m)
{
    struct sink json = {NULL, 0};
    put_json(&json, m);
    uint64_t n = 1 + (uint64_t)m->nbuffers, at = 4 * (n + 1);
    put_be32(k, n);
    put_be32(k, at);
    at += json.n;
    for (uint32_t i = 0; i < m->nbuffers; i++) {
        put_be32(k, at);
        at += m->buffers[i].n;
    }
    put_json(k, m);
    for (uint32_t i = 0; i < m->nbuffers; i++)
        put_slice(k, m->buffers[i]);
}

struct ck_blob *jup_encode(enum jup_dialect dialect, const struct jup_out *msg, bool *text)
{
    *text = dialect == JUP_LEGACY && msg->nbuffers == 0;
    void (*encode)(struct sink *, const struct jup_out *) = dialect == JUP_V1 ? put_v1
                                                            : *text           ? put_json
                                                                              : put_legacy_binary;
    struct sink k = {NULL, 0};
    encode(&k, msg);
    // The last offset of the legacy table must fit its 32 bits.
    if (dialect == JUP_LEGACY && k.n > UINT32_MAX)
        return NULL;
    struct ck_blob *b = ck_blob_new(k.n);
    if (b) {
        k = (struct sink){b->p, 0};
        encode(&k, msg);
    }
    return b;
}
