// Serving files. Opening never blocks and never has side effects: a path is first opened with O_PATH,
// and only a regular file is opened again for reading, so that a FIFO or a device somebody put in
// place of a file cannot hold the worker.
#include "guest/agent/files.h"

#include "guest/agent/mime.h"
#include "guest/agent/paths.h"
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIST_DEFAULT 1000
#define LIST_MAX 10000
#define LIST_BYTES_MAX (800 * 1024)
#define REMOVE_DEPTH_MAX 200

int ag_fail_path(struct ck_err *err, int errnum, const char *path)
{
    static const struct {
        int errnum, status;
        const char *reason;
    } known[] = {
        {ENOENT, 404, "not_found"},   {ENOTDIR, 409, "not_a_folder"}, {EISDIR, 409, "is_a_folder"},
        {EACCES, 403, "forbidden"},   {EPERM, 403, "forbidden"},
        {ELOOP, 403, "forbidden"},    {EROFS, 403, "forbidden"},      {ENAMETOOLONG, 400, "bad_path"},
        {EINVAL, 400, "bad_path"},    {EEXIST, 409, "exists"},        {ENOTEMPTY, 409, "not_empty"},
        {ENOSPC, 507, "disk_full"},   {EDQUOT, 507, "disk_full"},     {EFBIG, 413, "too_large"},
        {ETXTBSY, 409, "in_use"},     {EBUSY, 409, "in_use"},         {ENOMEM, 503, "no_memory"},
    };
    if (errnum == EXDEV) // what openat2 says of /proc, /sys, /dev and /run
        return ck_fail(err, 403, "forbidden", "%.300s: only the session's own files are served, not /proc, /sys, /dev or /run",
                       path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].errnum == errnum)
            return ck_fail_errno(err, errnum, known[i].status, known[i].reason, "%.300s", path);
    return ck_fail_errno(err, errnum, 500, "io_error", "%.300s", path);
}

int ag_path_field(const json_t *header, const char *field, char *out, struct ck_err *err)
{
    char path[CK_NAME_MAX];
    return ck_name_get(header, field, path, err) ? -1 : ag_path_clean(path, out, err);
}

int ag_open(const char *path, int flags, struct ck_err *err)
{
    static int root = -1; // this thread's only; "/" never changes
    if (root < 0)
        root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    return fd >= 0 ? fd : ag_fail_path(err, errno, path);
}

int ag_open_parent(const char *path, const char **name, struct ck_err *err)
{
    char dir[AG_PATH_MAX];
    if (ag_path_split(path, dir, name) < 0)
        return ag_fail_path(err, EISDIR, path);
    return ag_open(dir, O_PATH | O_DIRECTORY, err);
}

int ag_make_folders(const char *dir, struct ck_err *err)
{
    struct ck_err inner = CK_ERR_INIT;
    const char *name;
    CK_CLEAN_FD int there = ag_open(dir, O_PATH | O_DIRECTORY, &inner);
    if (there >= 0)
        return 0;
    char up[AG_PATH_MAX];
    if (strcmp(inner.reason, "not_found") != 0 || ag_path_split(dir, up, &name) < 0) {
        *err = inner;
        return -1;
    }
    if (ag_make_folders(up, err) < 0) // at most AG_PATH_MAX / 2 deep, by the path's own length
        return -1;
    CK_CLEAN_FD int parent = ag_open_parent(dir, &name, err);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return ag_fail_path(err, errno, dir);
    return 0;
}

static int64_t ns(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

void ag_etag(const struct stat *st, char *out)
{
    snprintf(out, AG_ETAG_MAX, "%llx-%llx-%llx", (unsigned long long)st->st_ino, (unsigned long long)st->st_size,
             (unsigned long long)ns(st->st_mtim));
}

static const char *type_name(mode_t mode) { return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : "other"; }

// A descriptor for reading what an O_PATH descriptor of a regular file names.
static int reopen(int fd)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

json_t *ag_stat_json(const struct stat *st, int fd, const char *name)
{
    char etag[AG_ETAG_MAX];
    const char *mime = S_ISDIR(st->st_mode) ? "inode/directory" : "application/octet-stream";
    if (S_ISREG(st->st_mode)) {
        uint8_t head[AG_MIME_HEAD];
        CK_CLEAN_FD int in = reopen(fd);
        ssize_t n = in >= 0 ? pread(in, head, sizeof head, 0) : -1;
        mime = n >= 0 ? ag_mime_guess(name, head, (size_t)n) : mime;
    }
    ag_etag(st, etag);
    return json_pack("{s:s, s:I, s:I, s:i, s:s, s:s}", "type", type_name(st->st_mode), "size", (json_int_t)st->st_size,
                     "mtime_ns", (json_int_t)ns(st->st_mtim), "mode", (int)(st->st_mode & 07777), "etag", etag, "mime",
                     mime);
}

static int answer_stat(int fd, const char *path, struct ag_result *out, struct ck_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return ag_fail_path(err, errno, path);
    out->answer = json_pack("{s:o}", "stat", ag_stat_json(&st, fd, path));
    return out->answer ? 0 : ck_fail(err, 503, "no_memory", "out of memory");
}

int ag_op_stat(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)state, (void)payload;
    char path[AG_PATH_MAX];
    if (ag_path_field(header, "path", path, err) < 0)
        return -1;
    CK_CLEAN_FD int fd = ag_open(path, O_PATH, err);
    return fd < 0 ? -1 : answer_stat(fd, path, out, err);
}

