// Percent-encoding of paths and queries.
#include "gateway/http_url.h"

#include "common/ck_utf8.h"

#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int http_url_bytes(const char *in, size_t n, bool plus_is_space, char *out)
{
    size_t o = 0;
    for (size_t i = 0; i < n; i++) {
        char c = in[i];
        if (c == '%') {
            if (n - i < 3 || hex(in[i + 1]) < 0 || hex(in[i + 2]) < 0)
                return -1;
            c = (char)(hex(in[i + 1]) << 4 | hex(in[i + 2]));
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (!c)
            return -1;
        out[o++] = c;
    }
    out[o] = 0;
    return 0;
}

int http_url_decode(const char *in, size_t n, bool plus_is_space, char *out)
{
    return http_url_bytes(in, n, plus_is_space, out) || !ck_utf8_valid(out, strlen(out), NULL) ? -1 : 0;
}

// True when the raw name p[0..n) decodes to name.
static bool name_is(const char *p, size_t n, const char *name)
{
    char buf[128];
    return n < sizeof buf && !http_url_decode(p, n, true, buf) && !strcmp(buf, name);
}

bool http_url_query(const char *query, const char *name, const char **value, size_t *len)
{
    while (query && *query) {
        size_t pair = strcspn(query, "&");
        const char *eq = memchr(query, '=', pair);
        size_t key = eq ? (size_t)(eq - query) : pair;
        if (name_is(query, key, name)) {
            *value = eq ? eq + 1 : query + pair;
            *len = eq ? pair - key - 1 : 0;
            return true;
        }
        query += pair;
        query += *query == '&';
    }
    return false;
}
