// Keeps pieces of output in two lists, the oldest and the newest, within a bound, and makes a finished
// cell of them by splicing. Must never hold more than twice V1_PARTIAL_HALF and a few small fields,
// and never put text into the answer that is not JSON.
#include "gateway/v1_partial.h"

#include "common/ck_json.h"
#include "gateway/jupyter_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define DISPLAYS_MAX 1000
#define ARTIFACTS_MAX 200
#define SMALL_MAX (256 * 1024) // an error; all artifacts together

enum piece_kind { PIECE_STDOUT, PIECE_STDERR, PIECE_DISPLAY, PIECE_UPDATE, PIECE_RESULT };

struct v1_piece {
    struct v1_piece *next;
    enum piece_kind kind;
    size_t n;
    uint8_t p[]; // stdout, stderr: what stands between the quotes of the text; else the whole content
};

static struct ck_slice piece_slice(const struct v1_piece *x) { return ck_slice(x->p, x->n); }

static struct ck_slice member(struct ck_slice object, const char *key, const char *otherwise)
{
    struct ck_slice v;
    return jup_json_member(object, key, &v) ? v : ck_slice_str(otherwise);
}

// Bytes of text between the quotes of a JSON string, once its escapes are undone.
static uint64_t text_bytes(struct ck_slice s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.n; n++) {
        if (s.p[i] != '\\') {
            i++;
        } else if (i + 5 < s.n && s.p[i + 1] == 'u') {
            char hex[5] = {(char)s.p[i + 2], (char)s.p[i + 3], (char)s.p[i + 4], (char)s.p[i + 5], 0};
            unsigned long c = strtoul(hex, NULL, 16);
            n += c < 0x80 ? 0 : c < 0x800 || (c >= 0xD800 && c < 0xE000) ? 1 : 2; // a surrogate is half of 4
            i += 6;
        } else {
            i += 2;
        }
    }
    return n;
}

static void list_free(struct v1_piece_list *l)
{
    for (struct v1_piece *x = l->first, *next; x; x = next) {
        next = x->next;
        free(x);
    }
    *l = (struct v1_piece_list){NULL, NULL, 0};
}

static void list_add(struct v1_piece_list *l, struct v1_piece *x)
{
    *(l->last ? &l->last->next : &l->first) = x;
    l->last = x;
    l->bytes += sizeof *x + x->n;
}

static void count_dropped(struct v1_partial *p, enum piece_kind kind, struct ck_slice s)
{
    if (kind <= PIECE_STDERR) {
        p->dropped[kind] += text_bytes(s);
    } else {
        p->displays_dropped++;
        p->display_bytes_dropped += s.n;
    }
}

static void drop_oldest_of_tail(struct v1_partial *p)
{
    struct v1_piece *x = p->tail.first;
    count_dropped(p, x->kind, piece_slice(x));
    p->tail.first = x->next;
    if (!x->next)
        p->tail.last = NULL;
    p->tail.bytes -= sizeof *x + x->n;
    free(x);
}

static void clear(struct v1_partial *p)
{
    list_free(&p->head);
    list_free(&p->tail);
    p->clear_at_next = false;
    p->dropped[0] = p->dropped[1] = p->displays_dropped = p->display_bytes_dropped = 0;
}

static void keep(struct v1_partial *p, enum piece_kind kind, struct ck_slice s)
{
    size_t half = p->half ? p->half : V1_PARTIAL_HALF, n = sizeof(struct v1_piece) + s.n;
    if (p->clear_at_next)
        clear(p);
    struct v1_piece *x = n <= half ? malloc(n) : NULL;
    if (!x) {
        count_dropped(p, kind, s);
        return;
    }
    *x = (struct v1_piece){.next = NULL, .kind = kind, .n = s.n};
    memcpy(x->p, s.p, s.n);
    if (!p->tail.first && p->head.bytes + n <= half) {
        list_add(&p->head, x);
        return;
    }
    while (p->tail.first && p->tail.bytes + n > half)
        drop_oldest_of_tail(p);
    list_add(&p->tail, x);
}

