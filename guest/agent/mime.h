// What a file is, from its first bytes and its name. Pure.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define AG_MIME_HEAD 4096 // bytes worth reading

// head: the first n (at most AG_MIME_HEAD) bytes; name: only its ending matters, and only where the
// content leaves it open (text, zip). Returns a static string.
const char *ag_mime_guess(const char *name, const uint8_t *head, size_t n);
