// What a cell has put out so far, kept in case its bridge dies before it could report the cell's end:
// then the gateway makes the finished cell, in the same shape as every other. Pure; loop thread.
// Contents stay the raw JSON text of the kernel (verified by the bridge) and are spliced, not parsed.
#pragma once
#include "common/ck_buf.h"
#include "gateway/v1_event.h"

#define V1_PARTIAL_HALF (2u * 1024 * 1024) // of the oldest output, and as much again of the newest

struct v1_piece;
struct v1_piece_list {
    struct v1_piece *first, *last;
    size_t bytes;
};

struct v1_partial {
    size_t half; // 0 = V1_PARTIAL_HALF
    struct v1_piece_list head, tail; // the middle goes when both are full
    uint64_t dropped[2], displays_dropped, display_bytes_dropped; // of stdout, stderr; of displays
    uint64_t gap_bytes;        // dropped by the session's log before we saw them
    bool clear_at_next;        // clear_output(wait=True)
    int64_t execution_count;   // 0 = unknown
    struct ck_buf error;       // content of the last error
    struct ck_buf artifacts;   // JSON values, comma-separated
    uint64_t artifacts_total;
    uint64_t first_seq, last_seq; // really seen; 0 = none
    int64_t started_ms;        // ck_mono_ms(); 0 = the kernel had not begun it
};

struct v1_partial_end {
    const char *cell, *status, *detail;
    int exit_code;
    uint64_t seq; // of the cell when none of its events was seen
    int64_t wall_ms;
};

// Takes one event of the cell. Never fails: what there is no memory or room for is counted as dropped.
void v1_partial_take(struct v1_partial *p, const struct ck_frame *f, const struct v1_event *ev, int64_t now_ms);
// Appends the finished cell. -1 = out of memory.
int v1_partial_json(const struct v1_partial *p, const struct v1_partial_end *end, struct ck_buf *out);
void v1_partial_free(struct v1_partial *p); // leaves an empty one; zeroed ones too
