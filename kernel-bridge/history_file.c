// A paused session's files. The order is the promise: whoever finds paused.json finds the rest.
#include "kernel-bridge/history_file.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLICES 256 // of one write

static int write_slices(int fd, struct iovec *v, int n)
{
    while (n) {
        ssize_t put = writev(fd, v, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        for (; n && (size_t)put >= v->iov_len; v++, n--)
            put -= (ssize_t)v->iov_len;
        if (n) {
            v->iov_base = (char *)v->iov_base + put;
            v->iov_len -= (size_t)put;
        }
    }
    return 0;
}

static int write_image(int fd, const struct hist_image *image)
{
    struct iovec v[SLICES] = {{image->head.p, image->head.n}};
    int n = 1;
    for (size_t i = 0; i < image->frames; i++) {
        v[n++] = (struct iovec){image->frame[i]->p, image->frame[i]->n};
        if (n == SLICES) {
            if (write_slices(fd, v, n))
                return -1;
            n = 0;
        }
    }
    return write_slices(fd, v, n);
}

static int write_history(const char *dir, const struct hist_image *image, struct ck_err *err)
{
    char tmp[PATH_MAX], path[PATH_MAX];
    if (ck_path(tmp, sizeof tmp, err, "%s/history.tmp", dir) || ck_path(path, sizeof path, err, "%s/history", dir))
        return -1;
    unlink(tmp); // of a bridge that was killed
    CK_CLEAN_FD int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", tmp);
    if (write_image(fd, image) || fsync(fd) || rename(tmp, path)) {
        int e = errno;
        unlink(tmp);
        return ck_fail_errno(err, e, e == ENOSPC || e == EDQUOT ? 507 : 500,
                             e == ENOSPC || e == EDQUOT ? "no_space" : "cannot_write", "cannot write %s", path);
    }
    return 0;
}

int hist_write(const char *dir, const char *id, const char *layer, struct hist_image *image, struct ck_err *err)
{
    char path[PATH_MAX], text[200];
    int n = snprintf(text, sizeof text, "{\"version\":1,\"id\":\"%s\",\"layer\":\"%s\"}\n", id, layer);
    if (hist_seal(image, err) || write_history(dir, image, err))
        return -1;
    if (ck_path(path, sizeof path, err, "%s/paused.json", dir) || // its sync of the folder covers both
        ck_write_file_atomic(path, text, (size_t)n, 0644, err)) {
        hist_remove(dir);
        return -1;
    }
    return 0;
}

int hist_read(const char *dir, uint64_t max, struct ck_buf *bytes, struct ck_err *err)
{
    char path[PATH_MAX];
    return ck_path(path, sizeof path, err, "%s/history", dir) || ck_read_file(path, (size_t)max, bytes, err) ? -1 : 0;
}

void hist_remove(const char *dir)
{
    static const char *const names[] = {"paused.json", "history"};
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX];
        if (!ck_path(path, sizeof path, NULL, "%s/%s", dir, names[i]) && unlink(path) && errno != ENOENT)
            ck_log(CK_LOG_WARN, "bridge", "not_removed file=%s errno=%d", names[i], errno);
    }
}
