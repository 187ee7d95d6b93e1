// What an agent says about files, taken only as what PROTOCOL.md section 2 allows: the guest may have any
// names, sizes and types in it that it likes. Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>

bool fileinfo_path_ok(const char *path);   // absolute, and none of its names is empty, "." or ".."
bool fileinfo_mime_ok(const char *mime);   // type/subtype, of the characters that RFC 6838 section 4.2 allows
bool fileinfo_sha256_ok(const char *text); // 64 lower-case hexadecimal digits

// A clean copy of a status: {"type","size","mtime_ns"} and, where they make sense, "mode", "etag", "mime".
// NULL when it is none (or there is no memory). The caller owns it.
json_t *fileinfo_stat(const json_t *stat);

// A clean copy of the entries of a folder, without those that cannot be. NULL as above.
json_t *fileinfo_entries(const json_t *entries);
