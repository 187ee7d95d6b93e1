// Growable byte buffer. Never aborts on a full heap or a cap: it refuses and says so.
#include "common/ck_buf.h"

#include "common/ck_utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ck_buf_free(struct ck_buf *b)
{
    free(b->p);
    b->p = NULL;
    b->n = b->room = 0;
}

int ck_buf_reserve(struct ck_buf *b, size_t more)
{
    if (more > SIZE_MAX / 2 - b->n)
        return -1;
    size_t want = b->n + more;
    if (b->cap && want > b->cap)
        return -1;
    if (want <= b->room)
        return 0;
    size_t room = b->room ? b->room : 256;
    while (room < want)
        room += room / 2 + 64;
    if (b->cap && room > b->cap)
        room = b->cap;
    uint8_t *p = realloc(b->p, room + 1); // one more, so that a NUL fits behind a full buffer
    if (!p)
        return -1;
    b->p = p;
    b->room = room;
    return 0;
}

int ck_buf_add(struct ck_buf *b, const void *p, size_t n)
{
    if (!n)
        return 0;
    if (ck_buf_reserve(b, n))
        return -1;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

int ck_buf_add_str(struct ck_buf *b, const char *s) { return ck_buf_add(b, s, strlen(s)); }

int ck_buf_printf(struct ck_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int rc = n == 0 ? 0 : -1;
    if (n > 0 && !ck_buf_reserve(b, (size_t)n)) {
        vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
        rc = 0;
    }
    va_end(again);
    return rc;
}

void ck_buf_consume(struct ck_buf *b, size_t n)
{
    if (n >= b->n) {
        b->n = 0;
        return;
    }
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
}

static int add_json_char(struct ck_buf *b, const char *s, size_t n, size_t *used)
{
    unsigned char c = (unsigned char)*s;
    *used = 1;
    switch (c) {
    case '"': return ck_buf_add(b, "\\\"", 2);
    case '\\': return ck_buf_add(b, "\\\\", 2);
    case '\n': return ck_buf_add(b, "\\n", 2);
    case '\r': return ck_buf_add(b, "\\r", 2);
    case '\t': return ck_buf_add(b, "\\t", 2);
    default: break;
    }
    if (c < 0x20)
        return ck_buf_printf(b, "\\u%04x", c);
    if (c < 0x80)
        return ck_buf_add(b, s, 1);
    size_t len = ck_utf8_char((const uint8_t *)s, n);
    if (!len)
        return ck_buf_add(b, "\xEF\xBF\xBD", 3);
    *used = len;
    return ck_buf_add(b, s, len);
}

int ck_buf_add_json_str(struct ck_buf *b, const char *s, size_t n)
{
    if (ck_buf_add(b, "\"", 1))
        return -1;
    for (size_t i = 0, used; i < n; i += used) {
        size_t plain = i; // copy runs of plain ASCII at once
        while (plain < n && s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\')
            plain++;
        if (plain > i) {
            used = plain - i;
            if (ck_buf_add(b, s + i, used))
                return -1;
        } else if (add_json_char(b, s + i, n - i, &used)) {
            return -1;
        }
    }
    return ck_buf_add(b, "\"", 1);
}
