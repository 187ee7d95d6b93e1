// Chunked transfer decoder. By hand because libwebsockets 4.1 hands chunked request bodies over raw.
#include "gateway/http_chunked.h"

#define SIZE_DIGITS_MAX 15      // 2^60 - 1, far beyond any cap above us
#define SKIPPED_MAX (16 * 1024) // extensions and trailers of one body

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF, DONE };

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int bad(struct ck_err *err, const char *what)
{
    return ck_fail(err, 400, "bad_chunked", "malformed chunked body: %s", what);
}

static int on_size(struct http_chunked *c, uint8_t b, struct ck_err *err)
{
    int v = hex(b);
    if (v >= 0) {
        if (++c->digits > SIZE_DIGITS_MAX)
            return bad(err, "a chunk size is too long");
        c->left = c->left << 4 | (unsigned)v;
        return 0;
    }
    if (!c->digits)
        return bad(err, "a chunk size is not a hexadecimal number");
    if (b == '\r')
        c->state = SIZE_LF;
    else if (b == ';')
        c->state = EXTENSION;
    else
        return bad(err, "a chunk size is not a hexadecimal number");
    return 0;
}

static int on_skipped(struct http_chunked *c, uint8_t b, int on_cr, struct ck_err *err)
{
    if (b == '\r') {
        c->state = on_cr;
        return 0;
    }
    if (b == '\n' || b == 0)
        return bad(err, "a bare line feed or NUL in an extension or trailer");
    c->line++;
    return ++c->skipped > SKIPPED_MAX ? bad(err, "extensions and trailers are too long") : 0;
}

static int want_lf(struct http_chunked *c, uint8_t b, int next, struct ck_err *err)
{
    c->state = next;
    return b == '\n' ? 0 : bad(err, "a line does not end in CR LF");
}

// One byte of anything but data.
static int on_byte(struct http_chunked *c, uint8_t b, struct ck_err *err)
{
    switch (c->state) {
    case SIZE:
        return on_size(c, b, err);
    case EXTENSION:
        return on_skipped(c, b, SIZE_LF, err);
    case SIZE_LF:
        c->line = 0;
        return want_lf(c, b, c->left ? DATA : TRAILER, err);
    case DATA_CR:
        c->state = DATA_LF;
        return b == '\r' ? 0 : bad(err, "a chunk is longer than its size");
    case DATA_LF:
        c->digits = 0;
        return want_lf(c, b, SIZE, err);
    case TRAILER:
        return on_skipped(c, b, TRAILER_LF, err);
    case TRAILER_LF: {
        bool empty = !c->line;
        c->line = 0;
        return want_lf(c, b, empty ? DONE : TRAILER, err);
    }
    default:
        return bad(err, "bytes after the end");
    }
}

int http_chunked_feed(struct http_chunked *c, const uint8_t *p, size_t n, size_t *used, struct ck_slice *piece,
                      struct ck_err *err)
{
    size_t i = 0;
    *piece = ck_slice(p, 0);
    while (i < n && c->state != DONE) {
        if (c->state == DATA) {
            size_t take = n - i < c->left ? n - i : (size_t)c->left;
            *piece = ck_slice(p + i, take);
            c->left -= take;
            if (!c->left)
                c->state = DATA_CR;
            *used = i + take;
            return 1;
        }
        if (on_byte(c, p[i], err)) {
            *used = i;
            return -1;
        }
        i++;
    }
    *used = i;
    return c->state == DONE ? 2 : 0;
}
