// Checks request bodies before anything is done with them. Every message says which field, what was
// wrong and what would be right; contents of fields are never repeated, they may be secret.
#include "gateway/v1_body.h"

#include "common/ck_ignore.h"
#include "common/ck_json.h"
#include "common/ck_utf8.h"

#include <string.h>

#define bad(err, ...) ck_fail(err, 400, "bad_field", __VA_ARGS__)

json_t *v1_body_object(struct ck_slice s, bool empty_ok, struct ck_err *err)
{
    size_t at;
    if (!ck_utf8_valid(s.p, s.n, &at)) {
        ck_fail(err, 400, "bad_utf8", "the body is not valid UTF-8 at byte %zu", at);
        return NULL;
    }
    return ck_json_parse_object(s.p, s.n, empty_ok, err);
}

static bool listed(const char *const *known, const char *key)
{
    for (; *known; known++)
        if (!strcmp(*known, key))
            return true;
    return false;
}

int v1_body_only(json_t *o, const char *what, const char *const *known, struct ck_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach (o, key, v) {
        if (listed(known, key))
            continue;
        char all[256] = "";
        size_t n = 0;
        for (size_t i = 0; known[i] && n + strlen(known[i]) + 3 < sizeof all; i++) {
            n += (size_t)(stpcpy(all + n, i ? ", " : "") - (all + n));
            n += (size_t)(stpcpy(all + n, known[i]) - (all + n));
        }
        return ck_fail(err, 400, "unknown_field", "unknown field \"%.64s\" in %s: known are %s", key, what, all);
    }
    return 0;
}

static bool has(const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return v && !json_is_null(v);
}

static bool printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

static int name_field(const json_t *o, const char *key, const char **out, struct ck_err *err)
{
    const char *s = ck_json_str(o, key, NULL, err);
    if (err->status)
        return -1;
    if (s && (!*s || strlen(s) > V1_NAME_FIELD_MAX || !printable(s)))
        return bad(err, "field \"%s\" must be 1 to 200 bytes of text without control characters", key);
    *out = s;
    return 0;
}

// A time in seconds as a whole or decimal number; -1 in *ms when absent.
static int seconds_field(const json_t *o, const char *key, double min, int64_t *ms, struct ck_err *err)
{
    *ms = -1;
    if (!has(o, key))
        return 0;
    const json_t *v = json_object_get(o, key);
    double s = json_is_number(v) ? json_number_value(v) : -1;
    if (!(s >= min && s <= V1_TIMEOUT_MAX_S))
        return bad(err,
                   min > 0 ? "field \"%s\" must be a number of seconds, more than 0 and at most 604800 (7 days)"
                           : "field \"%s\" must be a number of seconds from 0 (no limit) to 604800 (7 days)",
                   key);
    *ms = (int64_t)(s * 1000 + 0.5);
    return 0;
}

static int env_name(const char *s)
{
    if (!*s || (*s >= '0' && *s <= '9'))
        return -1;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_'))
            return -1;
    return 0;
}

static int env_field(const json_t *o, json_t **out, struct ck_err *err)
{
    json_t *env = ck_json_obj(o, "env", err), *v;
    const char *key;
    size_t bytes = 0;
    if (err->status)
        return -1;
    *out = env;
    if (json_object_size(env) > V1_ENV_MAX)
        return bad(err, "field \"%s\" may hold at most 256 variables", "env");
    json_object_foreach (env, key, v) {
        if (env_name(key))
            return bad(err, "every name in \"%s\" must be letters, digits and _ and not start with a digit", "env");
        if (!json_is_string(v))
            return bad(err, "every value in \"%s\" must be a string", "env");
        bytes += strlen(key) + json_string_length(v) + 2;
        if (bytes > V1_ENV_BYTES_MAX)
            return bad(err, "field \"%s\" may hold at most 131072 bytes", "env");
    }
    return 0;
}

static int metadata_field(const json_t *o, json_t **out, struct ck_err *err)
{
    *out = ck_json_obj(o, "metadata", err);
    if (err->status)
        return -1;
    struct ck_buf b = {.cap = V1_METADATA_MAX};
    int r = *out ? ck_json_dump(*out, &b) : 0;
    ck_buf_free(&b);
    return r ? bad(err, "field \"%s\" may be at most 65536 bytes of JSON", "metadata") : 0;
}

