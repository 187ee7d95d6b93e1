// Uploads in progress. Each holds one descriptor and one temporary file; both go at commit, abort,
// or when a newer upload needs the place of one that nobody has touched for a while. A target that
// is a symbolic link is replaced, not followed.
#include "guest/agent/upload.h"

#include "guest/agent/files.h"
#include "guest/agent/paths.h"
#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STALE_MS 60000

struct upload {
    int64_t handle; // 0 = free place
    int dir, fd;
    char temp[64];
    char path[AG_PATH_MAX];
    mode_t mode;
    int64_t touched_ms;
};

struct ag_uploads {
    struct upload place[AG_UPLOADS_MAX];
    int64_t last;
};

struct ag_uploads *ag_uploads_new(void) { return calloc(1, sizeof(struct ag_uploads)); }

static void discard(struct upload *u)
{
    if (!u->handle)
        return;
    if (u->temp[0])
        unlinkat(u->dir, u->temp, 0);
    close(u->fd);
    close(u->dir);
    u->handle = 0;
}

static struct upload *free_place(struct ag_uploads *all)
{
    struct upload *oldest = &all->place[0];
    for (int i = 0; i < AG_UPLOADS_MAX; i++) {
        struct upload *u = &all->place[i];
        if (!u->handle)
            return u;
        if (u->touched_ms < oldest->touched_ms)
            oldest = u;
    }
    if (ck_mono_ms() - oldest->touched_ms < STALE_MS)
        return NULL;
    discard(oldest);
    return oldest;
}

static struct upload *find(struct ag_uploads *all, const json_t *header, struct ck_err *err)
{
    int64_t handle = ck_json_int(header, "handle", 0, NULL);
    for (int i = 0; handle && i < AG_UPLOADS_MAX; i++)
        if (all->place[i].handle == handle) {
            all->place[i].touched_ms = ck_mono_ms();
            return &all->place[i];
        }
    ck_fail(err, 404, "no_such_upload", "no upload with this handle");
    return NULL;
}

// The mode of the finished file: what was asked for, else the replaced file's, else 0644.
static int decide_mode(struct upload *u, const char *name, int64_t asked, struct ck_err *err)
{
    struct stat st;
    bool there = fstatat(u->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISDIR(st.st_mode))
        return ag_fail_path(err, EISDIR, u->path);
    u->mode = asked >= 0 ? (mode_t)(asked & 0777) : there && S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0644;
    return 0;
}

static int open_temp(struct upload *u, struct ck_err *err)
{
    uint8_t random[12];
    char hex[2 * sizeof random + 1];
    ck_random(random, sizeof random);
    ck_hex(random, sizeof random, hex);
    snprintf(u->temp, sizeof u->temp, AG_TEMP_PREFIX "%s", hex);
    u->fd = openat(u->dir, u->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return u->fd >= 0 ? 0 : ag_fail_path(err, errno, u->path);
}

int ag_op_write_open(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                     struct ck_err *err)
{
    (void)payload;
    struct ag_uploads *all = state;
    char dir[AG_PATH_MAX];
    const char *name;
    struct ck_err bad = CK_ERR_INIT;
    int64_t mode = ck_json_int(header, "mode", -1, &bad);
    struct upload *u = free_place(all);
    if (bad.status || !u)
        return bad.status ? ck_fail(err, 400, "bad_field", "%s", bad.text)
                          : ck_fail(err, 429, "busy", "%d uploads are in progress already", AG_UPLOADS_MAX);
    if (ag_path_field(header, "path", u->path, err) < 0)
        return -1;
    if (ag_path_split(u->path, dir, &name) < 0)
        return ag_fail_path(err, EISDIR, u->path);
    if (ag_make_folders(dir, err) < 0 || (u->dir = ag_open(dir, O_PATH | O_DIRECTORY, err)) < 0)
        return -1;
    if (decide_mode(u, name, mode, err) < 0 || open_temp(u, err) < 0) {
        close(u->dir);
        return -1;
    }
    u->handle = ++all->last;
    u->touched_ms = ck_mono_ms();
    out->answer = json_pack("{s:I}", "handle", (json_int_t)u->handle);
    return 0;
}

int ag_op_write(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)out;
    struct upload *u = find(state, header, err);
    if (!u)
        return -1;
    if (ck_write_all(u->fd, payload.p, payload.n) < 0) {
        ag_fail_path(err, errno, u->path);
        discard(u); // half a file is of no use, and on a full disk it is in the way
        return -1;
    }
    return 0;
}

int ag_op_write_commit(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                       struct ck_err *err)
{
    (void)payload;
    struct upload *u = find(state, header, err);
    if (!u)
        return -1;
    const char *name = strrchr(u->path, '/') + 1;
    struct stat st;
    bool created = fstatat(u->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
    int rc = 0;
    if (fchmod(u->fd, u->mode) < 0 || renameat(u->dir, u->temp, u->dir, name) < 0)
        rc = ag_fail_path(err, errno, u->path);
    else
        u->temp[0] = 0;
    if (rc == 0 && fstat(u->fd, &st) < 0)
        rc = ag_fail_path(err, errno, u->path);
    if (rc == 0)
        out->answer = json_pack("{s:o, s:b}", "stat", ag_stat_json(&st, u->fd, u->path), "created", created);
    discard(u);
    return rc;
}

int ag_op_write_abort(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                      struct ck_err *err)
{
    (void)payload, (void)out;
    struct upload *u = find(state, header, err);
    if (!u)
        return -1;
    discard(u);
    return 0;
}

int ag_job_abort_all(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                     struct ck_err *err)
{
    (void)header, (void)payload, (void)out, (void)err;
    struct ag_uploads *all = state;
    for (int i = 0; i < AG_UPLOADS_MAX; i++)
        discard(&all->place[i]);
    return 0;
}
