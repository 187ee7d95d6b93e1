// See text_model.h. Linear, no allocation but that of the caller's buffer.
#include "gateway/text_model.h"


#define ESC 0x1b

// Length of the escape sequence at p (p[0] is ESC), at most n. An unfinished one is all of the rest.
static size_t sequence_length(const uint8_t *p, size_t n)
{
    size_t i = 2;
    if (n < 2)
        return n;
    if (p[1] == '[') { // CSI: parameters and intermediates, then one final byte
        while (i < n && p[i] >= 0x20 && p[i] <= 0x3f)
            i++;
        return i < n && p[i] >= 0x40 && p[i] <= 0x7e ? i + 1 : i;
    }
    if (p[1] && strchr("]PX^_", p[1])) { // OSC, DCS, SOS, PM, APC: up to BEL or ESC backslash
        for (; i < n; i++) {
            if (p[i] == 0x07)
                return i + 1;
            if (p[i] == ESC && i + 1 < n && p[i + 1] == '\\')
                return i + 2;
        }
        return n;
    }
    while (i <= n && p[i - 1] >= 0x20 && p[i - 1] <= 0x2f) // intermediates, as in the choice of a character set
        i++;
    return i <= n ? i : n;
}

size_t text_plain(char *text, size_t n)
{
    uint8_t *p = (uint8_t *)text;
    size_t out = 0, line = 0;
    for (size_t i = 0; i < n;) {
        if (p[i] == ESC) {
            size_t skip = sequence_length(p + i, n - i);
            while (skip > 1 && i + skip < n && (p[i + skip] & 0xc0) == 0x80)
                skip++; // not in the middle of a character
            i += skip;
        } else if (p[i] == '\r') {
            size_t j = i + 1;
            while (j < n && p[j] == '\r')
                j++;
            if (j < n && p[j] != '\n')
                out = line; // what follows is written over it
            i = j;
        } else {
            p[out++] = p[i];
            if (p[i++] == '\n')
                line = out;
        }
    }
    return out;
}

int64_t text_cut_middle(const char *p, size_t n, size_t max, struct ck_buf *out)
{
    if (!max || n <= max)
        return ck_buf_add(out, p, n) ? -1 : 0;
    size_t head = max / 2, tail = n - (max - head);
    while (head && ((uint8_t)p[head] & 0xc0) == 0x80)
        head--;
    while (tail < n && ((uint8_t)p[tail] & 0xc0) == 0x80)
        tail++;
    int rc = ck_buf_add(out, p, head) || ck_buf_printf(out, "\n[… %zu bytes left out …]\n", tail - head) ||
             ck_buf_add(out, p + tail, n - tail);
    return rc ? -1 : (int64_t)(tail - head);
}
