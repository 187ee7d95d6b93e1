// Hashes, MACs, random bytes and identifiers, over OpenSSL's libcrypto. Any thread.
#pragma once
#include "common/ck_buf.h"

#define CK_SHA256_LEN 32
#define CK_SHA256_HEX (2 * CK_SHA256_LEN + 1)
#define CK_UUID_MAX 37

// HMAC-SHA256 over the concatenation of parts; out has CK_SHA256_LEN bytes. -1 when libcrypto fails.
int ck_hmac_sha256(struct ck_slice key, const struct ck_slice *parts, size_t nparts, uint8_t *out);
int ck_sha256(struct ck_slice data, uint8_t *out);

void ck_hex(const uint8_t *p, size_t n, char *out);              // 2n characters and NUL, lower case
int ck_unhex(const char *s, size_t n, uint8_t *out);             // n hex digits -> n/2 bytes; -1 when not hex
bool ck_equal_const_time(const void *a, const void *b, size_t n); // time depends on n alone

void ck_random(void *p, size_t n); // kernel CSPRNG (getrandom); aborts if the kernel has none
void ck_uuid4(char *out);          // CK_UUID_MAX bytes, lower case with dashes
bool ck_uuid_valid(const char *s); // 8-4-4-4-12 lower- or upper-case hex digits
