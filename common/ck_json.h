// JSON helpers over jansson, and a validator that builds nothing.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CK_JSON_DEPTH_MAX 128
#define CK_JSON_VALUES_MAX 200000 // of one tree: a value of two bytes costs dozens in memory

// Parses one JSON object (RFC 8259, duplicate keys refused) of n bytes. On failure the error names
// line and column and says in plain words what is wrong ("bad_json", 400). The caller owns the result. Empty input is an empty object
// when empty_ok.
json_t *ck_json_parse_object(const void *p, size_t n, bool empty_ok, struct ck_err *err);

// True when the bytes are exactly one JSON value in valid UTF-8, nested at most CK_JSON_DEPTH_MAX
// deep. By hand, because jansson would build a tree of a 100 MB message only to throw it away, and
// messages of guests are passed on verbatim: what is spliced into our own JSON must be JSON.
// *offset (may be NULL) is where it went wrong.
bool ck_json_valid(const void *p, size_t n, size_t *offset);

// Field getters: the default when absent or null; a wrong type fills err (400 "bad_field" naming
// the field) and returns the default. err may be NULL; an err already set is kept.
const char *ck_json_str(const json_t *o, const char *key, const char *def, struct ck_err *err);
int64_t ck_json_int(const json_t *o, const char *key, int64_t def, struct ck_err *err);
bool ck_json_bool(const json_t *o, const char *key, bool def, struct ck_err *err);
json_t *ck_json_obj(const json_t *o, const char *key, struct ck_err *err); // borrowed, NULL when absent

// Compact text, appended. -1 when out of memory.
int ck_json_dump(const json_t *j, struct ck_buf *out);
