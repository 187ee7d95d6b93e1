// Parser of one HTTP/1.x request head (see the header for what it refuses and why). It is ours and
// not libwebsockets' because lws 4.1 decodes and merges what must stay apart here (escapes in the
// path, repeated headers), answers errors in HTML, and does not know chunked requests.
#include "gateway/http_head.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    unsigned bit;
} METHODS[] = {{"GET", HTTP_GET},     {"HEAD", HTTP_HEAD},     {"PUT", HTTP_PUT},        {"POST", HTTP_POST},
               {"PATCH", HTTP_PATCH}, {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS}};
#define NMETHODS (sizeof METHODS / sizeof METHODS[0])

const char *http_method_name(unsigned method)
{
    for (size_t i = 0; i < NMETHODS; i++)
        if (METHODS[i].bit == method)
            return METHODS[i].name;
    return "OTHER";
}

static bool is_token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

size_t http_head_length(const char *p, size_t n)
{
    const char *end = n ? memmem(p, n, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - p) + 4 : 0;
}

static int bad(struct ck_err *err, const char *what)
{
    return ck_fail(err, 400, "bad_request", "malformed HTTP request: %s", what);
}

static int parse_version(const char *v, struct http_head *out, struct ck_err *err)
{
    if (strlen(v) != 8 || strncmp(v, "HTTP/", 5) || v[6] != '.')
        return bad(err, "the request line does not end in an HTTP version");
    if (v[5] != '1' || (v[7] != '0' && v[7] != '1'))
        return ck_fail(err, 505, "http_version", "only HTTP/1.1 and HTTP/1.0 are spoken here");
    out->minor = v[7] - '0';
    return 0;
}

// Origin form, absolute form (the authority is dropped), or "*" for OPTIONS.
static int parse_target(char *t, struct http_head *out, struct ck_err *err)
{
    if (strlen(t) > HTTP_TARGET_MAX)
        return ck_fail(err, 414, "target_too_long", "the URL is over %d bytes", HTTP_TARGET_MAX);
    for (const unsigned char *c = (const unsigned char *)t; *c; c++)
        if (*c <= 0x20 || *c == 0x7f || *c == '#')
            return bad(err, "the URL has a character that must be escaped");
    if (!strcmp(t, "*") && out->method == HTTP_OPTIONS) {
        out->path = t;
        return 0;
    }
    if (!strncasecmp(t, "http://", 7) || !strncasecmp(t, "https://", 8)) {
        char *authority = strstr(t, "://") + 3;
        size_t n = strcspn(authority, "/?");
        if (authority[n] != '/')
            return bad(err, "the URL has no path");
        t = authority + n;
    }
    if (*t != '/')
        return bad(err, "the URL must begin with '/'");
    out->path = t;
    char *q = strchr(t, '?');
    if (q) {
        *q = 0;
        out->query = q + 1;
    }
    return 0;
}

static int parse_request_line(char *line, struct http_head *out, struct ck_err *err)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || target == line || version == target + 1)
        return bad(err, "the request line is not METHOD URL VERSION");
    *target++ = 0;
    *version++ = 0;
    for (const char *c = line; *c; c++)
        if (!is_token_char((unsigned char)*c))
            return bad(err, "the method is not a word");
    for (size_t i = 0; i < NMETHODS; i++)
        if (!strcmp(line, METHODS[i].name))
            out->method = METHODS[i].bit;
    return parse_version(version, out, err) ? -1 : parse_target(target, out, err);
}

static int parse_field(char *line, struct http_head *out, struct ck_err *err)
{
    if (out->nfields == HTTP_HEADERS_MAX)
        return ck_fail(err, 431, "too_many_headers", "more than %d headers", HTTP_HEADERS_MAX);
    if (*line == ' ' || *line == '\t')
        return bad(err, "a header is folded over two lines");
    char *colon = strchr(line, ':');
    if (!colon || colon == line)
        return bad(err, "a header has no name or no colon");
    for (const char *c = line; c < colon; c++)
        if (!is_token_char((unsigned char)*c))
            return bad(err, "a header name is not a word");
    *colon = 0;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    char *end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    for (const unsigned char *c = (const unsigned char *)value; *c; c++)
        if ((*c < 0x20 && *c != '\t') || *c == 0x7f)
            return bad(err, "a header has a control character");
    out->fields[out->nfields++] = (struct http_field){line, value};
    return 0;
}

