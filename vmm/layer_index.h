// The file `ram` of a layer as bytes: the stored pages, an index of ranges, and a tail that describes
// both: written (and summed) from front to back without knowing how much there will be. Little-endian. Pure.
//
//   0        the stored pages, in the order of the index
//   offset   ranges of 8 bytes: u32 first page, u32 count * 2 + (1 = all zero, no pages stored);
//            ascending, not overlapping
//   last 64  "CKLRAM\r\n", u32 version 1, u32 page size 4096, u64 pages of the guest, u64 stored
//            pages, u64 zero pages, u64 offset of the index, u32 ranges, 12 bytes of zero
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_PAGE 4096u
#define CK_RAM_TAIL 64
#define CK_RAM_RANGE 8
#define CK_RAM_COUNT_MAX 0x7fffffffu

struct ck_ram_tail {
    uint64_t guest_pages, data_pages, zero_pages, index_at;
    uint32_t ranges;
};
struct ck_ram_range {
    uint32_t first, count;
    bool zero;
};

void ck_ram_print_tail(const struct ck_ram_tail *t, uint8_t out[CK_RAM_TAIL]);
// file_bytes: the file's size. guest_pages: what it must be for. "bad_layer" on anything that does not
// add up; afterwards ranges * CK_RAM_RANGE bytes lie at index_at and then the tail, and nothing else.
int ck_ram_parse_tail(const uint8_t p[CK_RAM_TAIL], uint64_t file_bytes, uint64_t guest_pages, struct ck_ram_tail *out,
                        struct ck_err *err);

void ck_ram_print_range(struct ck_ram_range r, uint8_t out[CK_RAM_RANGE]);
struct ck_ram_range ck_ram_range_at(const uint8_t *index, size_t i);
// Checks all ranges of an index against the header: order, bounds, sums.
int ck_ram_check_index(const struct ck_ram_tail *t, const uint8_t *index, struct ck_err *err);
