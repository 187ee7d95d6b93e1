// Hashes, MACs, random bytes. Keys pass through here; nothing is logged or kept.
#include "common/ck_crypto.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define BLOCK 64 // of SHA-256

// Fetched once: a name is looked up behind locks at every use otherwise.
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;
static void fetch_sha256(void) { sha256 = EVP_MD_fetch(NULL, "SHA256", NULL); }

static const EVP_MD *get_sha256(void)
{
    pthread_once(&sha256_once, fetch_sha256);
    return sha256;
}

// One of the two hashes of HMAC: of the key's block, changed by pad, and what follows.
static int keyed_hash(EVP_MD_CTX *ctx, const uint8_t block[BLOCK], uint8_t pad, const struct ck_slice *parts, size_t n,
                      uint8_t *out)
{
    uint8_t k[BLOCK];
    unsigned len = 0;
    for (int i = 0; i < BLOCK; i++)
        k[i] = block[i] ^ pad;
    int ok = EVP_DigestInit_ex2(ctx, get_sha256(), NULL) == 1 && EVP_DigestUpdate(ctx, k, sizeof k) == 1;
    for (size_t i = 0; ok && i < n; i++)
        ok = !parts[i].n || EVP_DigestUpdate(ctx, parts[i].p, parts[i].n) == 1;
    ok = ok && EVP_DigestFinal_ex(ctx, out, &len) == 1;
    OPENSSL_cleanse(k, sizeof k);
    return ok ? 0 : -1;
}

// RFC 2104 over OpenSSL's SHA-256, by hand: each way that OpenSSL 3 has for a HMAC (HMAC_CTX, EVP_MAC,
// an EVP_PKEY) sets up a new object for every key, at seven microseconds a message, twelve times what
// the two hashes of a Jupyter message take. Every message to and from a kernel passes here.
int ck_hmac_sha256(struct ck_slice key, const struct ck_slice *parts, size_t nparts, uint8_t *out)
{
    uint8_t block[BLOCK] = {0}, inner[CK_SHA256_LEN];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int rc = ctx && get_sha256() ? 0 : -1;
    if (!rc && key.n > BLOCK)
        rc = ck_sha256(key, block);
    else if (!rc && key.n)
        memcpy(block, key.p, key.n);
    struct ck_slice second = ck_slice(inner, sizeof inner);
    if (!rc && (keyed_hash(ctx, block, 0x36, parts, nparts, inner) || keyed_hash(ctx, block, 0x5c, &second, 1, out)))
        rc = -1;
    OPENSSL_cleanse(block, sizeof block);
    EVP_MD_CTX_free(ctx);
    return rc;
}

int ck_sha256(struct ck_slice data, uint8_t *out)
{
    unsigned len = 0;
    return get_sha256() && EVP_Digest(data.p, data.n, out, &len, get_sha256(), NULL) == 1 ? 0 : -1;
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
