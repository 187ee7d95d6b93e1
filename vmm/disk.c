// Disks of templates. Must never leave a half-written file under a final name.
#include "vmm/disk.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "vmm/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOOL_MS 120000
#define PAGE 4096u
#define CHUNK (1u << 20)

static int need_tool(const char *name, const char *package, char path[PATH_MAX], struct ck_err *err)
{
    int rc = ck_find_program(name, path, err);
    return rc > 0 ? ck_fail(err, 500, "no_tool", "%s is not installed: run `apt-get install %s`", name, package) : rc;
}

// An empty raw file of that size; the file system's tools fill in what they need.
static int make_raw(const char *path, uint64_t bytes, struct ck_err *err)
{
    CK_CLEAN_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", path);
    return 0;
}

int ck_disk_make(const char *dir, uint64_t bytes, struct ck_err *err)
{
    char mke2fs[PATH_MAX], img[PATH_MAX], raw[PATH_MAX], out[PATH_MAX];
    if (need_tool("mke2fs", "e2fsprogs", mke2fs, err) || need_tool("qemu-img", "qemu-utils", img, err) ||
        ck_path(raw, sizeof raw, err, "%s/disk.raw", dir) || ck_path(out, sizeof out, err, "%s/disk.qcow2", dir) ||
        make_raw(raw, bytes, err))
        return -1;
    // Inode tables and journal are initialised now (holes in a sparse file), or the guest would do it
    // in the background of every session.
    char *fs[] = {mke2fs, (char *)"-q", (char *)"-F", (char *)"-t", (char *)"ext4", (char *)"-L", (char *)"cellkeep",
                  (char *)"-m", (char *)"0", (char *)"-E", (char *)"lazy_itable_init=0,lazy_journal_init=0", raw, NULL};
    char *convert[] = {img, (char *)"convert", (char *)"-q", (char *)"-f", (char *)"raw", (char *)"-O", (char *)"qcow2",
                       raw, out, NULL};
    int rc = ck_run(fs, TOOL_MS, 65536, NULL, err);
    if (!rc)
        rc = ck_run(convert, TOOL_MS, 65536, NULL, err);
    unlink(raw);
    return rc ? ck_wrap(err, "cannot make the disk of the template") : 0;
}

int ck_disk_make_blank(const char *dir, const char *backing, uint64_t bytes, struct ck_err *err)
{
    char img[PATH_MAX], out[PATH_MAX], size[32];
    if (need_tool("qemu-img", "qemu-utils", img, err) || ck_path(out, sizeof out, err, "%s/blank.qcow2", dir))
        return -1;
    snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
    char *argv[] = {img, (char *)"create", (char *)"-q", (char *)"-u", (char *)"-f", (char *)"qcow2", (char *)"-F",
                    (char *)"qcow2", (char *)"-b", (char *)backing, out, size, NULL};
    return ck_run(argv, TOOL_MS, 65536, NULL, err) ? ck_wrap(err, "cannot make the empty disk layer") : 0;
}

static bool is_zero(const uint8_t *p, size_t n) { return !p[0] && !memcmp(p, p + 1, n - 1); }

// Punches runs of zero pages of one chunk that starts at `at`.
static int punch_chunk(int fd, const uint8_t *p, size_t n, off_t at, uint64_t *kept)
{
    size_t run = 0; // zero bytes before i
    for (size_t i = 0; i <= n; i += PAGE) {
        bool zero = i < n && n - i >= PAGE && is_zero(p + i, PAGE);
        if (zero) {
            run += PAGE;
            continue;
        }
        if (run && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at + (off_t)(i - run), (off_t)run) &&
            errno != EOPNOTSUPP)
            return -1;
        run = 0;
        if (i < n)
            *kept += n - i < PAGE ? n - i : PAGE;
    }
    return 0;
}

int ck_disk_punch_zeroes(const char *path, uint64_t *kept, struct ck_err *err)
{
    CK_CLEAN_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    CK_CLEAN_FREE uint8_t *chunk = malloc(CHUNK);
    *kept = 0;
    if (fd < 0 || !chunk)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
        return ck_fail_errno(err, errno, 500, "cannot_read", "cannot open %s", path);
    for (off_t at = 0;;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return 0;
        if (data > at)
            at = data & ~(off_t)(PAGE - 1);
        ssize_t n = pread(fd, chunk, CHUNK, at);
        if (n == 0)
            return 0;
        if (n < 0 || punch_chunk(fd, chunk, (size_t)n, at, kept))
            return ck_fail_errno(err, errno, 500, "cannot_write", "cannot make %s sparse", path);
        at += n;
    }
}

int ck_disk_sync(const char *path, struct ck_err *err)
{
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd))
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot sync %s", path);
    return 0;
}

int ck_disk_copy(const char *from, const char *to, struct ck_err *err)
{
    char tmp[PATH_MAX];
    if (ck_path(tmp, sizeof tmp, err, "%s.tmp", to))
        return -1;
    CK_CLEAN_FD int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return ck_fail_errno(err, errno, 500, "cannot_read", "cannot open %s", from);
    CK_CLEAN_FD int out = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", tmp);
    char chunk[65536];
    ssize_t n;
    while ((n = read(in, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && ck_write_all(out, chunk, (size_t)n)) {
            n = -1;
            break;
        }
    if (n < 0 || rename(tmp, to)) {
        int e = errno;
        unlink(tmp);
        return ck_fail_errno(err, e, 500, "cannot_write", "cannot copy %s to %s", from, to);
    }
    return 0;
}