static void keep_stream(struct v1_partial *p, struct ck_slice content)
{
    struct ck_slice text = member(content, "text", "\"\"");
    bool is_stderr = ck_slice_is(member(content, "name", ""), "\"stderr\"");
    if (text.n > 2 && text.p[0] == '"')
        keep(p, is_stderr ? PIECE_STDERR : PIECE_STDOUT, ck_slice(text.p + 1, text.n - 2));
}

static void note_count(struct v1_partial *p, struct ck_slice content)
{
    struct ck_slice v = member(content, "execution_count", "");
    char digits[20];
    if (!v.n || v.n >= sizeof digits || v.p[0] < '1' || v.p[0] > '9')
        return;
    memcpy(digits, v.p, v.n);
    digits[v.n] = '\0';
    p->execution_count = strtoll(digits, NULL, 10);
}

static void keep_error(struct v1_partial *p, struct ck_slice content)
{
    if (p->clear_at_next)
        clear(p);
    ck_buf_free(&p->error);
    if (content.n <= SMALL_MAX)
        ck_buf_add(&p->error, content.p, content.n);
}

static void keep_artifact(struct v1_partial *p, struct ck_slice json)
{
    size_t had = p->artifacts.n;
    if (p->artifacts_total++ >= ARTIFACTS_MAX || had + json.n > SMALL_MAX)
        return;
    if ((had && ck_buf_add_str(&p->artifacts, ",")) || ck_buf_add(&p->artifacts, json.p, json.n))
        p->artifacts.n = had;
}

static void take_message(struct v1_partial *p, const char *type, struct ck_slice content)
{
    if (!strcmp(type, "stream")) {
        keep_stream(p, content);
    } else if (!strcmp(type, "display")) {
        keep(p, PIECE_DISPLAY, content);
    } else if (!strcmp(type, "update_display")) {
        keep(p, PIECE_UPDATE, content);
    } else if (!strcmp(type, "result")) {
        note_count(p, content);
        keep(p, PIECE_RESULT, content);
    } else if (!strcmp(type, "error")) {
        keep_error(p, content);
    } else if (!strcmp(type, "code")) {
        note_count(p, content);
    } else if (!strcmp(type, "clear_output")) {
        p->clear_at_next = true;
        if (!ck_slice_is(member(content, "wait", "false"), "true"))
            clear(p);
    }
}

void v1_partial_take(struct v1_partial *p, const struct ck_frame *f, const struct v1_event *ev, int64_t now_ms)
{
    if (ev->kind == V1_EVENT_GAP) { // of the whole session's events: what they were is not known
        p->gap_bytes += ev->gap_bytes;
        return;
    }
    if (!p->first_seq)
        p->first_seq = ev->seq;
    if (ev->seq > p->last_seq)
        p->last_seq = ev->seq;
    if (ev->kind != V1_EVENT_PLAIN)
        return;
    if (!strcmp(ev->type, "start"))
        p->started_ms = now_ms;
    else if (!strcmp(ev->type, "artifact") && f->nparts > 1)
        keep_artifact(p, ck_frame_part(f, 1));
    else if (f->nparts > 4)
        take_message(p, ev->type, ck_frame_part(f, 4));
}

void v1_partial_free(struct v1_partial *p)
{
    clear(p);
    ck_buf_free(&p->error);
    ck_buf_free(&p->artifacts);
}

// --- the finished cell -----------------------------------------------------------------------------

static const struct v1_piece *next_piece(const struct v1_partial *p, const struct v1_piece *x)
{
    if (!x)
        return p->head.first ? p->head.first : p->tail.first;
    return x->next ? x->next : x == p->head.last ? p->tail.first : NULL;
}

