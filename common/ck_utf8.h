// UTF-8 checking (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). Pure.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t ck_utf8_char(const uint8_t *p, size_t n);                // length of the valid character at p, or 0
bool ck_utf8_valid(const void *p, size_t n, size_t *bad_offset); // bad_offset may be NULL
