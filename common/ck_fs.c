// Small synchronous file helpers.
#include "common/ck_fs.h"

#include "common/ck_clean.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ck_read_file(const char *path, size_t max, struct ck_buf *out, struct ck_err *err)
{
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cannot_read", "cannot open %s", path);
    size_t start = out->n;
    int rc;
    for (;;) {
        size_t left = max - (out->n - start), want = left < 65535 ? left + 1 : 65536; // +1 shows what is too long
        if (ck_buf_reserve(out, want)) {
            rc = ck_fail(err, 500, "no_memory", "no memory to read %s", path);
            break;
        }
        ssize_t got = read(fd, out->p + out->n, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rc = ck_fail_errno(err, errno, 500, "cannot_read", "cannot read %s", path);
            break;
        }
        if ((size_t)got > left) {
            rc = ck_fail(err, 500, "file_too_large", "%s is over %zu bytes", path, max);
            break;
        }
        if (got == 0) {
            out->p[out->n] = 0;
            return 0;
        }
        out->n += (size_t)got;
    }
    out->n = start;
    return rc;
}

int ck_write_all(int fd, const void *p, size_t n)
{
    const char *at = p;
    while (n) {
        ssize_t put = write(fd, at, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        at += put;
        n -= (size_t)put;
    }
    return 0;
}

static int sync_parent(const char *path)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash)
        snprintf(dir, sizeof dir, ".");
    else if (slash != dir)
        *slash = 0;
    CK_CLEAN_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int ck_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode, struct ck_err *err)
{
    char tmp[PATH_MAX];
    if (ck_path(tmp, sizeof tmp, err, "%s.tmp.%d", path, (int)getpid()))
        return -1;
    CK_CLEAN_FD int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", tmp);
    if (fchmod(fd, mode) || ck_write_all(fd, p, n) || fsync(fd) || rename(tmp, path) || sync_parent(path)) {
        int e = errno;
        unlink(tmp);
        return ck_fail_errno(err, e, 500, "cannot_write", "cannot write %s", path);
    }
    return 0;
}

int ck_mkdirs(const char *path, mode_t mode, struct ck_err *err)
{
    char at[PATH_MAX];
    if (!*path)
        return ck_fail(err, 500, "cannot_write", "the name of a folder is empty");
    if (ck_path(at, sizeof at, err, "%s", path))
        return -1;
    for (char *s = at + 1;; s++) {
        if (*s && *s != '/')
            continue;
        char keep = *s;
        *s = 0;
        if (mkdir(at, mode) && errno != EEXIST)
            return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create folder %s", at);
        *s = keep;
        if (!keep)
            break;
    }
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return ck_fail(err, 500, "cannot_write", "%s is not a folder", path);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) && errno != ENOENT ? -1 : 0; // what is gone already must not end the walk
}

int ck_remove_tree(const char *path, struct ck_err *err)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) && errno != ENOENT)
        return ck_fail_errno(err, errno, 500, "cannot_remove", "cannot remove %s", path);
    return 0;
}

int ck_path(char *out, size_t room, struct ck_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, room, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= room)
        return ck_fail(err, 500, "path_too_long", "path is over %zu bytes", room);
    return 0;
}
