// How bytes made by untrusted code are handed to browsers. Pure.
#pragma once
#include "common/ck_buf.h"

#include <stdbool.h>

#define V1_MIME_MAX 160

// A Content-Type value that is safe to write into a header: the guest's claim when it is a
// well-formed type/subtype, "application/octet-stream" otherwise; text gets "; charset=utf-8".
void v1_mime_header(const char *claimed, char out[V1_MIME_MAX]);

// May a browser show this type in place? Only formats that cannot run anything. All others are
// sent as attachments.
bool v1_mime_inert(const char *content_type);

// Appends a Content-Disposition value for a file name of any Unicode (RFC 6266 with RFC 8187):
// attachment; filename="na_ve.png"; filename*=UTF-8''na%C3%AFve.png
int v1_disposition(bool attachment, const char *name, struct ck_buf *out);

// Copies an entity tag of the guest when it is made of characters that are safe between quotes and
// fits; false otherwise (then no ETag is sent).
bool v1_etag_clean(const char *etag, char *out, size_t room);
