// Reads single fields out of JSON text without building a tree, and repairs text that kernels emit.
// Every function here takes text that ck_json_valid accepted (jscan_repair excepted: it makes such
// text) and stays inside its bounds even when it did not. Pure.
#pragma once
#include "common/ck_buf.h"

#include <stdbool.h>
#include <stdint.h>

// Walks the members of an object, or the elements of an array (key is then empty).
struct jscan {
    struct ck_slice text;
    size_t at;
};
struct jscan jscan_open(struct ck_slice container); // not an object or array: yields nothing
bool jscan_next(struct jscan *it, struct ck_slice *key, struct ck_slice *value);

// The raw text of a member: `{"a":[1]}`, "a" -> `[1]`. Keys with escapes never match. false = absent.
bool jscan_field(struct ck_slice object, const char *key, struct ck_slice *value);

// Decodes a string value. A lone surrogate becomes U+FFFD. -1 = not a string, or out has no room.
int jscan_text(struct ck_slice value, struct ck_buf *out);
// The same into a fixed buffer with a NUL; false (and "") when not a string, too long, or with a NUL inside.
bool jscan_str(struct ck_slice value, char *out, size_t room);
bool jscan_field_str(struct ck_slice object, const char *key, char *out, size_t room);
bool jscan_int(struct ck_slice value, int64_t *out); // whole numbers of at most 18 digits
bool jscan_true(struct ck_slice value);

// Appends text with whatever is nested deeper than max_depth replaced by JSCAN_PRUNED, a JSON string.
// *left_out: how many bytes that were; 0 = nothing was nested so deep. For text of any kind; it is to
// be validated afterwards. -1 = no room.
#define JSCAN_PRUNED "\"[cellkeep: nested too deeply, left out]\""
int jscan_prune(struct ck_slice text, unsigned max_depth, struct ck_buf *out, size_t *left_out);

// True when text needs jscan_repair: invalid UTF-8, or an escaped surrogate without its other half
// (both of which Python's json emits and browsers and jansson refuse).
bool jscan_needs_repair(struct ck_slice text);
int jscan_repair(struct ck_slice text, struct ck_buf *out); // appends; -1 = no room
