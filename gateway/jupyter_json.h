// Looking into one JSON object without building it, and copying its pieces verbatim.
//
// Why by hand, although jansson is here: a legacy Jupyter frame nests the four parts of a message in
// one object, and the parts have to reach the kernel byte for byte (jansson would round numbers,
// refuse integers beyond 64 bits and build a tree of a 100 MB message only to write it out again).
//
// Every function is pure, never reads past the slice, and is safe on text that is cut off anywhere;
// whether the whole text is JSON is ck_json_valid's question, ask it first where that matters.
#pragma once
#include "common/ck_buf.h"

struct jup_json_iter {
    struct ck_slice text; // borrowed
    size_t at;
    int state; // private
};

void jup_json_begin(struct jup_json_iter *it, struct ck_slice object);

// The next member: key is what stands between the quotes (escapes not undone), value the raw text of
// the value. 1 = a member, 0 = the object ended, -1 = not an object, malformed, or cut off here.
// After -1, *key still holds the key whose value was cut off and *value what there is of it, if it
// came that far; both are empty otherwise.
int jup_json_next(struct jup_json_iter *it, struct ck_slice *key, struct ck_slice *value);

// The raw value of one member (the last, if the key is repeated). False when absent.
bool jup_json_member(struct ck_slice object, const char *key, struct ck_slice *value);

// Undoes the quoting of a raw JSON string. 0 = done (NUL-terminated), -1 = not a string, longer than
// room - 1 bytes, or with a control character in it (no identifier has one); out is "" then.
int jup_json_text(struct ck_slice raw, char *out, size_t room);

static inline bool jup_json_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// True for a raw value whose first character opens an object.
static inline bool jup_json_is_object(struct ck_slice raw) { return raw.n && raw.p[0] == '{'; }
