// The agent's answers on any bytes: the signed message, its error, the artifacts of `changes`.
// Input: header, the byte 0xFE, payload. Signed here, or nothing would get past the signature.
#include "common/ck_json.h"
#include "kernel-bridge/agentwire.h"
#include "kernel-bridge/artifacts.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_artifacts(const json_t *answer)
{
    struct artifacts *a = calloc(1, sizeof *a);
    CK_CLEAN_BUF struct ck_buf list = CK_BUF_INIT;
    if (!a)
        return;
    artifacts_read(answer, &(struct artifacts_for){"ID", "/p", NULL, ARTIFACTS_MAX, 1 << 30}, a);
    if (a->n > ARTIFACTS_MAX || a->total < a->n || artifacts_array(a, &list) || !ck_json_valid(list.p, list.n, NULL))
        abort();
    artifacts_free(a);
    free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[AW_KEY_LEN] = {1};
    uint8_t sig[CK_SHA256_LEN];
    const uint8_t *split = memchr(data, 0xFE, size);
    struct ck_slice header = ck_slice(data, split ? (size_t)(split - data) : size);
    struct ck_slice payload = split ? ck_slice(split + 1, (size_t)(data + size - split - 1)) : ck_slice("", 0);
    aw_sign(key, header, payload, sig);
    struct ck_slice p[3] = {ck_slice(sig, sizeof sig), header, payload};
    int64_t last = 0;
    struct aw_msg m;
    struct ck_err err = CK_ERR_INIT;
    if (!aw_parse(p, 3, key, &last, &m, &err)) {
        if (last <= 0 || (!m.is_answer && !m.ev))
            abort();
        if (aw_error(m.header, &err) && (err.status < 400 || err.status > 599))
            abort();
        read_artifacts(m.header);
    }
    aw_free(&m);
    return 0;
}
