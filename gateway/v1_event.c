// From frames of the bridge protocol to the JSON objects of /v1. The envelope is made here; what a
// kernel sent is spliced in without being parsed, always as the value of one key.
#include "gateway/v1_event.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <stdio.h>
#include <stdlib.h>

// Part numbers of the bridge protocol.
enum { PART_TEXT = 1, PART_CONTENT = 4 };

static const struct {
    const char *msg_type, *type;
} message_types[] = {
    {"stream", "stream"},
    {"display_data", "display"},
    {"update_display_data", "update_display"},
    {"execute_result", "result"},
    {"error", "error"},
    {"status", "status"},
    {"clear_output", "clear_output"},
    {"execute_input", "code"},
    {"comm_open", "comm_open"},
    {"comm_msg", "comm_msg"},
    {"comm_close", "comm_close"},
};

static const struct {
    const char *ev, *type;
    enum v1_event_kind kind;
} event_types[] = {
    {"cell_start", "start", V1_EVENT_PLAIN}, {"input", "input", V1_EVENT_INPUT}, {"artifact", "artifact", V1_EVENT_PLAIN},
    {"cell", "done", V1_EVENT_DONE},         {"state", "state", V1_EVENT_PLAIN}, {"gap", "gap", V1_EVENT_GAP},
};

static void read_message(const json_t *h, struct v1_event *out)
{
    const char *ch = ck_json_str(h, "ch", "", NULL), *mt = ck_json_str(h, "mt", "", NULL);
    out->kind = V1_EVENT_SKIP;
    if (strcmp(ch, "iopub"))
        return;
    for (size_t i = 0; i < sizeof message_types / sizeof *message_types; i++)
        if (!strcmp(mt, message_types[i].msg_type)) {
            out->kind = V1_EVENT_PLAIN;
            out->type = message_types[i].type;
        }
}

int v1_event_read(const json_t *h, const struct ck_frame *f, struct v1_event *out)
{
    memset(out, 0, sizeof *out);
    out->type = "";
    out->kind = V1_EVENT_SKIP;
    const char *ev = ck_json_str(h, "ev", NULL, NULL);
    if (!ev)
        return -1;
    out->seq = (uint64_t)ck_json_int(h, "seq", 0, NULL);
    snprintf(out->cell, sizeof out->cell, "%s", ck_json_str(h, "cell", "", NULL));
    if (!strcmp(ev, "msg")) {
        read_message(h, out);
        return 0;
    }
    for (size_t i = 0; i < sizeof event_types / sizeof *event_types; i++)
        if (!strcmp(ev, event_types[i].ev)) {
            out->kind = event_types[i].kind;
            out->type = event_types[i].type;
        }
    if (out->kind == V1_EVENT_GAP) {
        out->gap_from = (uint64_t)ck_json_int(h, "from", 0, NULL);
        out->gap_to = (uint64_t)ck_json_int(h, "to", 0, NULL);
        out->gap_bytes = (uint64_t)ck_json_int(h, "bytes", 0, NULL);
    }
    if (out->kind == V1_EVENT_DONE)
        out->finished = f->nparts > PART_TEXT ? ck_frame_part(f, PART_TEXT) : ck_slice("{}", 2);
    return 0;
}

static struct ck_slice part_or_empty(const struct ck_frame *f, uint32_t i)
{
    struct ck_slice s = f->nparts > i ? ck_frame_part(f, i) : ck_slice("", 0);
    return s.n ? s : ck_slice("{}", 2);
}

// The envelope: our own fields and those of the header that clients may see.
static json_t *envelope(const json_t *h, const struct v1_event *ev)
{
    static const char *const passed[] = {"t",      "cell",  "execution_count", "status", "password",
                                         "reason", "state", "from",            "to",     "count", "bytes"};
    json_t *o = json_object();
    json_object_set_new(o, "seq", json_integer((json_int_t)ev->seq));
    json_object_set_new(o, "type", json_string(ev->type));
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        json_t *v = json_object_get(h, passed[i]);
        if (v && !json_is_null(v))
            json_object_set(o, passed[i], v);
    }
    // Cells of the Jupyter door have no id of /v1, but their request does.
    const char *parent = ck_json_str(h, "pid", "", NULL);
    if (*parent && !ev->cell[0])
        json_object_set_new(o, "msg_id", json_string(parent));
    return o;
}

// What goes with the envelope: key and JSON bytes verbatim (text: as a JSON string).
static int add_payload(const struct ck_frame *f, const struct v1_event *ev, const char *name, struct ck_buf *out)
{
    bool text = ev->kind == V1_EVENT_INPUT, message = !strcmp(name, "msg");
    bool artifact = !strcmp(name, "artifact"), done = ev->kind == V1_EVENT_DONE;
    if (!text && !message && !artifact && !done)
        return 0;
    if (ck_buf_printf(out, ",\"%s\":", text ? "prompt" : message ? "content" : artifact ? "artifact" : "finished"))
        return -1;
    if (text) {
        struct ck_slice s = f->nparts > PART_TEXT ? ck_frame_part(f, PART_TEXT) : ck_slice("", 0);
        return ck_buf_add_json_str(out, (const char *)s.p, s.n);
    }
    struct ck_slice s = part_or_empty(f, message ? PART_CONTENT : PART_TEXT);
    return ck_buf_add(out, s.p, s.n);
}

void v1_flatten(struct ck_buf *out, size_t from)
{
    static const char breaks[] = "\n\r";
    for (const char *b = breaks; *b && out->n > from; b++) {
        uint8_t *p = out->p + from, *end = out->p + out->n;
        while (p < end && (p = memchr(p, *b, (size_t)(end - p))))
            *p++ = ' ';
    }
}

int v1_event_json(const json_t *h, const struct ck_frame *f, const struct v1_event *ev, struct ck_buf *out)
{
    size_t from = out->n;
    CK_CLEAN_JSON json_t *o = envelope(h, ev);
    // Dumped as a whole object; its closing brace moves behind what is spliced in.
    if (ck_json_dump(o, out))
        return -1;
    out->n--;
    if (add_payload(f, ev, ck_json_str(h, "ev", "", NULL), out) || ck_buf_add(out, "}", 1))
        return -1;
    v1_flatten(out, from);
    return 0;
}

static int number(const char *what, const char *text, uint64_t *out, struct ck_err *err)
{
    size_t n = strspn(text, "0123456789");
    if (!n || text[n] || n > 18)
        return ck_fail(err, 400, "bad_field", "%s must be a sequence number", what);
    *out = strtoull(text, NULL, 10);
    return 0;
}

int v1_event_position(const char *last_event_id, const char *from, uint64_t *seq, struct ck_err *err)
{
    *seq = 0;
    if (last_event_id && *last_event_id) {
        if (number("Last-Event-ID", last_event_id, seq, err))
            return -1;
        (*seq)++;
        return 0;
    }
    if (!from || !*from)
        return 0;
    if (!strcmp(from, "now"))
        return 1;
    return number("from", from, seq, err);
}
