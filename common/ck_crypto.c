// Hashes, MACs, random bytes. Keys pass through here; nothing is logged or kept.
#include "common/ck_crypto.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

// OpenSSL 3 marks HMAC_CTX as deprecated in favour of EVP_MAC, which fetches its algorithm by name
// on every context; EVP_MD_CTX with an HMAC EVP_PKEY is the supported form without that cost.
int ck_hmac_sha256(struct ck_slice key, const struct ck_slice *parts, size_t nparts, uint8_t *out)
{
    int rc = -1;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, key.p ? key.p : (const uint8_t *)"", key.n);
    if (!ctx || !pkey || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, pkey) != 1)
        goto out;
    for (size_t i = 0; i < nparts; i++)
        if (parts[i].n && EVP_DigestSignUpdate(ctx, parts[i].p, parts[i].n) != 1)
            goto out;
    size_t len = CK_SHA256_LEN;
    if (EVP_DigestSignFinal(ctx, out, &len) == 1 && len == CK_SHA256_LEN)
        rc = 0;
out:
    EVP_PKEY_free(pkey);
    EVP_MD_CTX_free(ctx);
    return rc;
}

int ck_sha256(struct ck_slice data, uint8_t *out)
{
    unsigned len = 0;
    return EVP_Digest(data.p, data.n, out, &len, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

void ck_hex(const uint8_t *p, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = 0;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int ck_unhex(const char *s, size_t n, uint8_t *out)
{
    if (n % 2)
        return -1;
    for (size_t i = 0; i < n; i += 2) {
        int hi = nibble(s[i]), lo = nibble(s[i + 1]);
        if (hi < 0 || lo < 0)
            return -1;
        out[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    return 0;
}

bool ck_equal_const_time(const void *a, const void *b, size_t n) { return CRYPTO_memcmp(a, b, n) == 0; }

void ck_random(void *p, size_t n)
{
    uint8_t *at = p;
    while (n) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort(); // without randomness nothing here is safe
        at += got;
        n -= (size_t)got;
    }
}

void ck_uuid4(char *out)
{
    uint8_t b[16];
    ck_random(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0F) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3F) | 0x80);
    char hex[33];
    ck_hex(b, sizeof b, hex);
    snprintf(out, CK_UUID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

bool ck_uuid_valid(const char *s)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' : nibble(s[i]) < 0)
            return false;
    }
    return s[36] == 0;
}
