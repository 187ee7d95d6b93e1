// Names and paths of files in JSON. On Linux they are bytes, JSON is UTF-8: one that is not valid is
// shown with U+FFFD in `field` and given exactly, in hexadecimal, in `field_raw_hex`. Pure.
#pragma once
#include "common/ck_error.h"

#include <jansson.h>
#include <stddef.h>

#define CK_NAME_MAX 4096 // with the NUL; longer ones are refused

// Sets o[field], and o[field + "_raw_hex"] when it is needed. -1 when too long or out of memory.
int ck_name_set(json_t *o, const char *field, const char *name);

// The exact bytes, from field_raw_hex when it is there, else from field, into out (CK_NAME_MAX bytes).
// 400 "bad_field" naming the field: absent, not a text, with a NUL, too long, not hexadecimal.
int ck_name_get(const json_t *o, const char *field, char *out, struct ck_err *err);