// Opens a regular file for reading and stats it.
static int open_regular(const char *path, struct stat *st, struct ck_err *err)
{
    CK_CLEAN_FD int at = ag_open(path, O_PATH, err);
    if (at < 0)
        return -1;
    if (fstat(at, st) < 0)
        return ag_fail_path(err, errno, path);
    if (S_ISDIR(st->st_mode))
        return ag_fail_path(err, EISDIR, path);
    if (!S_ISREG(st->st_mode))
        return ck_fail(err, 409, "not_a_file", "%.300s: not a regular file", path);
    int fd = reopen(at);
    return fd >= 0 ? fd : ag_fail_path(err, errno, path);
}

int ag_op_read(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)state, (void)payload;
    char path[AG_PATH_MAX], etag[AG_ETAG_MAX];
    struct stat st;
    struct ck_err bad = CK_ERR_INIT;
    int64_t offset = ck_json_int(header, "offset", 0, &bad), length = ck_json_int(header, "length", AG_READ_MAX, &bad);
    const char *want = ck_json_str(header, "etag", NULL, &bad);
    if (bad.status || offset < 0 || length < 0 || length > AG_READ_MAX)
        return ck_fail(err, 400, "bad_field", "offset and length must be whole numbers, length at most %d",
                       AG_READ_MAX);
    if (ag_path_field(header, "path", path, err) < 0)
        return -1;
    CK_CLEAN_FD int fd = open_regular(path, &st, err);
    if (fd < 0)
        return -1;
    ag_etag(&st, etag);
    if (want && strcmp(want, etag) != 0)
        return ck_fail(err, 409, "file_changed", "%.300s changed while it was read", path);
    if (ck_buf_reserve(&out->payload, (size_t)length + 1) < 0)
        return ck_fail(err, 503, "no_memory", "out of memory");
    while (out->payload.n < (size_t)length) {
        ssize_t n = pread(fd, out->payload.p + out->payload.n, (size_t)length - out->payload.n,
                          offset + (off_t)out->payload.n);
        if (n < 0)
            return ag_fail_path(err, errno, path);
        if (n == 0)
            break;
        out->payload.n += (size_t)n;
    }
    bool eof = offset + (int64_t)out->payload.n >= st.st_size;
    out->answer = json_pack("{s:o, s:b}", "stat", ag_stat_json(&st, fd, path), "eof", eof);
    return out->answer ? 0 : ck_fail(err, 503, "no_memory", "out of memory");
}

struct listing {
    char **names;
    size_t count, room;
    bool truncated;
};

static void listing_free(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int read_names(int fd, size_t limit, struct listing *l)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -1;
    }
    int rc = 0;
    for (struct dirent *e = readdir(dir); e && rc == 0; e = readdir(dir)) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            !strncmp(e->d_name, AG_TEMP_PREFIX, strlen(AG_TEMP_PREFIX)))
            continue;
        if (l->count == limit) {
            l->truncated = true;
            break;
        }
        if (l->count == l->room) {
            size_t room = l->room ? 2 * l->room : 64;
            char **more = realloc(l->names, room * sizeof *more);
            if (!more) {
                rc = -1;
                break;
            }
            l->names = more;
            l->room = room;
        }
        if ((l->names[l->count] = strdup(e->d_name)))
            l->count++;
        else
            rc = -1;
    }
    closedir(dir);
    if (l->count)
        qsort(l->names, l->count, sizeof *l->names, by_name);
    return rc;
}

