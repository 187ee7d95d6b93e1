// Error values: filling and wrapping. Must never allocate, log or exit.
#include "common/ck_error.h"

#include "common/ck_utf8.h"

#include <stdio.h>
#include <string.h>

// Keeps the promise of the header, whatever the arguments were (a path may hold any byte): one
// line, valid UTF-8, and no half a character where the text was cut.
static void tidy(char *text)
{
    for (size_t i = 0, n = strlen(text); i < n;) {
        size_t len = ck_utf8_char((const uint8_t *)text + i, n - i);
        unsigned char c = (unsigned char)text[i];
        if (!len && n == CK_ERR_TEXT_MAX - 1 && n - i < 4) {
            text[i] = 0;
            return;
        }
        if (!len || c < 0x20 || c == 0x7f)
            text[i] = '?';
        i += len ? len : 1;
    }
}

__attribute__((format(printf, 4, 0))) static void fill(struct ck_err *e, int status, const char *reason, const char *fmt,
                                                       va_list ap)
{
    e->status = status;
    snprintf(e->reason, sizeof e->reason, "%s", reason);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    tidy(e->text);
}

// In parentheses: the header's macros of these names are not meant here.
int (ck_fail)(struct ck_err *e, int status, const char *reason, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    fill(e, status, reason, fmt, ap);
    va_end(ap);
    return -1;
}

int (ck_wrap)(struct ck_err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    char old[CK_ERR_TEXT_MAX];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used + 3 < sizeof e->text) { // what does not fit is cut: a context is worth more than a tail
        memcpy(e->text + used, ": ", 2);
        size_t room = sizeof e->text - used - 3, len = strnlen(old, room);
        memcpy(e->text + used + 2, old, len);
        e->text[used + 2 + len] = 0;
    }
    tidy(e->text);
    return -1;
}

int (ck_fail_errno)(struct ck_err *e, int errnum, int status, const char *reason, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    fill(e, status, reason, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(errnum));
    tidy(e->text);
    return -1;
}
