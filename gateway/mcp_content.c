// Chooses what of a cell a model is shown: each value in the richest form that a model can read, never
// twice. Text loses its terminal colours. What is made by a guest is only ever a value in here.
#include "gateway/mcp_content.h"

#include "common/ck_base64.h"
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "gateway/text_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *mcp_result(bool is_error)
{
    return json_pack("{s:[],s:b}", "content", "isError", is_error);
}

static void add(json_t *result, json_t *item) { json_array_append_new(json_object_get(result, "content"), item); }

static json_t *text_value(const char *p, size_t n)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    json_t *v = json_stringn(p, n);
    if (v || ck_buf_add_json_str(&b, p, n)) // not UTF-8: made so
        return v;
    return json_loadb((const char *)b.p, b.n, JSON_DECODE_ANY, NULL);
}

void mcp_add_text(json_t *result, const char *text, size_t n)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (text_cut_middle(text, n, MCP_TEXT_MAX, &b) < 0)
        return;
    json_t *value = text_value((const char *)b.p, b.n);
    if (value)
        add(result, json_pack("{s:s,s:o}", "type", "text", "text", value));
}

json_t *mcp_text_result(bool is_error, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_t *result = mcp_result(is_error);
    mcp_add_text(result, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    return result;
}

static json_t *base64(const void *p, size_t n)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    return ck_base64_add(&text, p, n) || !text.n ? json_string("") : json_stringn((const char *)text.p, text.n);
}

int mcp_add_image(json_t *result, const char *mime, const void *p, size_t n)
{
    if (n > MCP_IMAGE_MAX / 4 * 3)
        return -1;
    add(result, json_pack("{s:s,s:o,s:s}", "type", "image", "data", base64(p, n), "mimeType", mime));
    return 0;
}

void mcp_add_whole(json_t *result, const char *why, uint32_t width, uint32_t height)
{
    char line[400];
    int n = snprintf(line, sizeof line, "[a picture is shown whole, %u x %u pixels: %.300s]", width, height, why);
    mcp_add_text(result, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void mcp_add_blob(json_t *result, const char *uri, const char *mime, const void *p, size_t n)
{
    json_t *blob = json_pack("{s:s,s:s,s:o}", "uri", uri, "mimeType", mime, "blob", base64(p, n));
    add(result, json_pack("{s:s,s:o}", "type", "resource", "resource", blob));
}

// Text as a terminal would have left it.
static void add_plain(json_t *result, const char *before, const char *text, size_t n)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    size_t at = strlen(before);
    if (ck_buf_add_str(&b, before) || ck_buf_add(&b, text, n))
        return;
    b.n = at + text_plain((char *)b.p + at, n);
    while (b.n > at && b.p[b.n - 1] == '\n')
        b.n--;
    if (b.n > at)
        mcp_add_text(result, (const char *)b.p, b.n);
}

static void add_plain_json(json_t *result, const char *before, const json_t *text)
{
    if (json_is_string(text))
        add_plain(result, before, json_string_value(text), json_string_length(text));
}

// --- values ------------------------------------------------------------------------------------------

// Base64 of the kernel without its line breaks; NULL when it is something else.
static json_t *clean_base64(const json_t *v)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const char *p = json_string_value(v);
    struct ck_buf b = CK_BUF_INIT;
    bool good = p && json_string_length(v) <= MCP_IMAGE_MAX;
    while (good && *p) { // line by line
        size_t n = strspn(p, digits);
        good = !ck_buf_add(&b, p, n);
        p += n + strspn(p + n, "\r\n");
        good = good && (!*p || strchr(digits, *p));
    }
    json_t *clean = good && b.n ? json_stringn((const char *)b.p, b.n) : NULL;
    ck_buf_free(&b);
    return clean;
}

static bool add_picture(json_t *result, const json_t *data, int *images)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/webp", "image/gif"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        json_t *clean = *images < MCP_IMAGES_MAX ? clean_base64(json_object_get(data, types[i])) : NULL;
        if (!clean)
            continue;
        add(result, json_pack("{s:s,s:o,s:s}", "type", "image", "data", clean, "mimeType", types[i]));
        (*images)++;
        return true;
    }
    return false;
}

// The first of these that there is, whole but for the cap; text/plain of a table reads better to a model
// than its HTML, but Markdown and LaTeX say more than their text/plain.
static void add_bundle(json_t *result, const json_t *data, int *images)
{
    static const char *const order[] = {"text/markdown",    "text/latex",    "text/plain",
                                        "application/json", "image/svg+xml", "text/html"};
    if (add_picture(result, data, images))
        return;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        json_t *v = json_object_get(data, order[i]);
        CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
        if (json_is_string(v)) {
            add_plain_json(result, "", v);
            return;
        }
        if (v && !ck_json_dump(v, &b)) {
            mcp_add_text(result, (const char *)b.p, b.n);
            return;
        }
    }
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)data, key, v) {
        char line[160];
        int n = snprintf(line, sizeof line, "[a value of type %.100s, which is not text]", key);
        mcp_add_text(result, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
        return;
    }
}

