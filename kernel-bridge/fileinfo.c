// Statuses and names of files as a hostile agent may send them. What is not understood is left out, never
// passed on: a client makes paths, headers and pages of it.
#include "kernel-bridge/fileinfo.h"

#include "common/ck_json.h"
#include "common/ck_name.h"

#include <string.h>

#define SIZE_MOST ((int64_t)1 << 62)
#define ETAG_MOST 200
#define MIME_MOST 127

bool fileinfo_path_ok(const char *path)
{
    if (path[0] != '/')
        return false;
    for (const char *p = path; *p;) {
        size_t n = strcspn(++p, "/");
        if (!n || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
    }
    return true;
}

static size_t token(const char *s)
{
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&-^_.+");
}

bool fileinfo_mime_ok(const char *mime)
{
    size_t type = token(mime), sub = type && mime[type] == '/' ? token(mime + type + 1) : 0;
    return sub && !mime[type + 1 + sub] && type + 1 + sub <= MIME_MOST;
}

bool fileinfo_sha256_ok(const char *text) { return strspn(text, "0123456789abcdef") == 64 && !text[64]; }

static bool etag_ok(const char *etag)
{
    size_t n = strspn(etag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:");
    return n && !etag[n] && n <= ETAG_MOST;
}

static bool type_ok(const char *type) { return !strcmp(type, "file") || !strcmp(type, "dir") || !strcmp(type, "other"); }

static json_t *basics(const json_t *o)
{
    const char *type = ck_json_str(o, "type", "", NULL);
    int64_t size = ck_json_int(o, "size", -1, NULL);
    if (!type_ok(type) || size < 0 || size > SIZE_MOST)
        return NULL;
    return json_pack("{s:s,s:I,s:I}", "type", type, "size", (json_int_t)size, "mtime_ns",
                     (json_int_t)ck_json_int(o, "mtime_ns", 0, NULL));
}

json_t *fileinfo_stat(const json_t *stat)
{
    json_t *o = basics(stat);
    const char *etag = ck_json_str(stat, "etag", "", NULL), *mime = ck_json_str(stat, "mime", "", NULL);
    int64_t mode = ck_json_int(stat, "mode", -1, NULL);
    if (o && mode >= 0 && mode <= 07777)
        json_object_set_new(o, "mode", json_integer(mode));
    if (o && etag_ok(etag))
        json_object_set_new(o, "etag", json_string(etag));
    if (o && fileinfo_mime_ok(mime))
        json_object_set_new(o, "mime", json_string(mime));
    return o;
}

static json_t *entry(const json_t *e)
{
    char name[CK_NAME_MAX];
    if (ck_name_get(e, "name", name, NULL) || !name[0] || !strcmp(name, ".") || !strcmp(name, "..") || strchr(name, '/'))
        return NULL;
    json_t *o = basics(e);
    if (o && ck_name_set(o, "name", name)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *fileinfo_entries(const json_t *entries)
{
    json_t *out = json_is_array(entries) ? json_array() : NULL;
    size_t i;
    json_t *e;
    json_array_foreach (entries, i, e) {
        json_t *o = out ? entry(e) : NULL;
        if (o && json_array_append_new(out, o)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}
