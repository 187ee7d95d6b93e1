// GMAC over OpenSSL's EVP_MAC.
#include "vmm/layer_sum.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>

struct ck_sum {
    EVP_MAC *mac;
    EVP_MAC_CTX *ctx;
};

void ck_sum_free(struct ck_sum *s)
{
    if (!s)
        return;
    EVP_MAC_CTX_free(s->ctx);
    EVP_MAC_free(s->mac);
    free(s);
}

static int failed(struct ck_err *err)
{
    return ck_fail(err, 500, "no_memory", "libcrypto cannot compute a checksum");
}

int ck_sum_new(struct ck_sum **out, struct ck_err *err)
{
    static const unsigned char key[16] = "cellkeep layers"; // no secret: it finds damage
    unsigned char iv[12] = {1};
    char cipher[] = "AES-128-GCM";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
                           OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, iv, sizeof iv),
                           OSSL_PARAM_construct_end()};
    struct ck_sum *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s)
        s->mac = EVP_MAC_fetch(NULL, "GMAC", NULL);
    if (s && s->mac)
        s->ctx = EVP_MAC_CTX_new(s->mac);
    if (!s || !s->ctx || !EVP_MAC_init(s->ctx, key, sizeof key, params)) {
        ck_sum_free(s);
        return failed(err);
    }
    *out = s;
    return 0;
}

int ck_sum_add(struct ck_sum *s, const void *p, size_t n, struct ck_err *err)
{
    return EVP_MAC_update(s->ctx, p, n) ? 0 : failed(err);
}

int ck_sum_end(struct ck_sum *s, char *out, struct ck_err *err)
{
    unsigned char tag[16];
    size_t n = 0;
    if (!EVP_MAC_final(s->ctx, tag, &n, sizeof tag) || n != sizeof tag)
        return failed(err);
    ck_hex(tag, n, out);
    return 0;
}
