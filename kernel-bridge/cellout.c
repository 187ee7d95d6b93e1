// Collects a cell's output. A cell may print for ever and display without end: whatever it does, at
// most the budget and a quarter more is held. Must never fail the cell for lack of memory: what does
// not fit is counted as dropped.
#include "kernel-bridge/cellout.h"

#include "kernel-bridge/jscan.h"

#include <stdio.h>
#include <stdlib.h>

void cout_init(struct cout *c, size_t budget)
{
    *c = (struct cout){.budget = budget, .execution_count = -1};
}

static void text_clear(struct cout *c, struct cout_text *t)
{
    c->used -= t->head.n + t->ring_room < c->used ? t->head.n + t->ring_room : c->used;
    ck_buf_free(&t->head);
    free(t->ring);
    *t = (struct cout_text){.head = CK_BUF_INIT};
}

static void display_drop(struct cout *c, struct cout_display *d)
{
    size_t n = d->data.n + d->metadata.n;
    c->used -= n < c->used ? n : c->used;
    ck_buf_free(&d->data);
    ck_buf_free(&d->metadata);
}

static void displays_clear(struct cout *c)
{
    for (size_t i = 0; i < c->displays; i++)
        display_drop(c, &c->display[i]);
    c->displays = 0;
}

void cout_free(struct cout *c)
{
    text_clear(c, &c->text[0]);
    text_clear(c, &c->text[1]);
    displays_clear(c);
    free(c->display);
    ck_buf_free(&c->ename);
    ck_buf_free(&c->evalue);
    ck_buf_free(&c->traceback);
    *c = (struct cout){.budget = c->budget, .execution_count = -1};
}

static bool is_continuation(uint8_t b) { return (b & 0xC0) == 0x80; }

// Closes the head: its newer half becomes the start of the ring. false = no memory for a ring.
static bool open_ring(struct cout *c, struct cout_text *t)
{
    size_t keep = t->head.n - t->head.n / 2;
    while (keep && keep < t->head.n && is_continuation(t->head.p[keep]))
        keep--;
    size_t move = t->head.n - keep, room = move > c->budget / 8 ? move : c->budget / 8;
    if (!room || !(t->ring = malloc(room)))
        return false;
    if (move)
        memcpy(t->ring, t->head.p + keep, move);
    t->ring_room = room;
    t->ring_n = move;
    t->head.n = keep;
    c->used += room - move;
    return true;
}

static void ring_add(struct cout_text *t, struct ck_slice s)
{
    if (s.n >= t->ring_room) { // only its own tail survives
        t->dropped += t->ring_n + (s.n - t->ring_room);
        memcpy(t->ring, s.p + (s.n - t->ring_room), t->ring_room);
        t->ring_at = 0;
        t->ring_n = t->ring_room;
        return;
    }
    size_t over = t->ring_n + s.n > t->ring_room ? t->ring_n + s.n - t->ring_room : 0;
    t->dropped += over;
    t->ring_at = (t->ring_at + over) % t->ring_room;
    t->ring_n -= over;
    size_t end = (t->ring_at + t->ring_n) % t->ring_room;
    size_t first = s.n < t->ring_room - end ? s.n : t->ring_room - end;
    memcpy(t->ring + end, s.p, first);
    memcpy(t->ring, s.p + first, s.n - first);
    t->ring_n += s.n;
}

static void before_output(struct cout *c)
{
    if (!c->clear_at_next)
        return;
    c->clear_at_next = false;
    text_clear(c, &c->text[0]);
    text_clear(c, &c->text[1]);
    displays_clear(c);
}

void cout_stream(struct cout *c, bool is_stderr, struct ck_slice s)
{
    struct cout_text *t = &c->text[is_stderr];
    before_output(c);
    if (!s.n)
        return;
    // Each stream may always have a sixteenth, however much the others took.
    bool fits = c->used + s.n <= c->budget || t->head.n + s.n <= c->budget / 16;
    if (!t->ring && fits && !ck_buf_add(&t->head, s.p, s.n)) {
        c->used += s.n;
        return;
    }
    if (t->ring || open_ring(c, t))
        ring_add(t, s);
    else
        t->dropped += s.n;
}

static bool display_store(struct cout *c, struct cout_display *d, struct ck_slice data, struct ck_slice metadata)
{
    size_t n = data.n + metadata.n;
    if (c->used + n > c->budget || ck_buf_add(&d->data, data.p, data.n) ||
        ck_buf_add(&d->metadata, metadata.p, metadata.n)) {
        ck_buf_free(&d->data);
        ck_buf_free(&d->metadata);
        c->displays_dropped++;
        c->display_bytes_dropped += n;
        return false;
    }
    c->used += n;
    return true;
}

static struct ck_slice object_field(struct ck_slice content, const char *key)
{
    struct ck_slice v;
    return jscan_field(content, key, &v) && v.n && v.p[0] == '{' ? v : ck_slice_str("{}");
}

