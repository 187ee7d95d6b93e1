// An operation frame of the gateway, on any bytes, as the connection reads it; and the bridge's
// configuration, and what a spare becomes, on the same.
#include "kernel-bridge/bconf.h"
#include "kernel-bridge/bops.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ck_frame f;
    struct ck_err err = CK_ERR_INIT;
    size_t used;
    struct bop op;
    struct bconf conf;
    // The bytes as one frame, and as a header inside a good frame.
    if (!ck_frame_parse(data, size, 1 << 20, &f, &used, &err)) {
        if (bop_parse(&f, &op, &err) && !err.status)
            abort(); // a refusal says why
        bop_free(&op);
    }
    const uint8_t *split = memchr(data, 0xFE, size);
    struct ck_slice part = split ? ck_slice(split + 1, (size_t)(data + size - split - 1)) : ck_slice("", 0);
    struct ck_blob *b = ck_frame_encode(ck_slice(data, split ? (size_t)(split - data) : size), &part, split ? 1 : 0);
    if (b && !ck_frame_parse(b->p, b->n, b->n, &f, &used, &err)) {
        err = (struct ck_err)CK_ERR_INIT;
        if (bop_parse(&f, &op, &err) && (err.status < 400 || err.status > 599))
            abort();
        bop_free(&op);
    }
    ck_blob_unref(b);
    err = (struct ck_err)CK_ERR_INIT;
    if (bconf_parse(data, size, &conf, &err) && !err.status)
        abort();
    err = (struct ck_err)CK_ERR_INIT;
    conf = (struct bconf){.spare = true};
    if (bconf_begin(data, size, &conf, &err) ? !err.status || !conf.spare : conf.spare)
        abort();
    return 0;
}
