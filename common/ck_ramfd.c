// The RAM of a template as a sealed memfd. Must never hand out a descriptor that can still be
// written: a failure half way closes it.
#include "common/ck_ramfd.h"

#include "common/ck_clean.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define CHUNK (1u << 20)

static bool all_zero(const uint8_t *p, size_t n)
{
    return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

// One stretch of data, page-wise sparse: a page of zeroes is not written, so it costs no memory.
static int copy_stretch(int in, int out, off_t at, off_t end, uint8_t *chunk)
{
    while (at < end) {
        size_t want = end - at < (off_t)CHUNK ? (size_t)(end - at) : CHUNK;
        ssize_t got = pread(in, chunk, want, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got ? errno : EIO; // shorter than fstat said: somebody is writing it
            return -1;
        }
        for (size_t i = 0; i < (size_t)got; i += 4096) {
            size_t n = (size_t)got - i < 4096 ? (size_t)got - i : 4096;
            if (!all_zero(chunk + i, n) && pwrite(out, chunk + i, n, at + (off_t)i) != (ssize_t)n)
                return -1;
        }
        at += got;
    }
    return 0;
}

static int copy_sparse(int in, int out, off_t size)
{
    CK_CLEAN_FREE uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return -1;
    for (off_t at = 0; at < size;) {
        off_t data = lseek(in, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return 0; // only holes from here
        off_t end = data < 0 ? size : lseek(in, data, SEEK_HOLE);
        if (data < 0)
            data = at; // a file system without SEEK_DATA: everything is data
        if (end < 0 || end > size)
            end = size;
        if (copy_stretch(in, out, data, end, chunk))
            return -1;
        at = end;
    }
    return 0; // NOLINT(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
}

int ck_ramfd_load(const char *path, uint64_t expect_bytes, int *out, struct ck_err *err)
{
    *out = -1;
    CK_CLEAN_FD int in = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st))
        return ck_fail_errno(err, errno, 500, "bad_template", "cannot open the template's memory %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || (expect_bytes && (uint64_t)st.st_size != expect_bytes))
        return ck_fail(err, 500, "bad_template",
                       "%s has %lld bytes, %llu expected: remove its folder and run `cellkeep template build`", path,
                       (long long)st.st_size, (unsigned long long)expect_bytes);
    CK_CLEAN_FD int fd = memfd_create("cellkeep-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, st.st_size))
        return ck_fail_errno(err, errno, 500, "no_memory", "cannot make a memfd of %lld bytes", (long long)st.st_size);
    if (copy_sparse(in, fd, st.st_size))
        return ck_fail_errno(err, errno, 500, "bad_template", "cannot load the template's memory %s", path);
    if (fcntl(fd, F_ADD_SEALS, SEALS))
        return ck_fail_errno(err, errno, 500, "cannot_seal", "cannot seal the template's memory");
    *out = ck_take_fd(&fd);
    return 0;
}

int ck_ramfd_check(int fd, uint64_t expect_bytes, struct ck_err *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    if (seals < 0 || fstat(fd, &st))
        return ck_fail_errno(err, errno, 500, "bad_ram_fd", "descriptor %d is not the template's memory", fd);
    if ((seals & SEALS) != SEALS)
        return ck_fail(err, 500, "bad_ram_fd", "the template's memory (descriptor %d) is not sealed", fd);
    if (expect_bytes && (uint64_t)st.st_size != expect_bytes)
        return ck_fail(err, 500, "bad_ram_fd", "the template's memory has %lld bytes, %llu expected",
                       (long long)st.st_size, (unsigned long long)expect_bytes);
    return 0;
}