static void add_display(struct cout *c, struct ck_slice content, bool is_result)
{
    before_output(c);
    if (c->displays == c->room && c->room < COUT_DISPLAYS_MAX) {
        size_t room = c->room ? c->room * 2 : 8;
        struct cout_display *bigger = realloc(c->display, room * sizeof *bigger);
        if (bigger) {
            c->display = bigger;
            c->room = room;
        }
    }
    struct ck_slice data = object_field(content, "data"), metadata = object_field(content, "metadata");
    if (c->displays == c->room || c->displays == COUT_DISPLAYS_MAX) {
        c->displays_dropped++;
        c->display_bytes_dropped += data.n + metadata.n;
        return;
    }
    struct cout_display *d = &c->display[c->displays];
    *d = (struct cout_display){.is_result = is_result};
    jscan_field_str(object_field(content, "transient"), "display_id", d->id, sizeof d->id);
    if (display_store(c, d, data, metadata))
        c->displays++;
}

static void update_display(struct cout *c, struct ck_slice content)
{
    char id[COUT_DISPLAY_ID_MAX];
    if (!jscan_field_str(object_field(content, "transient"), "display_id", id, sizeof id) || !id[0])
        return;
    struct ck_slice data = object_field(content, "data"), metadata = object_field(content, "metadata");
    for (size_t i = 0; i < c->displays; i++)
        if (!strcmp(c->display[i].id, id)) {
            display_drop(c, &c->display[i]);
            if (!display_store(c, &c->display[i], data, metadata)) {
                memmove(c->display + i, c->display + i + 1, (c->displays - i - 1) * sizeof *c->display);
                c->displays--;
                i--;
            }
        }
}

static void clear_output(struct cout *c, struct ck_slice content)
{
    struct ck_slice wait;
    c->clear_at_next = true;
    if (!jscan_field(content, "wait", &wait) || !jscan_true(wait))
        before_output(c);
}

// A text of an error: of one that is too long the head, and how much there was. Counts what is cut.
static void take_value(struct ck_slice value, struct ck_buf *out, uint64_t *dropped)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (jscan_text(value, &text))
        return;
    size_t keep = text.n;
    if (keep > COUT_ERROR_TEXT_MAX) {
        keep = COUT_ERROR_TEXT_MAX;
        while (keep && is_continuation(text.p[keep]))
            keep--;
        *dropped += text.n - keep;
    }
    if (!ck_buf_add(out, text.p, keep) && keep < text.n)
        ck_buf_printf(out, "[… %zu bytes left out …]", text.n - keep);
}

static void take_text(struct ck_slice content, const char *key, struct ck_buf *out, uint64_t *dropped)
{
    struct ck_slice v;
    ck_buf_free(out);
    if (jscan_field(content, key, &v))
        take_value(v, out, dropped);
}

static int add_line(struct ck_buf *json, struct ck_slice text)
{
    return ck_buf_add_str(json, json->n ? "," : "[") || ck_buf_add_json_str(json, (const char *)text.p, text.n);
}

// The last line says what the error was, so it always has its room; before it, as many as fit.
static void cut_traceback(struct ck_slice tb, struct ck_buf *json, uint64_t *dropped)
{
    struct jscan it = jscan_open(tb);
    struct ck_slice key, value;
    uint64_t skipped = 0;
    bool more = jscan_next(&it, &key, &value), bad = false;
    while (more && !bad) {
        CK_CLEAN_BUF struct ck_buf line = CK_BUF_INIT;
        uint64_t cut = 0;
        take_value(value, &line, &cut);
        more = jscan_next(&it, &key, &value);
        if (more && (skipped || json->n + line.n > COUT_ERROR_MAX - COUT_ERROR_TEXT_MAX)) {
            skipped += line.n + cut;
            continue;
        }
        if (!more && skipped) {
            char mark[64];
            snprintf(mark, sizeof mark, "[… %llu bytes left out …]", (unsigned long long)skipped);
            bad = add_line(json, ck_slice_str(mark));
        }
        bad |= add_line(json, ck_buf_slice(&line)) != 0;
        *dropped += cut;
    }
    *dropped += skipped;
    if (!json->n || bad || ck_buf_add_str(json, "]"))
        ck_buf_free(json);
}

static void set_error(struct cout *c, struct ck_slice content)
{
    struct ck_slice tb;
    c->has_error = true;
    c->error_bytes_dropped = 0;
    take_text(content, "ename", &c->ename, &c->error_bytes_dropped);
    take_text(content, "evalue", &c->evalue, &c->error_bytes_dropped);
    ck_buf_free(&c->traceback);
    if (!jscan_field(content, "traceback", &tb) || !tb.n || tb.p[0] != '[')
        return;
    if (tb.n <= COUT_ERROR_TEXT_MAX)
        ck_buf_add(&c->traceback, tb.p, tb.n);
    else
        cut_traceback(tb, &c->traceback, &c->error_bytes_dropped);
}

