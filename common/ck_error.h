// One error value for every room. A function that can fail takes a `struct ck_err *` last,
// returns 0 on success and a negative number on failure; positive returns are outcomes that the
// header of that function lists. The text is for the person who meets it: what was wrong and what
// would be right. Never put tokens, keys, cell contents or environments in it.
#pragma once
#include <stdarg.h>
#include <stddef.h>

#define CK_ERR_REASON_MAX 40
#define CK_ERR_TEXT_MAX 512

struct ck_err {
    int status;                     // HTTP status that fits, 400..599
    char reason[CK_ERR_REASON_MAX]; // machine word, e.g. "no_such_session"
    char text[CK_ERR_TEXT_MAX];     // one line, UTF-8
};

#define CK_ERR_INIT {0, "", ""}

// Fills *e (may be NULL) and returns -1, so that callers can `return ck_fail(...)`.
int ck_fail(struct ck_err *e, int status, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// Puts "context: " before the text of an error that crosses a boundary. Returns -1.
int ck_wrap(struct ck_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// As ck_fail with ": " and strerror(errnum) appended.
int ck_fail_errno(struct ck_err *e, int errnum, int status, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

// That these always return -1 is theirs to promise and, through these macros, the compiler's and the
// analyzers' to rely on: what is done after a success is then not looked at after a failure.
static inline int ck_minus_one_(int rc)
{
    (void)rc;
    return -1;
}
#define ck_fail(...) ck_minus_one_(ck_fail(__VA_ARGS__))
#define ck_wrap(...) ck_minus_one_(ck_wrap(__VA_ARGS__))
#define ck_fail_errno(...) ck_minus_one_(ck_fail_errno(__VA_ARGS__))
