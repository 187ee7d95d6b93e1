// Envelope codec and shared blobs. Pure: no sockets here.
#include "common/ck_frame.h"

#include <stdlib.h>

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static int check_lengths(const uint8_t *body, uint32_t body_len, uint32_t nparts, struct ck_err *err)
{
    uint64_t sum = 4 + 4ull * nparts;
    for (uint32_t i = 0; i < nparts && sum <= body_len; i++)
        sum += get32(body + 4 + 4 * i);
    if (sum != body_len)
        return ck_fail(err, 400, "bad_frame", "frame part lengths do not add up to the frame length");
    if (get32(body + 4) > CK_FRAME_HEADER_MAX)
        return ck_fail(err, 400, "bad_frame", "frame header is over %d bytes", CK_FRAME_HEADER_MAX);
    return 0;
}

int ck_frame_parse(const uint8_t *p, size_t len, size_t max_body, struct ck_frame *out, size_t *used,
                   struct ck_err *err)
{
    *used = 0;
    if (len < 4)
        return 1;
    uint32_t body_len = get32(p);
    if (body_len > max_body)
        return ck_fail(err, 413, "frame_too_large", "frame of %u bytes is over the cap of %zu", body_len, max_body);
    if (body_len < 8)
        return ck_fail(err, 400, "bad_frame", "frame of %u bytes has no header", body_len);
    if (len >= 8) { // refuse a hostile count before waiting for its bytes
        uint32_t nparts = get32(p + 4);
        if (nparts < 1 || nparts > CK_FRAME_PARTS_MAX || 4 + 4ull * nparts > body_len)
            return ck_fail(err, 400, "bad_frame", "frame has %u parts, 1 to %d are allowed", nparts,
                           CK_FRAME_PARTS_MAX);
    }
    if (len - 4 < body_len) {
        *used = body_len - (len - 4);
        return 1;
    }
    out->body = p + 4;
    out->nparts = get32(out->body);
    if (check_lengths(out->body, body_len, out->nparts, err))
        return -1;
    *used = 4 + (size_t)body_len;
    return 0;
}

struct ck_slice ck_frame_part(const struct ck_frame *f, uint32_t i)
{
    const uint8_t *lens = f->body + 4;
    const uint8_t *at = lens + 4 * (size_t)f->nparts;
    for (uint32_t k = 0; k < i; k++)
        at += get32(lens + 4 * (size_t)k);
    return ck_slice(at, get32(lens + 4 * (size_t)i));
}

struct ck_blob *ck_frame_encode(struct ck_slice header, const struct ck_slice *parts, uint32_t nparts)
{
    uint64_t total = 4 + 4 + 4 * ((uint64_t)nparts + 1) + header.n;
    for (uint32_t i = 0; i < nparts; i++)
        total += parts[i].n;
    if (nparts >= CK_FRAME_PARTS_MAX || header.n > CK_FRAME_HEADER_MAX || total - 4 > CK_FRAME_BODY_MAX)
        return NULL;
    struct ck_blob *b = ck_blob_new((size_t)total);
    if (!b)
        return NULL;
    put32(b->p, (uint32_t)(total - 4));
    put32(b->p + 4, nparts + 1);
    put32(b->p + 8, (uint32_t)header.n);
    uint8_t *at = b->p + 8 + 4 * ((size_t)nparts + 1);
    if (header.n)
        memcpy(at, header.p, header.n);
    at += header.n;
    for (uint32_t i = 0; i < nparts; i++) {
        put32(b->p + 12 + 4 * (size_t)i, (uint32_t)parts[i].n);
        if (parts[i].n)
            memcpy(at, parts[i].p, parts[i].n);
        at += parts[i].n;
    }
    return b;
}

struct ck_blob *ck_blob_new(size_t n)
{
    struct ck_blob *b = malloc(sizeof *b + n);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->n = n;
    return b;
}

struct ck_blob *ck_blob_ref(struct ck_blob *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void ck_blob_unref(struct ck_blob *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        free(b);
}
