// JSON helpers. The validator is a small pushdown automaton without recursion, so that depth is a
// number it checks and not the C stack.
#include "common/ck_json.h"

#include "common/ck_utf8.h"

#include <stdio.h>
#include <string.h>

// Line and column of byte `at`, both from 1; columns count bytes.
static void locate(const uint8_t *p, size_t at, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        (*column)++;
        if (p[i] == '\n') {
            (*line)++;
            *column = 1;
        }
    }
}

// Commas outside of strings, and how deep the brackets before `at` are, in text that is JSON up to there.
static void survey(const uint8_t *p, size_t at, size_t *commas, size_t *depth)
{
    bool quoted = false;
    *commas = *depth = 0;
    for (size_t i = 0; i < at; i++) {
        uint8_t c = p[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && c == ',')
            ++*commas;
        else if (!quoted && (c == '{' || c == '['))
            ++*depth;
        else if (!quoted && (c == '}' || c == ']') && *depth)
            --*depth;
    }
}

// In plain words, why text stops being JSON at byte `at`. Repeats no more of it than one character.
static void explain(const uint8_t *p, size_t n, size_t at, char *out, size_t room)
{
    size_t commas, depth;
    survey(p, at, &commas, &depth);
    if (at >= n)
        snprintf(out, room, "the text ends before the JSON does");
    else if (p[at] >= 0x80 && !ck_utf8_char(p + at, n - at))
        snprintf(out, room, "bytes that are not UTF-8");
    else if ((p[at] == '{' || p[at] == '[') && depth >= CK_JSON_DEPTH_MAX)
        snprintf(out, room, "nested deeper than %d", CK_JSON_DEPTH_MAX);
    else if (p[at] == '\\')
        snprintf(out, room, "a backslash that begins none of JSON's escapes");
    else if (p[at] == '\'')
        snprintf(out, room, "a single quote, where JSON wants double quotes");
    else if (p[at] < 0x20)
        snprintf(out, room, "a line break or control character inside a string must be written as \\n or \\u00XX");
    else if (p[at] < 0x7f)
        snprintf(out, room, "\"%c\" is not what JSON has here", p[at]);
    else
        snprintf(out, room, "a character that JSON does not have here");
}

// What jansson still refuses in text that our scanner took. Its words for a client's eyes.
static const char *plain_words(char *theirs)
{
    static const struct {
        const char *has, *say;
    } words[] = {
        {"NUL", "a NUL character (\\u0000) is not allowed here"},
        {"duplicate", "an object has the same key twice"},
        {"Unicode", "half of a surrogate pair (\\uD800 to \\uDFFF) stands alone"},
        {"integer", "a whole number is beyond 64 bits"},
        {"real", "a number is too large"},
        {"memory", "it is too large"},
    };
    char *near = strstr(theirs, " near ");
    if (near)
        *near = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(theirs, words[i].has))
            return words[i].say;
    return "it is not JSON";
}

json_t *ck_json_parse_object(const void *p, size_t n, bool empty_ok, struct ck_err *err)
{
    if (n == 0 && empty_ok)
        return json_object();
    size_t at, line, column, commas = 0, depth;
    char why[128];
    // jansson recurses to 2048 levels; ours is stricter, and checked first without building anything.
    if (!ck_json_valid(p, n, &at)) {
        locate(p, at, &line, &column);
        explain(p, n, at, why, sizeof why);
        ck_fail(err, 400, "bad_json", "malformed JSON at line %zu column %zu (byte %zu): %s", line, column, at, why);
        return NULL;
    }
    if (n > CK_JSON_VALUES_MAX)
        survey(p, n, &commas, &depth);
    if (commas >= CK_JSON_VALUES_MAX) {
        ck_fail(err, 400, "bad_json", "the JSON has more than %d values", CK_JSON_VALUES_MAX);
        return NULL;
    }
    json_error_t je = {.line = 0};
    json_t *j = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (json_is_object(j))
        return j;
    if (j)
        ck_fail(err, 400, "bad_json", "expected a JSON object");
    else // its text ends with the input around the place: that may be a cell's code, and is not repeated
        ck_fail(err, 400, "bad_json", "malformed JSON at line %d column %d: %s", je.line, je.column, plain_words(je.text));
    json_decref(j);
    return NULL;
}

static size_t skip_space(const uint8_t *p, size_t n, size_t i)
{
    while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r'))
        i++;
    return i;
}

static bool is_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

// i is just after the opening quote; true with *end just after the closing one.
static bool scan_string(const uint8_t *p, size_t n, size_t i, size_t *end)
{
    while (i < n) {
        uint8_t c = p[i];
        if (c == '"') {
            *end = i + 1;
            return true;
        }
        if (c < 0x20)
            break;
        if (c == '\\') {
            if (i + 1 >= n)
                break;
            uint8_t e = p[i + 1];
            if (e == 'u') {
                if (n - i < 6 || !is_hex(p[i + 2]) || !is_hex(p[i + 3]) || !is_hex(p[i + 4]) || !is_hex(p[i + 5]))
                    break;
                i += 6;
            } else if (e && strchr("\"\\/bfnrt", e)) {
                i += 2;
            } else {
                break;
            }
        } else if (c < 0x80) {
            i++;
        } else {
            size_t len = ck_utf8_char(p + i, n - i);
            if (!len)
                break;
            i += len;
        }
    }
    *end = i;
    return false;
}

