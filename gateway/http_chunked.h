// Decoder of `Transfer-Encoding: chunked` request bodies. Pure and incremental: works on pieces of
// any size, keeps 40 bytes of state, allocates nothing. Strict, because a proxy in front may read
// the same bytes: no bare LF, no sign or space in sizes, extensions and trailers bounded and ignored.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

struct http_chunked {
    int state;        // enum in the .c; 0 = at the start
    uint64_t left;    // bytes of the current chunk still to come
    unsigned digits;  // of the size read so far
    unsigned skipped; // bytes of extensions and trailers, bounded in all
    unsigned line;    // bytes of the current trailer line
};

// Reads from p[0..n). Outcomes: 1 = *piece is body data inside p (may be called again at once);
// 0 = all n bytes used, more wanted; 2 = the body is complete, *used bytes belong to it; negative =
// malformed (400). *used is how far it got in every case.
int http_chunked_feed(struct http_chunked *c, const uint8_t *p, size_t n, size_t *used, struct ck_slice *piece,
                      struct ck_err *err);
