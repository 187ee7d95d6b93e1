// Marks of use in the cache folder. Must never stand in the way of starting: a cache that may only be
// read is used without marks.
#include "vmm/cache.h"

#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int ck_cache_lock(const char *cache, bool exclusive, int *fd)
{
    char path[PATH_MAX];
    *fd = -1;
    if (ck_path(path, sizeof path, NULL, "%s/.use-lock", cache))
        return -1;
    CK_CLEAN_FD int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0)
        return -1;
    int rc;
    do
        rc = flock(lock, exclusive ? LOCK_EX | LOCK_NB : LOCK_SH);
    while (rc && errno == EINTR);
    if (rc)
        return errno == EWOULDBLOCK ? 1 : -1;
    *fd = ck_take_fd(&lock);
    return 0;
}

void ck_cache_touch(const char *dir, const char *file)
{
    char path[PATH_MAX];
    if (!ck_path(path, sizeof path, NULL, "%s/%s", dir, file))
        utimensat(AT_FDCWD, path, NULL, 0);
}

int ck_cache_register(const char *cache, const char *state_dir, struct ck_err *err)
{
    char state[PATH_MAX], sessions[PATH_MAX], users[PATH_MAX], link[PATH_MAX], is[PATH_MAX];
    char name[CK_SHA256_LEN * 2 + 1];
    uint8_t digest[CK_SHA256_LEN];
    if (!realpath(state_dir, state))
        return ck_fail_errno(err, errno, 500, "state_dir", "cannot use the state folder %s", state_dir);
    if (ck_path(sessions, sizeof sessions, err, "%s/sessions", state) ||
        ck_path(users, sizeof users, err, "%s/users", cache) || ck_sha256(ck_slice_str(sessions), digest))
        return -1;
    ck_hex(digest, 16, name);
    if (ck_path(link, sizeof link, err, "%s/%s", users, name))
        return -1;
    ssize_t n = readlink(link, is, sizeof is - 1);
    if (n > 0 && (size_t)n == strlen(sessions) && !memcmp(is, sessions, (size_t)n))
        return 0;
    if (ck_mkdirs(users, 0755, err))
        return -1;
    unlink(link);
    if (symlink(sessions, link) && errno != EEXIST)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", link);
    return 0;
}