static void add_link(json_t *result, const json_t *a, const struct mcp_origin *origin)
{
    const char *name = ck_json_str(a, "name", "", NULL), *path = ck_json_str(a, "path", "", NULL);
    const char *change = ck_json_str(a, "change", "created", NULL),
               *mime = ck_json_str(a, "mime", "application/octet-stream", NULL);
    json_int_t size = (json_int_t)ck_json_int(a, "size", 0, NULL);
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    bool shown = json_object_get(a, "display") != NULL; // its picture is there already
    bool partial = json_is_true(json_object_get(a, "partial"));
    if (!origin->links || shown) {
        if (!ck_buf_printf(&b, "%s file %s (%s, %lld bytes%s%s)", change, path, mime, (long long)size,
                           shown ? ", a picture shown above" : "", partial ? ", still being written" : ""))
            mcp_add_text(result, (const char *)b.p, b.n);
        return;
    }
    if (ck_buf_printf(&b, "%s%s", origin->base, ck_json_str(a, "url", "", NULL)))
        return;
    add(result, json_pack("{s:s,s:s#,s:s,s:s,s:I,s:s}", "type", "resource_link", "uri", (const char *)b.p, (int)b.n,
                          "name", *name ? name : path, "mimeType", mime, "size", size, "description", path));
    b.n = 0;
    if (partial && !ck_buf_printf(&b, "%s is still being written: what it holds now is not all of it", path))
        mcp_add_text(result, (const char *)b.p, b.n);
}

static void add_artifacts(json_t *result, const json_t *list, int64_t total, const struct mcp_origin *origin)
{
    size_t i;
    json_t *a;
    char line[96];
    json_array_foreach ((json_t *)(uintptr_t)list, i, a)
        add_link(result, a, origin);
    if (total > (int64_t)json_array_size(list)) {
        int n = snprintf(line, sizeof line, "%lld files were made or changed in all", (long long)total);
        mcp_add_text(result, line, (size_t)n);
    }
}

// --- cells and commands ------------------------------------------------------------------------------

static void add_error(json_t *result, const json_t *error)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    size_t i;
    json_t *line;
    json_array_foreach (json_object_get(error, "traceback_plain"), i, line)
        if (ck_buf_add_str(&b, json_is_string(line) ? json_string_value(line) : "") || ck_buf_add_str(&b, "\n"))
            return;
    if (!b.n)
        ck_buf_printf(&b, "%s: %s", ck_json_str(error, "ename", "error", NULL), ck_json_str(error, "evalue", "", NULL));
    if (b.n)
        add_plain(result, "", (const char *)b.p, b.n);
}

static void add_ending(json_t *result, const char *status, const char *detail)
{
    char line[640];
    int n = snprintf(line, sizeof line, "The code ended: %s%s%s", status, *detail ? ": " : "", detail);
    mcp_add_text(result, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static void add_whole_ones(json_t *result, const json_t *images)
{
    size_t i;
    json_t *v;
    json_array_foreach ((json_t *)(uintptr_t)images, i, v)
        if (json_is_null(json_object_get(v, "to")))
            mcp_add_whole(result, ck_json_str(v, "message", "", NULL),
                          (uint32_t)json_integer_value(json_array_get(json_object_get(v, "from"), 0)),
                          (uint32_t)json_integer_value(json_array_get(json_object_get(v, "from"), 1)));
}

static void say_something(json_t *result)
{
    if (!json_array_size(json_object_get(result, "content")))
        mcp_add_text(result, "(no output)", 11);
}

json_t *mcp_cell_result(const json_t *finished, const struct mcp_origin *origin)
{
    const char *status = ck_json_str(finished, "status", "ok", NULL);
    json_t *result = mcp_result(strcmp(status, "ok") != 0), *d;
    size_t i;
    int images = 0;
    add_plain_json(result, "", json_object_get(finished, "stdout"));
    add_plain_json(result, "stderr:\n", json_object_get(finished, "stderr"));
    json_array_foreach (json_object_get(finished, "displays"), i, d)
        add_bundle(result, json_object_get(d, "data"), &images);
    if (json_is_object(json_object_get(finished, "result")))
        add_bundle(result, json_object_get(finished, "result"), &images);
    add_whole_ones(result, json_object_get(finished, "images"));
    if (json_is_object(json_object_get(finished, "error")))
        add_error(result, json_object_get(finished, "error"));
    if (strcmp(status, "ok") && strcmp(status, "error"))
        add_ending(result, status, ck_json_str(finished, "detail", "", NULL));
    add_artifacts(result, json_object_get(finished, "artifacts"), ck_json_int(finished, "artifacts_total", 0, NULL),
                  origin);
    say_something(result);
    return result;
}

json_t *mcp_command_result(const json_t *exit, const json_t *artifacts, struct ck_slice out, struct ck_slice err,
                           const struct mcp_origin *origin)
{
    int64_t code = ck_json_int(exit, "exit_code", 1, NULL);
    bool late = ck_json_bool(exit, "timed_out", false, NULL);
    json_t *result = mcp_result(code != 0 || late);
    add_plain(result, "", (const char *)out.p, out.n);
    add_plain(result, "stderr:\n", (const char *)err.p, err.n);
    char line[96];
    int n = late ? snprintf(line, sizeof line, "The command took too long and was killed")
                 : snprintf(line, sizeof line, "exit code %lld", (long long)code);
    if (code || late)
        mcp_add_text(result, line, (size_t)n);
    add_artifacts(result, artifacts, (int64_t)json_array_size(artifacts), origin);
    say_something(result);
    return result;
}
