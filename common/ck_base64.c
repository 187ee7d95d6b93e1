// Base64 by OpenSSL, which knows neither line breaks nor where padding ends: both are seen to here.
#include "common/ck_base64.h"

#include <limits.h>
#include <openssl/evp.h>

#define LINE 3072 // characters that are decoded at a time: a multiple of 4

int ck_base64_add(struct ck_buf *out, const void *p, size_t n)
{
    if (n > INT_MAX / 2 || ck_buf_reserve(out, (n + 2) / 3 * 4 + 1))
        return -1;
    out->n += (size_t)EVP_EncodeBlock(out->p + out->n, p, (int)n);
    return 0;
}

static bool is_break(char c) { return c == '\n' || c == '\r'; }

size_t ck_base64_length(const char *p, size_t n)
{
    size_t digits = 0, pad = 0;
    for (size_t i = n; i && (is_break(p[i - 1]) || p[i - 1] == '=') && pad < 2; i--)
        pad += p[i - 1] == '=';
    for (size_t i = 0; i < n; i++)
        digits += !is_break(p[i]);
    return digits / 4 * 3 >= pad ? digits / 4 * 3 - pad : 0;
}

// Decodes whole groups of four. The padding's zero bytes are taken away again; only the last group may
// have any.
static int decode_line(const char *line, size_t n, bool last, struct ck_buf *out)
{
    if (n % 4)
        return -1;
    if (!n)
        return 0;
    size_t pad = line[n - 1] == '=' ? 1 + (line[n - 2] == '=') : 0;
    if ((pad && !last) || ck_buf_reserve(out, n / 4 * 3))
        return -1;
    if (memchr(line, '=', n - pad) || line[0] == ' ' || line[0] == '\t') // EVP_DecodeBlock would take these
        return -1;
    int got = EVP_DecodeBlock(out->p + out->n, (const unsigned char *)line, (int)n);
    if (got != (int)(n / 4 * 3)) // less: it left something out at the end
        return -1;
    out->n += (size_t)got - pad;
    return 0;
}

int ck_base64_decode(const char *p, size_t n, struct ck_buf *out)
{
    char line[LINE];
    size_t have = 0, before = out->n;
    while (n && is_break(p[n - 1]))
        n--;
    for (size_t i = 0; i < n; i++) {
        if (!is_break(p[i]))
            line[have++] = p[i];
        if (have == LINE || i + 1 == n) {
            if (decode_line(line, have, i + 1 == n, out)) {
                out->n = before;
                return -1;
            }
            have = 0;
        }
    }
    return 0;
}
