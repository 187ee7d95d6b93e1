// Limits that the guest keeps by itself. The disk's is a trick that costs nothing: ext4 is told to hold that
// much in reserve for itself (reserved_clusters), which it refuses to everybody; so the limit may differ
// between sessions of one template and holds from one moment to the next. Must never lower what a kernel
// needs to come up.
#include "guest/agent/limits.h"

#include "guest/agent/cgroup.h"
#include "guest/agent/kernel.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define EXT4 "/sys/fs/ext4"

static unsigned pids = AG_PIDS_DEFAULT, open_files = AG_FILES_DEFAULT;
static atomic_uint kernel_serial;

unsigned ag_limits_kernel_pids(void) { return pids; }
unsigned ag_limits_command_pids(void) { return 2 * pids; }
unsigned ag_limits_all_pids(void) { return 4 * pids; }
unsigned ag_limits_open_files(void) { return open_files; }
void ag_limits_watch(unsigned serial) { kernel_serial = serial; }

uint64_t ag_limits_refused(void)
{
    char name[AG_CGROUP_NAME_MAX];
    snprintf(name, sizeof name, "kernel-%u", kernel_serial);
    return ag_cgroup_pids_refused(name);
}

void ag_limits_apply_to(pid_t pid)
{
    const struct rlimit files = {open_files, open_files};
    prlimit(pid, RLIMIT_NOFILE, &files, NULL); // refused: it has just ended
}

void ag_limits_disk(struct ag_disk *out)
{
    struct statvfs fs = {.f_frsize = 0};
    statvfs("/", &fs); // the overlay reports its writable side
    out->used = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    out->left = (uint64_t)fs.f_bavail * fs.f_frsize;
}

// The file of the one ext4 that is mounted.
static int open_reserve(struct ck_err *err)
{
    DIR *dir = opendir(EXT4);
    int fd = -1;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e && fd < 0; e = readdir(dir)) {
        char path[300];
        if (e->d_name[0] != '.' && snprintf(path, sizeof path, EXT4 "/%s/reserved_clusters", e->d_name) < (int)sizeof path)
            fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (dir)
        closedir(dir);
    return fd >= 0 ? fd : ck_fail(err, 500, "limits", "the disk's limit cannot be set");
}

static int limit_disk(uint64_t bytes, struct ck_err *err)
{
    static uint64_t usual; // what ext4 holds in reserve by itself
    struct statvfs fs;
    char text[32] = "";
    CK_CLEAN_FD int fd = open_reserve(err);
    if (fd < 0)
        return -1;
    if (statvfs("/", &fs) || pread(fd, text, sizeof text - 1, 0) <= 0)
        return ck_fail_errno(err, errno, 500, "limits", "the disk's limit");
    if (!usual)
        usual = strtoull(text, NULL, 10);
    uint64_t allowed = bytes / fs.f_frsize, reserve = usual;
    if (bytes && allowed < fs.f_blocks && fs.f_blocks - allowed > usual)
        reserve = fs.f_blocks - allowed;
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)reserve);
    if (pwrite(fd, text, (size_t)n, 0) != n)
        return ck_fail_errno(err, errno, 500, "limits", "the disk's limit");
    return 0;
}

static int64_t number(const json_t *o, const char *key, int64_t now, int64_t min, int64_t max, struct ck_err *err)
{
    int64_t v = ck_json_int(o, key, now, err);
    if (!err->status && (v < min || v > max))
        ck_fail(err, 400, "bad_field", "field \"%s\" must be %lld to %lld", key, (long long)min, (long long)max);
    return v;
}

void ag_op_limits(struct ag_kernel *k, struct ag_request *req)
{
    struct ck_err err = CK_ERR_INIT;
    const json_t *o = req->header;
    int64_t new_pids = number(o, "pids", pids, AG_PIDS_MIN, AG_PIDS_MAX, &err);
    int64_t files = number(o, "open_files", open_files, AG_FILES_MIN, AG_FILES_DEFAULT, &err);
    int64_t disk = number(o, "disk_bytes", 0, 0, INT64_MAX, &err);
    if (!err.status && disk && disk < AG_DISK_MIN)
        ck_fail(&err, 400, "bad_field", "field \"disk_bytes\" must be 0 or at least %u", AG_DISK_MIN);
    if (err.status || (json_object_get(o, "disk_bytes") && limit_disk((uint64_t)disk, &err))) {
        ag_answer_error(req, &err);
        return;
    }
    pids = (unsigned)new_pids;
    open_files = (unsigned)files;
    ag_cgroup_limit_pids(NULL, (int)ag_limits_all_pids());
    ag_kernel_limit(k);
    ag_answer(req, NULL, ck_slice(NULL, 0));
}