static int add_stream(const struct v1_partial *p, enum piece_kind kind, struct ck_buf *out)
{
    int rc = ck_buf_add_str(out, kind == PIECE_STDOUT ? ",\"stdout\":\"" : ",\"stderr\":\"");
    bool marked = !p->dropped[kind];
    for (const struct v1_piece *x = next_piece(p, NULL); x || !marked; x = x ? next_piece(p, x) : NULL) {
        if (!marked && (!x || x == p->tail.first)) {
            marked = true;
            rc |= ck_buf_printf(out, "\\n[\xe2\x80\xa6 %" PRIu64 " bytes left out \xe2\x80\xa6]\\n", p->dropped[kind]);
        }
        if (x && x->kind == kind)
            rc |= ck_buf_add(out, x->p, x->n);
    }
    return rc | ck_buf_add_str(out, "\"");
}

struct display {
    struct ck_slice content, id; // id: raw, "" = none
    bool is_result;
};

static struct ck_slice object_of(struct ck_slice content, const char *key)
{
    struct ck_slice v = member(content, key, "{}");
    return jup_json_is_object(v) ? v : ck_slice_str("{}");
}

static void update_displays(struct display *d, size_t n, struct ck_slice content)
{
    struct ck_slice id = member(object_of(content, "transient"), "display_id", "");
    for (size_t i = 0; i < n && id.n; i++)
        if (d[i].id.n == id.n && !memcmp(d[i].id.p, id.p, id.n))
            d[i].content = content;
}

// The displays as they stand after all updates. Returns how many; more than room are left out.
static size_t collect_displays(const struct v1_partial *p, struct display *d, size_t room, uint64_t *left_out)
{
    size_t n = 0;
    for (const struct v1_piece *x = next_piece(p, NULL); x; x = next_piece(p, x)) {
        if (x->kind == PIECE_UPDATE)
            update_displays(d, n, piece_slice(x));
        if (x->kind != PIECE_DISPLAY && x->kind != PIECE_RESULT)
            continue;
        if (n == room) {
            ++*left_out;
            continue;
        }
        struct ck_slice id = member(object_of(piece_slice(x), "transient"), "display_id", "");
        d[n++] = (struct display){piece_slice(x), id, x->kind == PIECE_RESULT};
    }
    return n;
}

static int add_slice(struct ck_buf *out, struct ck_slice s) { return ck_buf_add(out, s.p, s.n); }

static int add_displays(const struct v1_partial *p, struct ck_buf *out, uint64_t *left_out)
{
    struct display *d = calloc(DISPLAYS_MAX, sizeof *d);
    if (!d)
        return -1;
    size_t n = collect_displays(p, d, DISPLAYS_MAX, left_out), result = n;
    for (size_t i = 0; i < n; i++)
        if (d[i].is_result)
            result = i; // the last one; earlier ones of the same cell are displays
    int rc = ck_buf_add_str(out, ",\"displays\":[");
    const char *comma = "";
    for (size_t i = 0; i < n; i++) {
        if (i == result)
            continue;
        rc |= ck_buf_printf(out, "%s{\"data\":", comma) | add_slice(out, object_of(d[i].content, "data"));
        rc |= ck_buf_add_str(out, ",\"metadata\":") | add_slice(out, object_of(d[i].content, "metadata"));
        rc |= ck_buf_add_str(out, "}");
        comma = ",";
    }
    rc |= ck_buf_add_str(out, "],\"result\":");
    rc |= result < n ? add_slice(out, object_of(d[result].content, "data")) : ck_buf_add_str(out, "null");
    free(d);
    return rc;
}

// A copy of raw JSON strings without the colour sequences in them ("\u001b[31m").
static int add_plain(struct ck_buf *out, struct ck_slice s)
{
    static const char escape[] = "\\u001b[";
    size_t n = sizeof escape - 1;
    int rc = 0;
    for (size_t i = 0; i < s.n;) {
        if (i + n <= s.n && !strncasecmp((const char *)s.p + i, escape, n)) {
            for (i += n; i < s.n && s.p[i] >= 0x20 && s.p[i] < 0x40 && s.p[i] != '"';)
                i++;
            i += i < s.n && s.p[i] >= 0x40 && s.p[i] < 0x7f && s.p[i] != '\\';
            continue;
        }
        size_t step = s.p[i] == '\\' && i + 1 < s.n ? 2 : 1;
        rc |= ck_buf_add(out, s.p + i, step);
        i += step;
    }
    return rc;
}

