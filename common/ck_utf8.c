// UTF-8 checking, by the table of RFC 3629 section 4.
#include "common/ck_utf8.h"

static bool tail(uint8_t c) { return (c & 0xC0) == 0x80; }

size_t ck_utf8_char(const uint8_t *p, size_t n)
{
    if (!n)
        return 0;
    uint8_t c = p[0];
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return n >= 2 && tail(p[1]) ? 2 : 0;
    if (c >= 0xE0 && c <= 0xEF) {
        if (n < 3 || !tail(p[1]) || !tail(p[2]) || (c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F))
            return 0;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (n < 4 || !tail(p[1]) || !tail(p[2]) || !tail(p[3]) || (c == 0xF0 && p[1] < 0x90) ||
            (c == 0xF4 && p[1] > 0x8F))
            return 0;
        return 4;
    }
    return 0;
}

bool ck_utf8_valid(const void *data, size_t n, size_t *bad_offset)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < n;) {
        if (p[i] < 0x80) {
            i++;
            continue;
        }
        size_t len = ck_utf8_char(p + i, n - i);
        if (!len) {
            if (bad_offset)
                *bad_offset = i;
            return false;
        }
        i += len;
    }
    return true;
}
