// The finished cell as JSON text. Displays and results are spliced as the kernel wrote them (they
// were verified as JSON); everything else is written here. Fields beyond design.md section 5 are
// additions: ended_by, detail, artifacts_total, error.traceback_plain, truncated.displays/_bytes.
#include "kernel-bridge/celljson.h"

#include "kernel-bridge/jscan.h"

#include <assert.h>
#include <inttypes.h>

static const struct {
    const char *name;
    int exit_code;
} statuses[] = {
    [CELL_OK] = {"ok", 0},
    [CELL_ERROR] = {"error", 1},
    [CELL_TIMEOUT] = {"timeout", 124},
    [CELL_INTERRUPTED] = {"interrupted", 130},
    [CELL_OOM] = {"oom", 137},
    [CELL_KERNEL_DIED] = {"kernel_died", 137},
    [CELL_VM_DIED] = {"vm_died", 137},
    [CELL_CANCELLED] = {"cancelled", 130},
};
static_assert(sizeof statuses / sizeof *statuses == CELL_STATUSES, "a name for each status");

const char *cell_status_name(enum cell_status s) { return statuses[s].name; }
int cell_exit_code(enum cell_status s) { return statuses[s].exit_code; }

// The length of the escape sequence at i (t.p[i] is ESC), at least 1.
static size_t ansi_length(struct ck_slice t, size_t i)
{
    size_t j = i + 1;
    if (j >= t.n)
        return 1;
    if (t.p[j] == '[') { // CSI: parameters, then one final byte 0x40..0x7e
        for (j++; j < t.n && t.p[j] >= 0x20 && t.p[j] < 0x40; j++)
            ;
        return j < t.n && t.p[j] >= 0x40 && t.p[j] < 0x7f ? j + 1 - i : j - i;
    }
    if (t.p[j] == ']') { // OSC: to BEL or ST
        for (j++; j < t.n; j++) {
            if (t.p[j] == 7)
                return j + 1 - i;
            if (t.p[j] == 0x1b)
                return j + 1 < t.n && t.p[j + 1] == '\\' ? j + 2 - i : j - i;
        }
        return t.n - i;
    }
    return t.p[j] >= 0x30 && t.p[j] < 0x7f ? 2 : 1;
}

int cell_strip_ansi(struct ck_slice t, struct ck_buf *out)
{
    for (size_t i = 0; i < t.n;) {
        const uint8_t *esc = memchr(t.p + i, 0x1b, t.n - i);
        size_t plain = esc ? (size_t)(esc - (t.p + i)) : t.n - i;
        if (ck_buf_add(out, t.p + i, plain))
            return -1;
        i += plain;
        if (esc)
            i += ansi_length(t, i);
    }
    return 0;
}

static int add_text(struct ck_buf *out, const char *key, const struct ck_buf *text)
{
    return ck_buf_printf(out, "\"%s\":", key) || ck_buf_add_json_str(out, (const char *)text->p, text->n);
}

static int add_plain_traceback(struct ck_slice raw, struct ck_buf *out)
{
    struct jscan it = jscan_open(raw);
    struct ck_slice key, value;
    int bad = ck_buf_add_str(out, "[");
    for (bool first = true; !bad && jscan_next(&it, &key, &value); first = false) {
        CK_CLEAN_BUF struct ck_buf line = CK_BUF_INIT, plain = CK_BUF_INIT;
        if (jscan_text(value, &line))
            continue;
        bad = cell_strip_ansi(ck_buf_slice(&line), &plain) || (!first && ck_buf_add_str(out, ",")) ||
              ck_buf_add_json_str(out, (const char *)plain.p, plain.n);
    }
    return bad || ck_buf_add_str(out, "]");
}

// Only an array of strings is a traceback; anything else a kernel sends is left out.
static bool is_string_array(struct ck_slice raw)
{
    struct jscan it = jscan_open(raw);
    struct ck_slice key, value;
    while (jscan_next(&it, &key, &value))
        if (value.p[0] != '"')
            return false;
    return raw.n > 0;
}

static int add_error(const struct cout *c, struct ck_buf *out)
{
    if (!c->has_error)
        return ck_buf_add_str(out, ",\"error\":null");
    struct ck_slice tb = ck_buf_slice(&c->traceback);
    if (!is_string_array(tb))
        tb = ck_slice_str("[]");
    return ck_buf_add_str(out, ",\"error\":{") || add_text(out, "ename", &c->ename) || ck_buf_add_str(out, ",") ||
           add_text(out, "evalue", &c->evalue) || ck_buf_add_str(out, ",\"traceback\":") ||
           ck_buf_add(out, tb.p, tb.n) || ck_buf_add_str(out, ",\"traceback_plain\":") ||
           add_plain_traceback(tb, out) || ck_buf_add_str(out, "}");
}

static int add_displays(const struct cout *c, struct ck_buf *out)
{
    const struct cout_display *result = NULL; // the last one; earlier ones of the same cell are displays
    for (size_t i = 0; i < c->displays; i++)
        if (c->display[i].is_result)
            result = &c->display[i];
    int bad = ck_buf_add_str(out, ",\"displays\":[");
    bool first = true;
    for (size_t i = 0; !bad && i < c->displays; i++) {
        const struct cout_display *d = &c->display[i];
        if (d == result)
            continue;
        bad = ck_buf_add_str(out, first ? "{\"data\":" : ",{\"data\":") || ck_buf_add(out, d->data.p, d->data.n) ||
              ck_buf_add_str(out, ",\"metadata\":") || ck_buf_add(out, d->metadata.p, d->metadata.n) ||
              ck_buf_add_str(out, "}");
        first = false;
    }
    if (bad || ck_buf_add_str(out, "],\"result\":"))
        return -1;
    return result ? ck_buf_add(out, result->data.p, result->data.n) : ck_buf_add_str(out, "null");
}