static json_t *list_entry(int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, 0) < 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return NULL;
    json_t *e = json_pack("{s:s, s:I, s:I}", "type", type_name(st.st_mode), "size", (json_int_t)st.st_size, "mtime_ns",
                          (json_int_t)ns(st.st_mtim));
    if (e && ck_name_set(e, "name", name) < 0) {
        json_decref(e);
        return NULL;
    }
    return e;
}

int ag_op_list(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)state, (void)payload;
    char path[AG_PATH_MAX];
    struct listing l = {.count = 0};
    int64_t limit = ck_json_int(header, "limit", LIST_DEFAULT, NULL);
    limit = limit < 1 ? 1 : limit > LIST_MAX ? LIST_MAX : limit;
    if (ag_path_field(header, "path", path, err) < 0)
        return -1;
    CK_CLEAN_FD int at = ag_open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, err);
    int fd = at >= 0 ? fcntl(at, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0)
        return -1;
    json_t *entries = json_array();
    size_t bytes = 0;
    int rc = entries ? read_names(fd, (size_t)limit, &l) : -1;
    for (size_t i = 0; rc == 0 && i < l.count; i++) {
        bytes += 100 + 4 * strlen(l.names[i]);
        if (bytes > LIST_BYTES_MAX) {
            l.truncated = true;
            break;
        }
        json_t *e = list_entry(at, l.names[i]);
        if (e)
            json_array_append_new(entries, e);
    }
    listing_free(&l);
    if (rc == 0)
        out->answer = json_pack("{s:O, s:b}", "entries", entries, "truncated", l.truncated);
    json_decref(entries);
    return out->answer ? 0 : ck_fail(err, 503, "no_memory", "out of memory");
}

static int remove_tree(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -1;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
        return 0;
    if ((errno != ENOTEMPTY && errno != EEXIST) || depth >= REMOVE_DEPTH_MAX)
        return -1;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int rc = 0;
    for (struct dirent *e = readdir(dir); e && rc == 0; e = readdir(dir))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_tree(dirfd(dir), e->d_name, depth + 1);
    int saved = errno;
    closedir(dir);
    errno = saved;
    return rc < 0 ? -1 : unlinkat(parent, name, AT_REMOVEDIR);
}

int ag_op_remove(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)state, (void)payload, (void)out;
    char path[AG_PATH_MAX];
    const char *name;
    bool recursive = ck_json_bool(header, "recursive", false, NULL);
    if (ag_path_field(header, "path", path, err) < 0)
        return -1;
    if (ag_path_protected(path))
        return ck_fail(err, 403, "forbidden", "%s cannot be removed", path);
    CK_CLEAN_FD int parent = ag_open_parent(path, &name, err);
    if (parent < 0)
        return -1;
    int rc = recursive ? remove_tree(parent, name, 0) : unlinkat(parent, name, 0);
    if (rc < 0 && !recursive && errno == EISDIR)
        rc = unlinkat(parent, name, AT_REMOVEDIR);
    return rc < 0 ? ag_fail_path(err, errno, path) : 0;
}

int ag_op_mkdir(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)state, (void)payload;
    char path[AG_PATH_MAX];
    if (ag_path_field(header, "path", path, err) < 0 || ag_make_folders(path, err) < 0)
        return -1;
    CK_CLEAN_FD int fd = ag_open(path, O_PATH, err);
    return fd < 0 ? -1 : answer_stat(fd, path, out, err);
}

int ag_op_move(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    (void)state, (void)payload;
    char from[AG_PATH_MAX], to[AG_PATH_MAX];
    const char *from_name, *to_name;
    bool overwrite = ck_json_bool(header, "overwrite", false, NULL);
    if (ag_path_field(header, "from", from, err) < 0 || ag_path_field(header, "to", to, err) < 0)
        return -1;
    if (ag_path_protected(from) || ag_path_protected(to))
        return ck_fail(err, 403, "forbidden", "%s cannot be moved", ag_path_protected(from) ? from : to);
    CK_CLEAN_FD int source = ag_open_parent(from, &from_name, err);
    CK_CLEAN_FD int target = source >= 0 ? ag_open_parent(to, &to_name, err) : -1;
    if (target < 0)
        return -1;
    if (renameat2(source, from_name, target, to_name, overwrite ? 0 : RENAME_NOREPLACE) < 0)
        return ag_fail_path(err, errno, errno == ENOENT ? from : to);
    CK_CLEAN_FD int fd = openat(target, to_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? ag_fail_path(err, errno, to) : answer_stat(fd, to, out, err);
}