// An error that the cell did not fail of is output, as a terminal would show it.
static void error_to_stderr(struct cout *c)
{
    struct jscan it = jscan_open(ck_buf_slice(&c->traceback));
    struct ck_slice key, value;
    bool any = false;
    while (c->traceback.n && jscan_next(&it, &key, &value)) {
        CK_CLEAN_BUF struct ck_buf line = CK_BUF_INIT;
        if (jscan_text(value, &line) || ck_buf_add_str(&line, "\n"))
            continue;
        cout_stream(c, true, ck_buf_slice(&line));
        any = true;
    }
    if (!any) {
        CK_CLEAN_BUF struct ck_buf line = CK_BUF_INIT;
        if (!ck_buf_add(&line, c->ename.p, c->ename.n) && !ck_buf_add_str(&line, ": ") &&
            !ck_buf_add(&line, c->evalue.p, c->evalue.n) && !ck_buf_add_str(&line, "\n"))
            cout_stream(c, true, ck_buf_slice(&line));
    }
    ck_buf_free(&c->ename);
    ck_buf_free(&c->evalue);
    ck_buf_free(&c->traceback);
    c->has_error = false;
    c->error_bytes_dropped = 0; // the text says it
}

static bool same_error(const struct cout *c, struct ck_slice content)
{
    CK_CLEAN_BUF struct ck_buf ename = CK_BUF_INIT, evalue = CK_BUF_INIT;
    uint64_t dropped = 0;
    take_text(content, "ename", &ename, &dropped);
    take_text(content, "evalue", &evalue, &dropped);
    return c->has_error && ename.n == c->ename.n && evalue.n == c->evalue.n &&
           (!ename.n || !memcmp(ename.p, c->ename.p, ename.n)) &&
           (!evalue.n || !memcmp(evalue.p, c->evalue.p, evalue.n));
}

static void shown_error(struct cout *c, struct ck_slice content)
{
    before_output(c);
    if (!c->replied) {
        if (c->has_error)
            error_to_stderr(c);
        set_error(c, content);
    } else if (!same_error(c, content)) { // the reply's stays
        struct cout kept = *c;
        c->ename = c->evalue = c->traceback = (struct ck_buf)CK_BUF_INIT;
        set_error(c, content);
        error_to_stderr(c);
        c->ename = kept.ename;
        c->evalue = kept.evalue;
        c->traceback = kept.traceback;
        c->has_error = kept.has_error;
        c->error_bytes_dropped = kept.error_bytes_dropped;
    }
}

void cout_reply(struct cout *c, bool failed, struct ck_slice content)
{
    bool same = failed && same_error(c, content);
    if (c->has_error && !same)
        error_to_stderr(c);
    if (failed && !same)
        set_error(c, content);
    c->replied = true;
}

void cout_dropped(struct cout *c, const char *type, uint64_t bytes)
{
    if (strstr(type, "display_data") || !strcmp(type, "execute_result")) {
        c->displays_dropped++;
        c->display_bytes_dropped += bytes;
    } else if (!strcmp(type, "stream")) {
        c->text[0].dropped += bytes; // of which of the two its content would tell, which is not looked at
    }
}

static void stream_message(struct cout *c, struct ck_slice content)
{
    char name[16];
    struct ck_slice text;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    jscan_field_str(content, "name", name, sizeof name);
    if (jscan_field(content, "text", &text) && !jscan_text(text, &b))
        cout_stream(c, !strcmp(name, "stderr"), ck_buf_slice(&b));
}

static void note_count(struct cout *c, struct ck_slice content)
{
    struct ck_slice v;
    if (jscan_field(content, "execution_count", &v))
        jscan_int(v, &c->execution_count);
}

void cout_message(struct cout *c, const char *type, struct ck_slice content)
{
    if (!strcmp(type, "stream")) {
        stream_message(c, content);
    } else if (!strcmp(type, "display_data")) {
        add_display(c, content, false);
    } else if (!strcmp(type, "update_display_data")) {
        update_display(c, content);
    } else if (!strcmp(type, "execute_result")) {
        note_count(c, content);
        add_display(c, content, true);
    } else if (!strcmp(type, "error")) {
        shown_error(c, content);
    } else if (!strcmp(type, "clear_output")) {
        clear_output(c, content);
    } else if (!strcmp(type, "execute_input")) {
        note_count(c, content);
    }
}

int cout_text_get(const struct cout_text *t, struct ck_buf *out, uint64_t *dropped)
{
    *dropped = t->dropped;
    if (ck_buf_add(out, t->head.p, t->head.n))
        return -1;
    size_t skip = 0; // the ring may begin inside a character
    if (t->dropped)
        while (skip < t->ring_n && skip < 4 && is_continuation(t->ring[(t->ring_at + skip) % t->ring_room]))
            skip++;
    *dropped += skip;
    if (*dropped && ck_buf_printf(out, "\n[… %llu bytes left out …]\n", (unsigned long long)*dropped))
        return -1;
    size_t n = t->ring_n - skip;
    if (!n)
        return 0;
    size_t at = (t->ring_at + skip) % t->ring_room;
    size_t first = n < t->ring_room - at ? n : t->ring_room - at;
    return ck_buf_add(out, t->ring + at, first) || ck_buf_add(out, t->ring, n - first) ? -1 : 0;
}
