// Rewrites finished cells for those who show them to a language model. Never changes what the log holds.
#include "gateway/v1_output.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "gateway/text_model.h"
#include "gateway/v1_body.h" // v1_body_only()

#include <stdlib.h>
#include <string.h>

#define TYPE_MAX 200
#define TEXT_MIN 100
#define TEXT_MAX (64 * 1024 * 1024)
#define EDGE_MIN 16
#define EDGE_MAX 16384

static bool is_type(const json_t *v)
{
    const char *s = json_string_value(v), *slash = s ? strchr(s, '/') : NULL;
    return slash && slash != s && slash[1] && json_string_length(v) <= TYPE_MAX && strlen(s) == json_string_length(v);
}

static int types_field(json_t *o, struct v1_output *out, struct ck_err *err)
{
    json_t *list = json_object_get(o, "mime_types"), *v;
    size_t i;
    if (!list || json_is_null(list))
        return 0;
    bool good = json_is_array(list) && json_array_size(list) >= 1 && json_array_size(list) <= V1_OUTPUT_TYPES_MAX;
    json_array_foreach (list, i, v)
        good = good && is_type(v);
    if (!good)
        return ck_fail(err, 400, "bad_field",
                       "field \"output.mime_types\" must be a list of 1 to %d types like \"image/png\" or \"image/*\"",
                       V1_OUTPUT_TYPES_MAX);
    out->mime_types = json_incref(list);
    return 0;
}

// A whole number in bounds, 0 when absent; what it bounds is not bounded then.
static int64_t bound_field(json_t *o, const char *key, int64_t min, int64_t max, struct ck_err *err)
{
    const json_t *v = json_object_get(o, key);
    int64_t n = ck_json_int(o, key, 0, err);
    if (!err->status && v && !json_is_null(v) && (n < min || n > max))
        ck_fail(err, 400, "bad_field", "field \"output.%s\" must be a whole number from %lld to %lld", key,
                (long long)min, (long long)max);
    return n;
}

int v1_output_parse(json_t *o, struct v1_output *out, struct ck_err *err)
{
    static const char *const known[] = {"strip_ansi", "max_text_bytes", "mime_types", "max_image_edge", NULL};
    memset(out, 0, sizeof *out);
    if (!json_is_object(o))
        return ck_fail(err, 400, "bad_field", "field \"output\" must be an object");
    if (v1_body_only(o, "\"output\"", known, err))
        return -1;
    out->strip_ansi = ck_json_bool(o, "strip_ansi", false, err);
    out->max_text_bytes = err->status ? 0 : bound_field(o, "max_text_bytes", TEXT_MIN, TEXT_MAX, err);
    out->max_image_edge = err->status ? 0 : (int)bound_field(o, "max_image_edge", EDGE_MIN, EDGE_MAX, err);
    if (err->status)
        return -1;
    if (types_field(o, out, err))
        return -1;
    out->wanted = out->strip_ansi || out->max_text_bytes || out->mime_types || out->max_image_edge;
    return 0;
}

void v1_output_free(struct v1_output *o)
{
    json_decref(o->mime_types);
    memset(o, 0, sizeof *o);
}

// The text under key of o, as it is wanted. Returns how many bytes of it were cut, -1 = out of memory.
static int64_t text_member(const struct v1_output *w, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    CK_CLEAN_BUF struct ck_buf plain = CK_BUF_INIT, cut = CK_BUF_INIT;
    if (!json_is_string(v))
        return 0;
    if (ck_buf_add(&plain, json_string_value(v), json_string_length(v)))
        return -1;
    if (w->strip_ansi && plain.n)
        plain.n = text_plain((char *)plain.p, plain.n);
    int64_t gone = text_cut_middle((const char *)plain.p, plain.n, (size_t)w->max_text_bytes, &cut);
    json_t *text = gone < 0 ? NULL : json_stringn(cut.n ? (const char *)cut.p : "", cut.n);
    return text && !json_object_set_new(o, key, text) ? gone : -1;
}

static int stream_member(const struct v1_output *w, json_t *cell, const char *key, const char *counter)
{
    json_t *truncated = json_object_get(cell, "truncated");
    int64_t gone = text_member(w, cell, key);
    if (gone > 0 && json_is_object(truncated))
        json_object_set_new(truncated, counter,
                            json_integer(ck_json_int(truncated, counter, 0, NULL) + (json_int_t)gone));
    return gone < 0 ? -1 : 0;
}

static bool listed(const json_t *types, const char *type)
{
    size_t i;
    json_t *v;
    json_array_foreach ((json_t *)(uintptr_t)types, i, v) {
        const char *s = json_string_value(v);
        size_t n = strlen(s);
        if (!strcmp(s, type) || (n > 2 && !strcmp(s + n - 2, "/*") && !strncmp(s, type, n - 1)))
            return true;
    }
    return false;
}

static int bundle(const struct v1_output *w, json_t *data)
{
    const char *key;
    json_t *v;
    void *next;
    bool any = !w->mime_types;
    json_object_foreach (data, key, v)
        any = any || listed(w->mime_types, key);
    json_object_foreach_safe (data, next, key, v)
        if (w->mime_types && (any ? !listed(w->mime_types, key) : strcmp(key, "text/plain") != 0))
            json_object_del(data, key);
    return text_member(w, data, "text/plain") < 0 ? -1 : 0;
}

static int traceback(const struct v1_output *w, json_t *error)
{
    size_t i;
    json_t *line;
    json_array_foreach (json_object_get(error, "traceback"), i, line) {
        CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
        if (!w->strip_ansi || !json_string_length(line))
            continue;
        if (ck_buf_add(&b, json_string_value(line), json_string_length(line)))
            return -1;
        json_t *text = json_stringn((const char *)b.p, text_plain((char *)b.p, b.n));
        if (!text || json_array_set_new(json_object_get(error, "traceback"), i, text))
            return -1;
    }
    return 0;
}

int v1_output_apply(const struct v1_output *o, json_t *cell)
{
    size_t i;
    json_t *d;
    if (!json_is_object(cell) || stream_member(o, cell, "stdout", "stdout_bytes") ||
        stream_member(o, cell, "stderr", "stderr_bytes"))
        return -1;
    json_array_foreach (json_object_get(cell, "displays"), i, d)
        if (bundle(o, json_object_get(d, "data")))
            return -1;
    if (json_is_object(json_object_get(cell, "result")) && bundle(o, json_object_get(cell, "result")))
        return -1;
    return traceback(o, json_object_get(cell, "error"));
}
