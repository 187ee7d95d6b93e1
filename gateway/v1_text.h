// Output of commands: bytes in pieces as the pipe gave them, kept up to a cap and handed on as text
// whose characters are never cut in two. Pure.
#pragma once
#include "common/ck_buf.h"

struct v1_text {
    struct ck_buf kept; // the first bytes, at most `keep`
    size_t keep;
    uint64_t dropped;   // bytes beyond
    uint8_t tail[4];    // an unfinished character of the last piece
    size_t tail_n;
};

void v1_text_init(struct v1_text *t, size_t keep);
void v1_text_free(struct v1_text *t);

// Takes a piece. When `json` is not NULL, appends the text that is complete now as a JSON string
// literal (invalid UTF-8 as U+FFFD) and returns 1, or returns 0 when no character is complete yet.
// flush: the end; an unfinished character will not be finished any more. -1 = out of memory.
int v1_text_take(struct v1_text *t, struct ck_slice piece, bool flush, struct ck_buf *json);
