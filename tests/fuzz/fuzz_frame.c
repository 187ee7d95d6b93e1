// Parses any bytes as frames of the bridge protocol, whole and byte by byte; what is accepted must
// encode to the same bytes again.
#include "common/ck_frame.h"

#include <stdlib.h>

#define MAX_BODY (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encodes_back(const struct ck_frame *f, const uint8_t *raw, size_t used)
{
    struct ck_slice parts[CK_FRAME_PARTS_MAX];
    for (uint32_t i = 1; i < f->nparts; i++)
        parts[i - 1] = ck_frame_part(f, i);
    struct ck_blob *b = ck_frame_encode(ck_frame_part(f, 0), parts, f->nparts - 1);
    if (!b || b->n != used || memcmp(b->p, raw, used))
        abort();
    ck_blob_unref(b);
}

// A prefix may ask for more, but never be accepted or say that more is missing than really is.
static void prefixes_wait(const uint8_t *raw, size_t used)
{
    for (size_t len = 0; len < used && len < 64; len++) {
        struct ck_frame f;
        size_t missing;
        if (ck_frame_parse(raw, len, MAX_BODY, &f, &missing, NULL) != 1 || (missing && missing != used - len))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ck_err err = CK_ERR_INIT;
    for (size_t at = 0; at < size;) {
        struct ck_frame f;
        size_t used;
        int rc = ck_frame_parse(data + at, size - at, MAX_BODY, &f, &used, &err);
        if (rc < 0 && err.status != 400 && err.status != 413)
            abort();
        if (rc)
            break;
        encodes_back(&f, data + at, used);
        prefixes_wait(data + at, used);
        at += used;
    }
    return 0;
}
