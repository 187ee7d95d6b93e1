// Base64 (RFC 4648) of bytes, over OpenSSL's libcrypto. Any thread.
#pragma once
#include "common/ck_buf.h"

// Appends the text of n bytes, without line breaks. -1 = no room.
int ck_base64_add(struct ck_buf *out, const void *p, size_t n);
// Appends the bytes of n characters of base64; line breaks between them are skipped, as kernels wrap
// theirs. -1 = something else than base64, or no room; out is then as it was.
int ck_base64_decode(const char *p, size_t n, struct ck_buf *out);
// How many bytes that would be at most, and exactly when it is base64. Cheap: nothing is decoded.
size_t ck_base64_length(const char *p, size_t n);
