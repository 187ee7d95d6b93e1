// Content-Type and Content-Disposition of guest files. What the guest says about its own bytes is
// never trusted: nothing that can run script is shown in place, and nothing it wrote reaches a
// header without passing an allow-list of characters.
#include "gateway/v1_mime.h"

#include "common/ck_utf8.h"

#include <strings.h>

static bool token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$&^_.+-", c));
}

// Length of type/subtype at s, 0 when it is none.
static size_t type_length(const char *s)
{
    size_t n = 0;
    while (token_char(s[n]))
        n++;
    if (!n || s[n] != '/')
        return 0;
    size_t sub = ++n;
    while (token_char(s[n]))
        n++;
    return n > sub && n < V1_MIME_MAX - 32 ? n : 0;
}

void v1_mime_header(const char *claimed, char out[V1_MIME_MAX])
{
    size_t n = claimed ? type_length(claimed) : 0;
    if (!n || (claimed[n] && claimed[n] != ';' && claimed[n] != ' ')) {
        claimed = "application/octet-stream";
        n = strlen(claimed);
    }
    memcpy(out, claimed, n);
    out[n] = '\0';
    // One charset for all text: Python writes UTF-8, and a guessed charset is a way around filters.
    if (!strncasecmp(out, "text/", 5))
        memcpy(out + n, "; charset=utf-8", sizeof "; charset=utf-8");
}

bool v1_mime_inert(const char *content_type)
{
    static const char *const inert[] = {
        "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp",
        "text/csv",  "text/plain", "text/markdown", "text/x-python", "text/tab-separated-values",
        "application/json", "audio/", "video/",
    };
    for (size_t i = 0; i < sizeof inert / sizeof *inert; i++) {
        size_t n = strlen(inert[i]);
        bool prefix = inert[i][n - 1] == '/';
        if (!strncasecmp(content_type, inert[i], n) && (prefix || !content_type[n] || content_type[n] == ';'))
            return true;
    }
    return false;
}

static bool quotable(char c) { return c >= 0x20 && c < 0x7f && !strchr("\"\\%", c); }

static bool attr_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$&+-.^_`|~", c));
}

int v1_disposition(bool attachment, const char *name, struct ck_buf *out)
{
    bool plain = true;
    if (ck_buf_add_str(out, attachment ? "attachment; filename=\"" : "inline; filename=\""))
        return -1;
    for (const char *s = name; *s; s++) {
        // One underscore a character: the continuation bytes of a UTF-8 character add nothing.
        bool ok = quotable(*s), tail = ((uint8_t)*s & 0xc0) == 0x80;
        plain = plain && ok;
        if (!tail && ck_buf_add(out, ok ? s : "_", 1))
            return -1;
    }
    if (ck_buf_add_str(out, "\""))
        return -1;
    if (plain || !ck_utf8_valid(name, strlen(name), NULL))
        return 0;
    if (ck_buf_add_str(out, "; filename*=UTF-8''"))
        return -1;
    for (const char *s = name; *s; s++)
        if (attr_char(*s) ? ck_buf_add(out, s, 1) : ck_buf_printf(out, "%%%02X", (uint8_t)*s))
            return -1;
    return 0;
}

bool v1_etag_clean(const char *etag, char *out, size_t room)
{
    size_t n = etag ? strlen(etag) : 0;
    out[0] = '\0';
    if (!n || n >= room)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!token_char(etag[i]) && etag[i] != ':' && etag[i] != '=')
            return false; // two tags cut down to one would claim that two contents are one
    memcpy(out, etag, n + 1);
    return true;
}
