// Field access over JSON text. Messages of a kernel are passed on verbatim, so building a tree of
// each would be work thrown away; the few fields that the bridge needs are found by skipping over
// the rest. Must never read outside the slice it was given, valid or not, and never recurse.
#include "kernel-bridge/jscan.h"

#include "common/ck_utf8.h"

#include <string.h>

static size_t skip_space(struct ck_slice t, size_t i)
{
    while (i < t.n && (t.p[i] == ' ' || t.p[i] == '\t' || t.p[i] == '\n' || t.p[i] == '\r'))
        i++;
    return i;
}

// i is at the opening quote; returns the index after the closing one (or the end). The quote found is
// kept from turn to turn: looking for it anew at every escape would be quadratic.
static size_t skip_string(struct ck_slice t, size_t i)
{
    const uint8_t *quote = NULL;
    for (i++; i < t.n; i++) {
        const uint8_t *here = t.p + i;
        if (!quote || quote < here)
            quote = memchr(here, '"', t.n - i);
        if (!quote)
            return t.n;
        const uint8_t *escape = memchr(here, '\\', (size_t)(quote - here));
        if (!escape)
            return (size_t)(quote - t.p) + 1;
        i = (size_t)(escape - t.p) + 1; // the escaped character is stepped over by the loop
    }
    return t.n;
}

