// Path and name handling. The kernel resolves paths (openat2, as uid 1000), so nothing here is a
// security border; it makes names comparable and bounded.
#include "guest/agent/paths.h"

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
