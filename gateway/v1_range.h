// Conditional and partial requests (RFC 9110 sections 13 and 14). Pure.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum v1_range_kind {
    V1_RANGE_WHOLE,         // no Range, several ranges, or one this server ignores: 200 with everything
    V1_RANGE_PART,          // 206
    V1_RANGE_UNSATISFIABLE, // 416
};

struct v1_range {
    enum v1_range_kind kind;
    uint64_t first;  // offset of the first byte
    uint64_t length; // bytes from there
};

// header may be NULL. size is the file's. A malformed header is ignored, as the RFC asks.
struct v1_range v1_range_parse(const char *header, uint64_t size);

// Does an If-Match / If-None-Match list (or "*") hold this entity tag? etag is without quotes.
// Weak tags match only when weak_ok.
bool v1_etag_listed(const char *header, const char *etag, bool weak_ok);

#define V1_HTTP_DATE_MAX 32
// "Sun, 29 Nov 2026 14:07:57 GMT"
void v1_http_date(int64_t unix_s, char out[V1_HTTP_DATE_MAX]);
// The seconds of such a date, -1 when it is not one.
int64_t v1_http_date_parse(const char *text);
