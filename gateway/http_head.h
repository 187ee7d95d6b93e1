// Parser of one HTTP/1.x request head. Pure: bytes in, fields out, nothing allocated. Strict where
// leniency would let two parties disagree about where a request ends (request smuggling): CRLF line
// ends only, no folded lines, no space before a colon, one Content-Length, and never together with
// Transfer-Encoding.
#pragma once
#include "common/ck_error.h"
#include "gateway/http.h"

#define HTTP_HEAD_MAX (32 * 1024)   // request line and headers
#define HTTP_TARGET_MAX (16 * 1024) // the request target alone
#define HTTP_HEADERS_MAX 100

struct http_field {
    char *name; // NUL-terminated inside the head buffer
    char *value;
};

struct http_head {
    unsigned method; // enum http_method, 0 = a valid token that this server does not know
    char *path;      // still percent-encoded, begins with '/'; "*" for OPTIONS *
    char *query;     // still encoded, without '?'; NULL when absent
    int minor;       // HTTP/1.minor
    int64_t content_length; // -1 = none
    bool chunked;
    bool keep_alive;
    bool expect_continue;
    bool websocket; // a complete and correct upgrade request
    char *ws_key;   // then its Sec-WebSocket-Key
    size_t nfields;
    struct http_field fields[HTTP_HEADERS_MAX];
};

// Length of the head including its empty line, or 0 when it is not complete yet.
size_t http_head_length(const char *p, size_t n);

// p[0..n) is a whole head as measured above; it is cut into strings in place and *out points into
// it. -1 with err (status 400, 414, 417, 431, 501, 505).
int http_head_parse(char *p, size_t n, struct http_head *out, struct ck_err *err);

const char *http_head_get(const struct http_head *h, const char *name); // first value or NULL
// True when the comma-separated list in all fields of that name holds token (case-insensitive,
// parameters after ';' ignored).
bool http_head_list_has(const struct http_head *h, const char *name, const char *token);
const char *http_method_name(unsigned method);