static int timeouts_field(const json_t *o, struct v1_session_body *out, struct ck_err *err)
{
    static const char *const known[] = {"cell_s", "idle_s", "delete_s", NULL};
    json_t *t = ck_json_obj(o, "timeouts", err);
    if (err->status || !t)
        return err->status ? -1 : 0;
    int64_t *const fields[] = {&out->cell_s, &out->idle_s, &out->delete_s};
    if (v1_body_only(t, "\"timeouts\"", known, err))
        return -1;
    for (size_t i = 0; i < 3; i++) {
        int64_t v = ck_json_int(t, known[i], -1, err);
        if (err->status)
            return -1;
        if (has(t, known[i]) && (v < 0 || v > V1_TIMEOUT_MAX_S))
            return bad(err, "field \"timeouts.%s\" must be a whole number of seconds from 0 (no limit) to 604800",
                       known[i]);
        *fields[i] = v;
    }
    return 0;
}

int v1_session_body_parse(struct ck_slice json, bool patch, struct v1_session_body *out, struct ck_err *err)
{
    static const char *const create_fields[] = {"name", "template", "memory_mb", "env", "timeouts", "limits", "metadata", "artifact_ignore", NULL};
    static const char *const patch_fields[] = {"name", "metadata", "timeouts", NULL};
    *out = (struct v1_session_body){.memory_mb = -1, .cell_s = -1, .idle_s = -1, .delete_s = -1};
    json_t *o = out->body = v1_body_object(json, !patch, err);
    if (!o || v1_body_only(o, "a session", patch ? patch_fields : create_fields, err) ||
        name_field(o, "name", &out->name, err) || name_field(o, "template", &out->template_name, err) ||
        env_field(o, &out->env, err) || metadata_field(o, &out->metadata, err) || timeouts_field(o, out, err))
        return -1;
    out->limits = ck_json_obj(o, "limits", err);
    if (err->status)
        return -1;
    out->artifact_ignore = has(o, "artifact_ignore") ? json_object_get(o, "artifact_ignore") : NULL;
    if (out->artifact_ignore && ck_ignore_check(out->artifact_ignore, "artifact_ignore", err))
        return -1;
    out->memory_mb = ck_json_int(o, "memory_mb", -1, err);
    if (err->status)
        return -1;
    if (has(o, "memory_mb") && (out->memory_mb < 1 || out->memory_mb > V1_MEMORY_MB_MAX))
        return bad(err, "field \"%s\" must be a number of mebibytes, at least 1", "memory_mb");
    return 0;
}

void v1_session_body_free(struct v1_session_body *b)
{
    json_decref(b->body);
    memset(b, 0, sizeof *b);
}

// "a\nb\n" as ["a","b"]: each input() takes one line.
static json_t *split_lines(const char *s, size_t n)
{
    json_t *a = json_array();
    for (const char *end = s + n; s < end;) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        const char *stop = nl ? nl : end;
        json_array_append_new(a, json_stringn(s, (size_t)(stop - s)));
        s = nl ? nl + 1 : end;
    }
    return a;
}

static int stdin_list(json_t *list, struct ck_err *err)
{
    size_t i, bytes = 0;
    json_t *v;
    json_array_foreach (list, i, v) {
        if (!json_is_string(v))
            return bad(err, "every line in \"%s\" must be a string", "stdin");
        bytes += json_string_length(v) + 1;
    }
    if (i > V1_STDIN_LINES_MAX || bytes > V1_STDIN_BYTES_MAX)
        return bad(err, "field \"%s\" may hold at most 10000 lines and 1048576 bytes", "stdin");
    return 0;
}

static int stdin_field(json_t *o, struct v1_cell_body *out, struct ck_err *err)
{
    json_t *v = json_object_get(o, "stdin");
    if (!v || json_is_null(v) || json_is_false(v))
        return 0;
    if (json_is_true(v)) {
        out->stdin_mode = V1_STDIN_INTERACTIVE;
        return 0;
    }
    out->stdin_mode = V1_STDIN_LINES;
    if (json_is_string(v))
        out->lines = split_lines(json_string_value(v), json_string_length(v));
    else if (json_is_array(v))
        out->lines = json_incref(v);
    else
        return bad(err, "field \"%s\" must be a string, a list of lines, or true (you will answer while it runs)",
                   "stdin");
    return stdin_list(out->lines, err);
}

int v1_cell_body_parse(struct ck_slice json, struct v1_cell_body *out, struct ck_err *err)
{
    json_t *o = v1_body_object(json, false, err);
    if (o)
        return v1_cell_body_check(o, out, err);
    memset(out, 0, sizeof *out);
    return -1;
}

