// Percent-encoding of paths and queries. Pure.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Decodes n bytes into out (room for n + 1), NUL-terminated. -1 for an incomplete or non-hex escape,
// for %00, and when the result is not valid UTF-8. plus_is_space for query values.
int http_url_decode(const char *in, size_t n, bool plus_is_space, char *out);
// The same for names of files, which need not be UTF-8.
int http_url_bytes(const char *in, size_t n, bool plus_is_space, char *out);

// Finds the first `name` in a raw query string: its raw value and length. Names are compared after
// decoding. false when absent. "a" alone is an empty value.
bool http_url_query(const char *query, const char *name, const char **value, size_t *len);
