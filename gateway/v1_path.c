// Turns what clients write as a path into the one form the agent gets: absolute, clean, UTF-8.
// The agent alone decides what exists and who may read it; this file must never be the only thing
// between a client and a file of the host, and it is not: paths are opened inside the guest.
#include "gateway/v1_path.h"


static int bad(struct ck_err *err, const char *what) { return ck_fail(err, 400, "bad_path", "%s", what); }

static int check_length(const char *path, struct ck_err *err)
{
    return strlen(path) < V1_PATH_MAX ? 0 : bad(err, "the path is longer than 4095 bytes");
}

// Appends one component to out; 0 or -1.
static int push(const char *name, size_t n, char *out, size_t *used, struct ck_err *err)
{
    if (n == 1 && name[0] == '.')
        return 0;
    if (n == 2 && name[0] == '.' && name[1] == '.')
        return ck_fail(err, 403, "path_outside", "\"..\" is not allowed in a path: write the absolute path");
    if (n > V1_NAME_MAX)
        return bad(err, "a name in the path is longer than 255 bytes");
    if (*used + 1 + n >= V1_PATH_MAX)
        return bad(err, "the path is longer than 4095 bytes");
    out[(*used)++] = '/';
    memcpy(out + *used, name, n);
    *used += n;
    out[*used] = '\0';
    return 0;
}

static int push_all(const char *path, char *out, size_t *used, struct ck_err *err)
{
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n && push(path, n, out, used, err))
            return -1;
        path += n + (path[n] == '/');
    }
    return 0;
}

static int finish(char *out, size_t used)
{
    if (!used)
        memcpy(out, "/", 2);
    return 0;
}

int v1_path_from_url(const char *decoded, char out[V1_PATH_MAX], struct ck_err *err)
{
    size_t used = 0;
    if (check_length(decoded, err) || push_all(decoded, out, &used, err))
        return -1;
    return finish(out, used);
}

int v1_path_from_body(const char *path, char out[V1_PATH_MAX], struct ck_err *err)
{
    size_t used = 0;
    if (check_length(path, err) || (path[0] != '/' && push_all("home/user", out, &used, err)) ||
        push_all(path, out, &used, err))
        return -1;
    return finish(out, used);
}

const char *v1_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool plain_in_url(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~/", c);
}

int v1_path_to_url(const char *path, struct ck_buf *out)
{
    for (path += path[0] == '/'; *path; path++) {
        if (plain_in_url(*path) ? ck_buf_add(out, path, 1) : ck_buf_printf(out, "%%%02X", (uint8_t)*path))
            return -1;
    }
    return 0;
}
