// Guest paths as clients write them. Pure functions over bytes; nothing here touches a file.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#define V1_PATH_MAX 4096 // with the NUL, as PATH_MAX
#define V1_NAME_MAX 255  // bytes of one component, as NAME_MAX

// Bytes, as file names are: what is not UTF-8 goes on as it is (common/ck_name.h).
// The part of a URL after ".../files/", already percent-decoded, with or without a leading slash, as
// an absolute guest path: "//" and "." dropped, no trailing slash except for "/" itself. Refused:
// names over V1_NAME_MAX, paths over V1_PATH_MAX-1 bytes (400 "bad_path"), and ".."
// (403 "path_outside").
int v1_path_from_url(const char *decoded, char out[V1_PATH_MAX], struct ck_err *err);

// A path from a JSON body: absolute, or relative to /home/user. The same refusals.
int v1_path_from_body(const char *path, char out[V1_PATH_MAX], struct ck_err *err);

// The last component, "/" for the root. Points into path.
const char *v1_path_name(const char *path);

// Appends path percent-encoded for a URL, slashes kept, without the leading one.
int v1_path_to_url(const char *path, struct ck_buf *out);
