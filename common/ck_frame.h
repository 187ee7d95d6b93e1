// The envelope of the bridge protocol: one frame = a JSON header and any number of byte parts.
//
//   u32 body_len | u32 nparts | nparts x u32 part_len | parts...        (little-endian)
//
// body_len counts everything after itself. Part 0 is a JSON object of at most
// CK_FRAME_HEADER_MAX bytes. Parsing is pure and bounded: it never reads past `len`, never
// allocates, and refuses a frame whose numbers do not add up.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <stdatomic.h>

#define CK_FRAME_PARTS_MAX 1024
#define CK_FRAME_HEADER_MAX (256 * 1024)
#define CK_FRAME_BODY_MAX (160u * 1024 * 1024) // default for max_body

struct ck_frame {
    const uint8_t *body; // borrowed from the input
    uint32_t nparts;
};

// Outcomes: 0 = *out is a whole frame and *used its size; 1 = need more bytes (*used = bytes still
// missing, when already known, else 0); negative = malformed, the connection must be closed.
int ck_frame_parse(const uint8_t *p, size_t len, size_t max_body, struct ck_frame *out, size_t *used,
                   struct ck_err *err);

// Part i, i < nparts. Valid as long as the input is.
struct ck_slice ck_frame_part(const struct ck_frame *f, uint32_t i);

// An encoded frame, immutable and reference-counted (the event log and every writer share one).
struct ck_blob {
    atomic_uint refs;
    size_t n;
    uint8_t p[];
};

// Encodes header (a JSON object as text) and parts. NULL when too large (a body over
// CK_FRAME_BODY_MAX, which readers refuse) or out of memory.
struct ck_blob *ck_frame_encode(struct ck_slice header, const struct ck_slice *parts, uint32_t nparts);
struct ck_blob *ck_blob_new(size_t n); // n uninitialised bytes, one reference
struct ck_blob *ck_blob_ref(struct ck_blob *b);
void ck_blob_unref(struct ck_blob *b); // NULL is fine