static int add_error(const struct v1_partial *p, struct ck_buf *out)
{
    struct ck_slice e = ck_buf_slice(&p->error);
    if (!e.n)
        return ck_buf_add_str(out, ",\"error\":null");
    struct ck_slice name = member(e, "ename", "\"\""), value = member(e, "evalue", "\"\"");
    struct ck_slice tb = member(e, "traceback", "[]");
    return ck_buf_add_str(out, ",\"error\":{\"ename\":") | add_slice(out, name) | ck_buf_add_str(out, ",\"evalue\":") |
           add_slice(out, value) | ck_buf_add_str(out, ",\"traceback\":") | add_slice(out, tb) |
           ck_buf_add_str(out, ",\"traceback_plain\":") | add_plain(out, tb) | ck_buf_add_str(out, "}");
}

static int add_ending(const struct v1_partial *p, const struct v1_partial_end *end, struct ck_buf *out)
{
    char detail[512];
    snprintf(detail, sizeof detail, "%s", end->detail);
    size_t n = strlen(detail);
    if (p->gap_bytes)
        snprintf(detail + n, sizeof detail - n, "; %" PRIu64 " bytes of events had been dropped by the session's full log",
                 p->gap_bytes);
    return ck_buf_add_str(out, ",\"detail\":") | ck_buf_add_json_str(out, detail, strlen(detail)) |
           ck_buf_add_str(out, "}");
}

int v1_partial_json(const struct v1_partial *p, const struct v1_partial_end *end, struct ck_buf *out)
{
    static const struct v1_partial nothing;
    size_t from = out->n;
    uint64_t left_out = p->displays_dropped;
    int rc = ck_buf_printf(out, "{\"id\":\"%s\",\"seq\":[%" PRIu64 ",%" PRIu64 "],\"status\":\"%s\",\"exit_code\":%d",
                           end->cell, p->first_seq ? p->first_seq : end->seq, p->last_seq ? p->last_seq : end->seq,
                           end->status, end->exit_code);
    rc |= p->execution_count ? ck_buf_printf(out, ",\"execution_count\":%" PRId64, p->execution_count)
                             : ck_buf_add_str(out, ",\"execution_count\":null");
    rc |= add_stream(p, PIECE_STDOUT, out) | add_stream(p, PIECE_STDERR, out);
    rc |= add_displays(p, out, &left_out) | add_error(p, out);
    rc |= ck_buf_add_str(out, ",\"artifacts\":[") | add_slice(out, ck_buf_slice(&p->artifacts));
    rc |= ck_buf_printf(out, "],\"artifacts_total\":%" PRIu64, p->artifacts_total);
    rc |= ck_buf_printf(out, ",\"usage\":{\"wall_ms\":%" PRId64 ",\"cpu_ms\":null,\"peak_memory_bytes\":null,\"disk_bytes\":null}",
                        end->wall_ms);
    rc |= ck_buf_printf(out, ",\"truncated\":{\"stdout_bytes\":%" PRIu64 ",\"stderr_bytes\":%" PRIu64
                             ",\"displays\":%" PRIu64 ",\"display_bytes\":%" PRIu64 "}",
                        p->dropped[0], p->dropped[1], left_out, p->display_bytes_dropped);
    rc |= add_ending(p, end, out);
    if (rc || ck_json_valid(out->p + from, out->n - from, NULL) || p == &nothing)
        return rc ? -1 : 0;
    out->n = from; // a bridge that lied about its contents: the shape is what counts
    return v1_partial_json(&nothing, end, out);
}
