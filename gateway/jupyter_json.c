// A forward-only walk over the members of one JSON object. It relies on structure alone (quotes,
// escapes, brackets) and leaves the question of validity to ck_json_valid; it must never allocate
// for what it skips, and never recurse.
#include "gateway/jupyter_json.h"

#include <jansson.h>

enum { IT_OPEN, IT_FIRST, IT_NEXT, IT_END, IT_BAD };

void jup_json_begin(struct jup_json_iter *it, struct ck_slice object)
{
    *it = (struct jup_json_iter){.text = object, .at = 0, .state = IT_OPEN};
}

static void skip_space(struct jup_json_iter *it)
{
    while (it->at < it->text.n && jup_json_space(it->text.p[it->at]))
        it->at++;
}

static bool take(struct jup_json_iter *it, uint8_t c)
{
    skip_space(it);
    if (it->at >= it->text.n || it->text.p[it->at] != c)
        return false;
    it->at++;
    return true;
}

// From the opening quote to just after the closing one; false when the text ends first.
static bool skip_string(struct jup_json_iter *it)
{
    it->at++;
    while (it->at < it->text.n) {
        uint8_t c = it->text.p[it->at++];
        if (c == '"')
            return true;
        if (c == '\\' && it->at < it->text.n)
            it->at++;
    }
    return false;
}

static bool skip_container(struct jup_json_iter *it)
{
    size_t depth = 0;
    while (it->at < it->text.n) {
        uint8_t c = it->text.p[it->at];
        if (c == '"') {
            if (!skip_string(it))
                return false;
            continue;
        }
        it->at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return true;
    }
    return false;
}

static bool skip_value(struct jup_json_iter *it)
{
    if (it->at >= it->text.n)
        return false;
    uint8_t c = it->text.p[it->at];
    if (c == '"')
        return skip_string(it);
    if (c == '{' || c == '[')
        return skip_container(it);
    size_t start = it->at;
    for (; it->at < it->text.n; it->at++) {
        c = it->text.p[it->at];
        if (c == ',' || c == '}' || c == ']' || jup_json_space(c))
            break;
    }
    return it->at > start && it->at < it->text.n; // a bare word at the very end may go on
}

static int bad(struct jup_json_iter *it)
{
    it->state = IT_BAD;
    return -1;
}

int jup_json_next(struct jup_json_iter *it, struct ck_slice *key, struct ck_slice *value)
{
    *key = *value = ck_slice("", 0);
    if (it->state == IT_END || it->state == IT_BAD)
        return it->state == IT_END ? 0 : -1;
    if (it->state == IT_OPEN) {
        if (!take(it, '{'))
            return bad(it);
        it->state = IT_FIRST;
    }
    if (take(it, '}')) {
        it->state = IT_END;
        return 0;
    }
    if (it->state == IT_NEXT && !take(it, ','))
        return bad(it);
    skip_space(it);
    size_t start = it->at;
    if (start >= it->text.n || it->text.p[start] != '"' || !skip_string(it))
        return bad(it);
    *key = ck_slice(it->text.p + start + 1, it->at - start - 2);
    if (!take(it, ':'))
        return bad(it);
    skip_space(it);
    start = it->at;
    bool whole = skip_value(it);
    *value = ck_slice(it->text.p + start, it->at - start);
    if (!whole)
        return bad(it);
    it->state = IT_NEXT;
    return 1;
}

bool jup_json_member(struct ck_slice object, const char *key, struct ck_slice *value)
{
    struct jup_json_iter it;
    struct ck_slice k, v;
    bool found = false;
    jup_json_begin(&it, object);
    while (jup_json_next(&it, &k, &v) == 1) {
        if (ck_slice_is(k, key)) {
            *value = v;
            found = true;
        }
    }
    return found;
}

static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return true;
    }
    return false;
}

int jup_json_text(struct ck_slice raw, char *out, size_t room)
{
    out[0] = 0;
    // An escaped character takes at most six bytes, so anything longer cannot fit whatever it says.
    if (raw.n < 2 || raw.p[0] != '"' || raw.n > 6 * room + 2)
        return -1;
    json_t *j = json_loadb((const char *)raw.p, raw.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const char *s = json_string_value(j);
    size_t n = json_string_length(j);
    int rc = -1;
    if (s && n < room && !has_control(s, n)) {
        memcpy(out, s, n);
        out[n] = 0;
        rc = 0;
    }
    json_decref(j);
    return rc;
}
