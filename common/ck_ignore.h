// Which folders are not looked into for artifacts: patterns for the name of a folder, at any depth. What a
// pattern may be is said once, for the gateway, the bridge and the guest. Pure.
#pragma once
#include "common/ck_error.h"

#include <jansson.h>
#include <stdbool.h>

#define CK_IGNORE_MAX 64        // patterns
#define CK_IGNORE_LEN_MAX 128   // bytes of one

// A list of at most CK_IGNORE_MAX texts of 1 to CK_IGNORE_LEN_MAX bytes without "/", control characters or
// NUL. 400 "bad_field" naming the field `key`.
int ck_ignore_check(const json_t *list, const char *key, struct ck_err *err);

// "A,B" as a list, "" as an empty one; NULL when it is not UTF-8 or memory is out.
json_t *ck_ignore_split(const char *text);

// `*` stands for any bytes, `?` for one; everything else for itself, upper and lower case as they are.
// Takes at most the product of both lengths in steps, whatever the pattern.
bool ck_ignore_match(const char *pattern, const char *name);
