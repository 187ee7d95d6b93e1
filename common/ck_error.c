// Error values: filling and wrapping. Must never allocate, log or exit.
#include "common/ck_error.h"

#include <stdio.h>
#include <string.h>

static void fill(struct ck_err *e, int status, const char *reason, const char *fmt, va_list ap)
{
    e->status = status;
    snprintf(e->reason, sizeof e->reason, "%s", reason);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
}

int ck_fail(struct ck_err *e, int status, const char *reason, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    fill(e, status, reason, fmt, ap);
    va_end(ap);
    return -1;
}

int ck_wrap(struct ck_err *e, const char *fmt, ...)
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
    return -1;
}

int ck_fail_errno(struct ck_err *e, int errnum, int status, const char *reason, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    fill(e, status, reason, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(errnum));
    return -1;
}