int v1_cell_body_check(json_t *o, struct v1_cell_body *out, struct ck_err *err)
{
    static const char *const known[] = {"code", "timeout_s", "stdin", "silent", "output", NULL};
    memset(out, 0, sizeof *out);
    out->body = o;
    if (v1_body_only(o, "a cell", known, err))
        return -1;
    json_t *code = json_object_get(o, "code");
    if (!json_is_string(code))
        return bad(err, "field \"%s\" is required and must be a string", "code");
    out->code = json_string_value(code);
    out->code_n = json_string_length(code);
    if (seconds_field(o, "timeout_s", 0.001, &out->timeout_ms, err) || stdin_field(o, out, err))
        return -1;
    if (out->timeout_ms < 0)
        out->timeout_ms = 0;
    out->silent = ck_json_bool(o, "silent", false, err);
    if (err->status)
        return -1;
    return has(o, "output") ? v1_output_parse(json_object_get(o, "output"), &out->output, err) : 0;
}

void v1_cell_body_free(struct v1_cell_body *b)
{
    v1_output_free(&b->output);
    json_decref(b->lines);
    json_decref(b->body);
    memset(b, 0, sizeof *b);
}

static int argv_field(json_t *o, struct v1_command_body *out, struct ck_err *err)
{
    json_t *argv = json_object_get(o, "argv"), *v;
    size_t i, bytes = 0;
    if (!json_is_array(argv) || !json_array_size(argv) || json_array_size(argv) > V1_ARGV_MAX)
        return bad(err, "field \"%s\" must be a list of 1 to 1024 strings", "argv");
    json_array_foreach (argv, i, v) {
        if (!json_is_string(v) || (i == 0 && !json_string_length(v)))
            return bad(err, "every item of \"%s\" must be a string, the first not empty", "argv");
        bytes += json_string_length(v) + 1;
    }
    if (bytes > V1_COMMAND_BYTES_MAX)
        return bad(err, "field \"%s\" may hold at most 131072 bytes", "argv");
    out->argv = argv;
    return 0;
}

static int cmd_field(json_t *o, struct v1_command_body *out, struct ck_err *err)
{
    if (has(o, "cmd") == has(o, "argv"))
        return bad(err, "give either %s (a shell command) or \"argv\" (a list of strings)", "\"cmd\"");
    if (has(o, "argv"))
        return argv_field(o, out, err);
    out->cmd = ck_json_str(o, "cmd", NULL, err);
    if (err->status)
        return -1;
    if (!*out->cmd || strlen(out->cmd) > V1_COMMAND_BYTES_MAX)
        return bad(err, "field \"%s\" must be 1 to 131072 bytes", "cmd");
    return 0;
}

int v1_command_body_parse(struct ck_slice json, int64_t default_timeout_ms, struct v1_command_body *out,
                          struct ck_err *err)
{
    static const char *const known[] = {"cmd", "argv", "cwd", "env", "timeout_s", "stdin", NULL};
    memset(out, 0, sizeof *out);
    json_t *o = out->body = v1_body_object(json, false, err);
    if (!o || v1_body_only(o, "a command", known, err) || cmd_field(o, out, err) || env_field(o, &out->env, err) ||
        seconds_field(o, "timeout_s", 0.001, &out->timeout_ms, err))
        return -1;
    if (out->timeout_ms < 0)
        out->timeout_ms = default_timeout_ms;
    const char *cwd = ck_json_str(o, "cwd", "/home/user", err);
    if (err->status || v1_path_from_body(cwd, out->cwd, err))
        return -1;
    out->stdin_text = ck_json_str(o, "stdin", "", err);
    if (err->status)
        return -1;
    out->stdin_n = strlen(out->stdin_text);
    if (out->stdin_n > V1_STDIN_BYTES_MAX)
        return bad(err, "field \"%s\" may hold at most 1048576 bytes", "stdin");
    return 0;
}

void v1_command_body_free(struct v1_command_body *b)
{
    json_decref(b->body);
    memset(b, 0, sizeof *b);
}

const char *v1_stdin_body_parse(struct ck_slice json, json_t **body, struct ck_err *err)
{
    *body = v1_body_object(json, false, err);
    return *body ? v1_stdin_body_check(*body, err) : NULL;
}

const char *v1_stdin_body_check(json_t *o, struct ck_err *err)
{
    static const char *const known[] = {"value", "eof", NULL};
    if (v1_body_only(o, "the answer", known, err))
        return NULL;
    bool eof = ck_json_bool(o, "eof", false, err);
    const char *value = ck_json_str(o, "value", NULL, err);
    if (err->status)
        return NULL;
    if (eof == (value != NULL)) {
        bad(err, "give %s (one line of text) or \"eof\": true", "\"value\"");
        return NULL;
    }
    if (value && strlen(value) > V1_STDIN_BYTES_MAX) {
        bad(err, "field \"%s\" may hold at most 1048576 bytes", "value");
        return NULL;
    }
    return eof ? "\x04" : value;
}