static bool scan_number(const uint8_t *p, size_t n, size_t i, size_t *end)
{
    if (i < n && p[i] == '-')
        i++;
    *end = i;
    if (i >= n || !is_digit(p[i]))
        return false;
    if (p[i] == '0')
        i++;
    else
        while (i < n && is_digit(p[i]))
            i++;
    if (i < n && p[i] == '.') {
        i++;
        *end = i;
        if (i >= n || !is_digit(p[i]))
            return false;
        while (i < n && is_digit(p[i]))
            i++;
    }
    if (i < n && (p[i] == 'e' || p[i] == 'E')) {
        i++;
        if (i < n && (p[i] == '+' || p[i] == '-'))
            i++;
        *end = i;
        if (i >= n || !is_digit(p[i]))
            return false;
        while (i < n && is_digit(p[i]))
            i++;
    }
    *end = i;
    return true;
}

static bool scan_word(const uint8_t *p, size_t n, size_t i, size_t *end)
{
    // Python's json.dumps writes NaN and Infinity; strict JSON has neither, and neither do browsers.
    static const char *const words[] = {"true", "false", "null"};
    for (unsigned k = 0; k < 3; k++) {
        size_t len = strlen(words[k]);
        if (n - i >= len && !memcmp(p + i, words[k], len)) {
            *end = i + len;
            return true;
        }
    }
    *end = i;
    return false;
}

static bool scan_key(const uint8_t *p, size_t n, size_t i, size_t *end)
{
    *end = i;
    if (i >= n || p[i] != '"' || !scan_string(p, n, i + 1, &i)) {
        *end = i;
        return false;
    }
    i = skip_space(p, n, i);
    *end = i;
    if (i >= n || p[i] != ':')
        return false;
    *end = skip_space(p, n, i + 1);
    return true;
}

// After a value: consumes closers and commas. Outcomes in *st: next value expected or finished.
enum after { AFTER_VALUE, AFTER_DONE, AFTER_BAD };

static enum after scan_after(const uint8_t *p, size_t n, size_t *i, const uint8_t *stack, unsigned *depth)
{
    for (;;) {
        *i = skip_space(p, n, *i);
        if (*depth == 0)
            return *i == n ? AFTER_DONE : AFTER_BAD;
        if (*i >= n)
            return AFTER_BAD;
        uint8_t open = stack[*depth - 1], c = p[*i];
        if (c == (open == '{' ? '}' : ']')) {
            (*depth)--;
            (*i)++;
            continue;
        }
        if (c != ',')
            return AFTER_BAD;
        *i = skip_space(p, n, *i + 1);
        if (open == '{' && !scan_key(p, n, *i, i))
            return AFTER_BAD;
        return AFTER_VALUE;
    }
}

// One value's start at *i. Returns 1 = container opened and not empty (next value expected),
// 0 = a whole value consumed, -1 = bad.
static int scan_value(const uint8_t *p, size_t n, size_t *i, uint8_t *stack, unsigned *depth)
{
    if (*i >= n)
        return -1;
    uint8_t c = p[*i];
    if (c == '"')
        return scan_string(p, n, *i + 1, i) ? 0 : -1;
    if (c == '-' || is_digit(c))
        return scan_number(p, n, *i, i) ? 0 : -1;
    if (c != '{' && c != '[')
        return scan_word(p, n, *i, i) ? 0 : -1;
    if (*depth >= CK_JSON_DEPTH_MAX)
        return -1;
    size_t inner = skip_space(p, n, *i + 1);
    if (inner < n && p[inner] == (c == '{' ? '}' : ']')) {
        *i = inner + 1;
        return 0;
    }
    stack[(*depth)++] = c;
    *i = inner;
    return c == '[' || scan_key(p, n, inner, i) ? 1 : -1;
}

bool ck_json_valid(const void *data, size_t n, size_t *offset)
{
    const uint8_t *p = data;
    uint8_t stack[CK_JSON_DEPTH_MAX];
    unsigned depth = 0;
    size_t i = skip_space(p, n, 0);
    bool ok = false;
    for (;;) {
        int v = scan_value(p, n, &i, stack, &depth);
        if (v < 0)
            break;
        if (v > 0)
            continue;
        enum after a = scan_after(p, n, &i, stack, &depth);
        if (a == AFTER_VALUE)
            continue;
        ok = a == AFTER_DONE;
        break;
    }
    if (!ok && offset)
        *offset = i;
    return ok;
}

static const json_t *field(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return v && !json_is_null(v) ? v : NULL;
}

static void wrong(struct ck_err *err, const char *key, const char *want)
{
    if (err && !err->status)
        ck_fail(err, 400, "bad_field", "field \"%.64s\" must be %s", key, want);
}

const char *ck_json_str(const json_t *o, const char *key, const char *def, struct ck_err *err)
{
    const json_t *v = field(o, key);
    if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
        return json_string_value(v);
    if (v)
        wrong(err, key, "a string without NUL");
    return def;
}

int64_t ck_json_int(const json_t *o, const char *key, int64_t def, struct ck_err *err)
{
    const json_t *v = field(o, key);
    if (json_is_integer(v))
        return json_integer_value(v);
    if (v)
        wrong(err, key, "a whole number");
    return def;
}

bool ck_json_bool(const json_t *o, const char *key, bool def, struct ck_err *err)
{
    const json_t *v = field(o, key);
    if (json_is_boolean(v))
        return json_is_true(v);
    if (v)
        wrong(err, key, "true or false");
    return def;
}

json_t *ck_json_obj(const json_t *o, const char *key, struct ck_err *err)
{
    json_t *v = json_object_get(o, key);
    if (json_is_object(v))
        return v;
    if (v && !json_is_null(v))
        wrong(err, key, "an object");
    return NULL;
}

static int dump_chunk(const char *p, size_t n, void *out) { return ck_buf_add(out, p, n); }

int ck_json_dump(const json_t *j, struct ck_buf *out)
{
    return json_dump_callback(j, dump_chunk, out, JSON_COMPACT | JSON_ENCODE_ANY);
}