static int add_number_or_null(struct ck_buf *out, const char *key, int64_t v)
{
    return v < 0 ? ck_buf_printf(out, "\"%s\":null", key) : ck_buf_printf(out, "\"%s\":%" PRId64, key, v);
}

static int add_streams(const struct cout *c, struct ck_buf *out, uint64_t dropped[2])
{
    static const char *const keys[] = {"stdout", "stderr"};
    for (int i = 0; i < 2; i++) {
        CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
        if (cout_text_get(&c->text[i], &text, &dropped[i]) || ck_buf_add_str(out, ",") ||
            add_text(out, keys[i], &text))
            return -1;
    }
    return 0;
}

// Always the last thing, so that it can be told anew.
static int add_ending(const struct cell_ending *e, struct ck_buf *out)
{
    int bad = 0;
    if (e->ended_by[0])
        bad = ck_buf_add_str(out, ",\"ended_by\":") || ck_buf_add_json_str(out, e->ended_by, strlen(e->ended_by));
    if (!bad && e->detail[0])
        bad = ck_buf_add_str(out, ",\"detail\":") || ck_buf_add_json_str(out, e->detail, strlen(e->detail));
    return bad || ck_buf_add_str(out, "}");
}

int cell_json_end_anew(struct ck_slice json, const struct cell_ending *was, const struct cell_ending *now,
                       struct ck_buf *out)
{
    CK_CLEAN_BUF struct ck_buf old = CK_BUF_INIT;
    if (add_ending(was, &old))
        return -1;
    if (old.n > json.n || memcmp(json.p + json.n - old.n, old.p, old.n) != 0)
        return 1;
    return ck_buf_add(out, json.p, json.n - old.n) || add_ending(now, out) ? -1 : 0;
}

int cell_hits_json(unsigned hits, struct ck_buf *out)
{
    static const char *const names[] = {"output_mb", "artifacts", "artifact_mb", "pids", "disk_mb"};
    static_assert(sizeof names / sizeof *names == CELL_HITS, "every limit has a name");
    int bad = ck_buf_add_str(out, "[");
    bool first = true;
    for (unsigned i = 0; !bad && i < CELL_HITS; i++)
        if (hits & CELL_HIT(i)) {
            bad = ck_buf_printf(out, first ? "\"%s\"" : ",\"%s\"", names[i]);
            first = false;
        }
    return bad || ck_buf_add_str(out, "]") ? -1 : 0;
}

// Only when there is something to tell.
static int add_hits(const struct cell_facts *f, const uint64_t dropped[2], struct ck_buf *out)
{
    const struct cout *c = f->out;
    unsigned hits = f->limits_hit;
    if (dropped[0] || dropped[1] || c->displays_dropped || c->display_bytes_dropped)
        hits |= CELL_HIT(CELL_HIT_OUTPUT);
    return !hits ? 0 : ck_buf_add_str(out, ",\"limits_hit\":") || cell_hits_json(hits, out) ? -1 : 0;
}

int cell_json(const struct cell_facts *f, struct ck_buf *out)
{
    const struct cout *c = f->out;
    uint64_t dropped[2] = {0, 0};
    int bad = ck_buf_add_str(out, "{\"id\":") || ck_buf_add_json_str(out, f->id, strlen(f->id)) ||
              ck_buf_printf(out, ",\"seq\":[%" PRIu64 ",%" PRIu64 "],\"status\":\"%s\",\"exit_code\":%d,", f->seq_first,
                            f->seq_last, statuses[f->status].name, f->exit_code) ||
              add_number_or_null(out, "execution_count", c->execution_count) || add_streams(c, out, dropped) ||
              add_displays(c, out) || add_error(c, out) || ck_buf_add_str(out, ",\"artifacts\":") ||
              ck_buf_add(out, f->artifacts.p, f->artifacts.n) ||
              ck_buf_printf(out, ",\"artifacts_total\":%" PRId64 ",\"usage\":{", f->artifacts_total) ||
              add_number_or_null(out, "wall_ms", f->wall_ms) || ck_buf_add_str(out, ",") ||
              add_number_or_null(out, "cpu_ms", f->cpu_ms) || ck_buf_add_str(out, ",") ||
              add_number_or_null(out, "peak_memory_bytes", f->peak_memory_bytes) || ck_buf_add_str(out, ",") ||
              add_number_or_null(out, "disk_bytes", f->disk_bytes) ||
              ck_buf_printf(out,
                            "},\"truncated\":{\"stdout_bytes\":%" PRIu64 ",\"stderr_bytes\":%" PRIu64
                            ",\"displays\":%" PRIu64 ",\"display_bytes\":%" PRIu64,
                            dropped[0], dropped[1], c->displays_dropped, c->display_bytes_dropped) ||
              (c->error_bytes_dropped && ck_buf_printf(out, ",\"error_bytes\":%" PRIu64, c->error_bytes_dropped)) ||
              (f->artifacts_too_large && ck_buf_printf(out, ",\"large_artifacts\":%" PRId64, f->artifacts_too_large)) ||
              ck_buf_add_str(out, "}") || add_hits(f, dropped, out) ||
              add_ending(&(struct cell_ending){f->ended_by, f->detail}, out);
    return bad ? -1 : 0;
}
