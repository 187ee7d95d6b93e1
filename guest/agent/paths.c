// Path and name handling. The kernel resolves paths (openat2, as uid 1000), so nothing here is a
// security border; it makes names comparable, bounded, and fit for JSON.
#include "guest/agent/paths.h"

#include "common/ck_crypto.h"
#include "common/ck_utf8.h"

#include <stdio.h>
#include <string.h>

int ag_path_clean(const char *path, char *out, struct ck_err *err)
{
    size_t n = 0, len = strlen(path);
    if (path[0] != '/')
        return ck_fail(err, 400, "bad_path", "a path must be absolute");
    if (len >= AG_PATH_MAX)
        return ck_fail(err, 400, "bad_path", "a path must be shorter than %d bytes", AG_PATH_MAX);
    for (size_t i = 0; i < len;) {
        while (path[i] == '/')
            i++;
        size_t part = strcspn(path + i, "/");
        if (part > AG_NAME_MAX)
            return ck_fail(err, 400, "bad_path", "a file name must be at most %d bytes", AG_NAME_MAX);
        if (part == 2 && path[i] == '.' && path[i + 1] == '.')
            return ck_fail(err, 403, "bad_path", "a path must not contain \"..\"");
        if (part && !(part == 1 && path[i] == '.')) {
            out[n++] = '/';
            memcpy(out + n, path + i, part);
            n += part;
        }
        i += part;
    }
    if (n == 0)
        out[n++] = '/';
    out[n] = 0;
    return 0;
}

int ag_path_split(const char *path, char *dir, const char **name)
{
    const char *slash = strrchr(path, '/');
    if (!slash || !slash[1])
        return -1;
    size_t n = slash == path ? 1 : (size_t)(slash - path);
    memcpy(dir, path, n);
    dir[n] = 0;
    *name = slash + 1;
    return 0;
}

bool ag_path_protected(const char *path)
{
    static const char *const paths[] = {"/", "/home", "/home/user", "/tmp", "/var/tmp"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(paths[i], path) == 0)
            return true;
    return false;
}

// Not ck_buf_add_json_str: a jansson string is wanted, not a literal.
static void to_utf8(const char *name, size_t n, char *out)
{
    const uint8_t *p = (const uint8_t *)name;
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t len = ck_utf8_char(p + i, n - i);
        if (len) {
            memcpy(out + at, p + i, len);
            at += len;
            i += len;
        } else {
            memcpy(out + at, "\xEF\xBF\xBD", 3);
            at += 3;
            i++;
        }
    }
    out[at] = 0;
}

int ag_name_set(json_t *o, const char *field, const char *name)
{
    char text[3 * AG_PATH_MAX + 1], hex[2 * AG_PATH_MAX + 1], key[64];
    size_t n = strlen(name);
    if (n >= AG_PATH_MAX)
        return -1;
    if (ck_utf8_valid(name, n, NULL))
        return json_object_set_new(o, field, json_string(name));
    to_utf8(name, n, text);
    ck_hex((const uint8_t *)name, n, hex);
    snprintf(key, sizeof key, "%s_raw_hex", field);
    return json_object_set_new(o, field, json_string(text)) < 0 || json_object_set_new(o, key, json_string(hex)) < 0
               ? -1
               : 0;
}

bool ag_name_unwatched(const char *name)
{
    static const char *const names[] = {".cache",       "__pycache__", ".ipython",      ".config", ".local",
                                        ".matplotlib",  ".jupyter",    "site-packages", ".git",    "node_modules",
                                        ".npm",         ".ipynb_checkpoints"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