static size_t skip_value(struct ck_slice t, size_t i)
{
    size_t depth = 0;
    while (i < t.n) {
        uint8_t c = t.p[i];
        if (c == '"') {
            i = skip_string(t, i);
        } else if (c == '{' || c == '[') {
            depth++;
            i++;
            continue;
        } else if (c == '}' || c == ']') {
            if (!depth)
                return i;
            depth--;
            i++;
        } else if (depth && (c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\t' || c == '\r')) {
            i++;
            continue;
        } else {
            while (i < t.n && !strchr(",:]} \t\r\n\"[{", t.p[i] ? t.p[i] : 'x'))
                i++;
        }
        if (!depth)
            return i;
    }
    return t.n;
}

struct jscan jscan_open(struct ck_slice c)
{
    size_t i = skip_space(c, 0);
    if (i >= c.n || (c.p[i] != '{' && c.p[i] != '['))
        return (struct jscan){c, c.n};
    return (struct jscan){ck_slice(c.p + i, c.n - i), 1};
}

bool jscan_next(struct jscan *it, struct ck_slice *key, struct ck_slice *value)
{
    struct ck_slice t = it->text;
    size_t i = skip_space(t, it->at);
    if (i < t.n && t.p[i] == ',')
        i = skip_space(t, i + 1);
    if (i >= t.n || t.p[i] == '}' || t.p[i] == ']')
        return false;
    *key = ck_slice("", 0);
    if (t.p[0] == '{') {
        if (t.p[i] != '"')
            return false;
        size_t end = skip_string(t, i);
        if (end < i + 2)
            return false;
        *key = ck_slice(t.p + i + 1, end - i - 2);
        i = skip_space(t, end);
        if (i >= t.n || t.p[i] != ':')
            return false;
        i = skip_space(t, i + 1);
    }
    size_t end = skip_value(t, i);
    *value = ck_slice(t.p + i, end - i);
    it->at = end;
    return end > i;
}

bool jscan_field(struct ck_slice object, const char *key, struct ck_slice *value)
{
    struct jscan it = jscan_open(object);
    struct ck_slice k;
    if (it.at < it.text.n && it.text.p[0] != '{')
        return false;
    while (jscan_next(&it, &k, value))
        if (ck_slice_is(k, key))
            return true;
    return false;
}

static int hex4(const uint8_t *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

// The \uXXXX at i (t.p[i] is the backslash): its value or -1.
static int escape_at(struct ck_slice t, size_t i)
{
    if (t.n < 6 || i > t.n - 6 || t.p[i] != '\\' || t.p[i + 1] != 'u')
        return -1;
    return hex4(t.p + i + 2);
}

static int add_code_point(struct ck_buf *out, uint32_t c)
{
    uint8_t b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (uint8_t)c;
    } else if (c < 0x800) {
        b[n++] = (uint8_t)(0xC0 | c >> 6);
        b[n++] = (uint8_t)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        b[n++] = (uint8_t)(0xE0 | c >> 12);
        b[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        b[n++] = (uint8_t)(0x80 | (c & 63));
    } else {
        b[n++] = (uint8_t)(0xF0 | c >> 18);
        b[n++] = (uint8_t)(0x80 | (c >> 12 & 63));
        b[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        b[n++] = (uint8_t)(0x80 | (c & 63));
    }
    return ck_buf_add(out, b, n);
}

// The escape at i; appends what it means and returns its length, 0 = no room or malformed.
static size_t decode_escape(struct ck_slice t, size_t i, struct ck_buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (i + 1 >= t.n)
        return 0;
    if (t.p[i + 1] != 'u') {
        const char *at = t.p[i + 1] ? strchr(from, t.p[i + 1]) : NULL;
        return at && !ck_buf_add(out, &to[at - from], 1) ? 2 : 0;
    }
    int hi = escape_at(t, i), lo = escape_at(t, i + 6);
    if (hi < 0)
        return 0;
    if (hi >= 0xD800 && hi < 0xDC00 && lo >= 0xDC00 && lo < 0xE000)
        return add_code_point(out, 0x10000 + ((uint32_t)(hi - 0xD800) << 10) + (uint32_t)(lo - 0xDC00)) ? 0 : 12;
    return add_code_point(out, hi >= 0xD800 && hi < 0xE000 ? 0xFFFD : (uint32_t)hi) ? 0 : 6;
}

int jscan_text(struct ck_slice v, struct ck_buf *out)
{
    if (v.n < 2 || v.p[0] != '"' || v.p[v.n - 1] != '"')
        return -1;
    struct ck_slice t = ck_slice(v.p + 1, v.n - 2);
    for (size_t i = 0; i < t.n;) {
        const uint8_t *b = memchr(t.p + i, '\\', t.n - i);
        size_t plain = b ? (size_t)(b - (t.p + i)) : t.n - i;
        if (ck_buf_add(out, t.p + i, plain))
            return -1;
        i += plain;
        if (i == t.n)
            break;
        size_t used = decode_escape(t, i, out);
        if (!used)
            return -1;
        i += used;
    }
    return 0;
}

bool jscan_str(struct ck_slice v, char *out, size_t room)
{
    struct ck_buf b = CK_BUF_INIT;
    bool ok = v.n <= 6 * room + 2 && !jscan_text(v, &b) && b.n < room && !(b.n && memchr(b.p, 0, b.n));
    if (ok && b.n)
        memcpy(out, b.p, b.n);
    out[ok ? b.n : 0] = 0;
    ck_buf_free(&b);
    return ok;
}

bool jscan_field_str(struct ck_slice object, const char *key, char *out, size_t room)
{
    struct ck_slice v;
    out[0] = 0;
    return jscan_field(object, key, &v) && jscan_str(v, out, room);
}

bool jscan_int(struct ck_slice v, int64_t *out)
{
    bool minus = v.n && v.p[0] == '-';
    size_t i = minus;
    int64_t x = 0;
    if (i == v.n || v.n - i > 18)
        return false;
    for (; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9')
            return false;
        x = x * 10 + (v.p[i] - '0');
    }
    *out = minus ? -x : x;
    return true;
}

bool jscan_true(struct ck_slice v) { return ck_slice_is(v, "true"); }

// The length of the good run at i: whole characters and escapes, pairs of surrogates kept together.
// 0 = what stands at i must be replaced; *bad is how many bytes that is.
static size_t good_at(struct ck_slice t, size_t i, size_t *bad)
{
    if (t.p[i] != '\\') {
        *bad = 1;
        return t.p[i] < 0x80 ? 1 : ck_utf8_char(t.p + i, t.n - i);
    }
    int hi = escape_at(t, i);
    if (hi < 0xD800 || hi >= 0xE000)
        return t.n - i < 2 || t.p[i + 1] >= 0x80 ? 1 : 2; // any other escape; its digits pass as plain characters
    int lo = escape_at(t, i + 6);
    if (hi < 0xDC00 && lo >= 0xDC00 && lo < 0xE000)
        return 12;
    *bad = 6;
    return 0;
}

bool jscan_needs_repair(struct ck_slice t)
{
    if (!ck_utf8_valid(t.p, t.n, NULL))
        return true;
    size_t bad;
    const uint8_t *b = t.p, *end = t.p + t.n;
    while (b < end && (b = memchr(b, '\\', (size_t)(end - b)))) {
        size_t good = good_at(t, (size_t)(b - t.p), &bad);
        if (!good)
            return true;
        b += good;
    }
    return false;
}

int jscan_repair(struct ck_slice t, struct ck_buf *out)
{
    size_t start = 0, bad = 0;
    for (size_t i = 0; i < t.n;) {
        size_t good = good_at(t, i, &bad);
        if (good) {
            i += good;
            continue;
        }
        if (ck_buf_add(out, t.p + start, i - start) || ck_buf_add(out, "\xEF\xBF\xBD", 3))
            return -1;
        i += bad;
        start = i;
    }
    return ck_buf_add(out, t.p + start, t.n - start);
}

// The index after the string that begins at i.
static size_t after_string(struct ck_slice t, size_t i)
{
    for (i++; i < t.n && t.p[i] != '"'; i++)
        i += t.p[i] == '\\';
    return i < t.n ? i + 1 : t.n;
}

int jscan_prune(struct ck_slice t, unsigned max_depth, struct ck_buf *out, size_t *left_out)
{
    size_t depth = 0, start = 0;
    *left_out = 0;
    for (size_t i = 0; i < t.n;) {
        uint8_t c = t.p[i];
        size_t next = c == '"' ? after_string(t, i) : i + 1;
        if ((c == '{' || c == '[') && depth++ == max_depth) {
            if (ck_buf_add(out, t.p + start, i - start) || ck_buf_add_str(out, JSCAN_PRUNED))
                return -1;
            start = i;
        } else if ((c == '}' || c == ']') && depth && --depth == max_depth) {
            *left_out += next - start;
            start = next;
        }
        i = next;
    }
    if (depth > max_depth) { // never closed: nobody takes it for JSON
        *left_out += t.n - start;
        return 0;
    }
    return ck_buf_add(out, t.p + start, t.n - start);
}
