// A growable byte buffer with a cap, and a borrowed slice of bytes.
// A buffer that would pass its cap, or cannot grow, refuses (returns -1) and keeps what it had.
// Behind a buffer that has grown there is always room for one more byte, for a NUL.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ck_slice {
    const uint8_t *p; // not owned
    size_t n;
};
static inline struct ck_slice ck_slice(const void *p, size_t n) { return (struct ck_slice){p, n}; }
static inline struct ck_slice ck_slice_str(const char *s) { return (struct ck_slice){(const uint8_t *)s, strlen(s)}; }
static inline bool ck_slice_is(struct ck_slice s, const char *text)
{
    return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

struct ck_buf {
    uint8_t *p; // owned; NULL while empty
    size_t n;   // bytes used
    size_t room;
    size_t cap; // 0 = no cap
};
#define CK_BUF_INIT {NULL, 0, 0, 0}

void ck_buf_free(struct ck_buf *b);                            // leaves an empty buffer with the same cap
int ck_buf_reserve(struct ck_buf *b, size_t more);             // room for `more` bytes after n
int ck_buf_add(struct ck_buf *b, const void *p, size_t n);     // appends
int ck_buf_add_str(struct ck_buf *b, const char *s);
int ck_buf_printf(struct ck_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ck_buf_consume(struct ck_buf *b, size_t n);               // drops n bytes from the front
// Appends s as a JSON string literal with quotes; invalid UTF-8 becomes U+FFFD.
int ck_buf_add_json_str(struct ck_buf *b, const char *s, size_t n);
static inline struct ck_slice ck_buf_slice(const struct ck_buf *b) { return (struct ck_slice){b->p, b->n}; }

static inline void ck_clean_buf_(struct ck_buf *b) { ck_buf_free(b); }
#define CK_CLEAN_BUF __attribute__((cleanup(ck_clean_buf_)))