const char *http_head_get(const struct http_head *h, const char *name)
{
    for (size_t i = 0; i < h->nfields; i++)
        if (!strcasecmp(h->fields[i].name, name))
            return h->fields[i].value;
    return NULL;
}

static bool list_has(const char *v, const char *token)
{
    size_t want = strlen(token);
    while (*v) {
        v += strspn(v, " \t,");
        size_t n = strcspn(v, ",");
        size_t word = strcspn(v, ",; \t");
        if (word == want && !strncasecmp(v, token, want))
            return true;
        v += n;
    }
    return false;
}

bool http_head_list_has(const struct http_head *h, const char *name, const char *token)
{
    for (size_t i = 0; i < h->nfields; i++)
        if (!strcasecmp(h->fields[i].name, name) && list_has(h->fields[i].value, token))
            return true;
    return false;
}

static size_t count_fields(const struct http_head *h, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < h->nfields; i++)
        n += !strcasecmp(h->fields[i].name, name);
    return n;
}

static int parse_framing(struct http_head *out, struct ck_err *err)
{
    const char *te = http_head_get(out, "Transfer-Encoding"), *cl = http_head_get(out, "Content-Length");
    out->content_length = -1;
    if (count_fields(out, "Content-Length") > 1 || count_fields(out, "Transfer-Encoding") > 1)
        return bad(err, "Content-Length or Transfer-Encoding is repeated");
    if (te && cl)
        return bad(err, "Content-Length and Transfer-Encoding together");
    if (te) {
        if (out->minor == 0)
            return bad(err, "Transfer-Encoding in HTTP/1.0");
        if (strcasecmp(te, "chunked"))
            return ck_fail(err, 501, "transfer_encoding", "the only Transfer-Encoding is chunked");
        out->chunked = true;
    }
    if (cl) {
        size_t n = strlen(cl);
        if (!n || n > 18 || strspn(cl, "0123456789") != n)
            return bad(err, "Content-Length is not a number");
        out->content_length = strtoll(cl, NULL, 10);
    }
    return 0;
}

static int parse_websocket(struct http_head *out, struct ck_err *err)
{
    if (out->method != HTTP_GET || !http_head_list_has(out, "Upgrade", "websocket") ||
        !http_head_list_has(out, "Connection", "upgrade"))
        return 0;
    const char *key = http_head_get(out, "Sec-WebSocket-Key"), *version = http_head_get(out, "Sec-WebSocket-Version");
    if (!version || strcmp(version, "13"))
        return ck_fail(err, 426, "websocket_version", "WebSocket version 13 is the only one spoken here");
    if (!key || strlen(key) != 24)
        return bad(err, "Sec-WebSocket-Key is not 24 characters");
    out->ws_key = (char *)(uintptr_t)key;
    out->websocket = true;
    return 0;
}

static int parse_meaning(struct http_head *out, struct ck_err *err)
{
    if (parse_framing(out, err))
        return -1;
    if (count_fields(out, "Host") > 1 || (out->minor == 1 && !count_fields(out, "Host")))
        return bad(err, "exactly one Host header is needed");
    if (count_fields(out, "Authorization") > 1)
        return bad(err, "Authorization is repeated");
    out->keep_alive = out->minor == 1 ? !http_head_list_has(out, "Connection", "close")
                                      : http_head_list_has(out, "Connection", "keep-alive");
    const char *expect = http_head_get(out, "Expect");
    if (expect && strcasecmp(expect, "100-continue"))
        return ck_fail(err, 417, "expectation", "the only Expect is 100-continue");
    out->expect_continue = expect && out->minor == 1;
    return parse_websocket(out, err);
}

int http_head_parse(char *p, size_t n, struct http_head *out, struct ck_err *err)
{
    memset(out, 0, sizeof *out);
    if (n < 4 || memcmp(p + n - 4, "\r\n\r\n", 4))
        return bad(err, "the head has no end");
    if (memchr(p, 0, n))
        return bad(err, "a NUL byte in the head");
    char *end = p + n - 2; // the empty line
    bool first = true;
    while (p < end) {
        char *eol = memchr(p, '\n', (size_t)(end - p));
        if (!eol || eol == p || eol[-1] != '\r' || memchr(p, '\r', (size_t)(eol - 1 - p)))
            return bad(err, "lines must end in CR LF");
        eol[-1] = 0;
        if (first ? parse_request_line(p, out, err) : parse_field(p, out, err))
            return -1;
        first = false;
        p = eol + 1;
    }
    return first ? bad(err, "the head is empty") : parse_meaning(out, err);
}
