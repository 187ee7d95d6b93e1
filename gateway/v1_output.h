// What a client wants of a finished cell: the field "output" of POST .../cells. Pure; any thread.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define V1_OUTPUT_TYPES_MAX 50

struct v1_output { // zeroed: the cell as it is
    bool wanted;
    bool strip_ansi;
    int64_t max_text_bytes; // 0 = no limit
    json_t *mime_types;     // owned; NULL = all
    int max_image_edge;     // pixels, 0 = no limit
};

// {"strip_ansi"?, "max_text_bytes"?, "mime_types"?, "max_image_edge"?}
int v1_output_parse(json_t *o, struct v1_output *out, struct ck_err *err);
void v1_output_free(struct v1_output *o);

// Makes the finished cell what is wanted, but for its pictures (cell_view.h). Without terminal sequences: stdout, stderr, text/plain and
// tracebacks. Cut in the middle: stdout, stderr and text/plain; what is missing is added to `truncated`.
// Of each bundle the listed types stay ("image/*" is all of a kind), and text/plain when none of them is
// there; a value that stays is whole. -1 = not a cell, or out of memory.
int v1_output_apply(const struct v1_output *o, json_t *cell);
