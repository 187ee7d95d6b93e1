// Walks the home folder as uid 1000. Everything found there is of the user's making: names are
// bytes, folders may change while they are read, files may be huge or unreadable. Symbolic links and
// special files are never followed or opened. Bounded in entries, depth, listed files and hashed bytes.
#include "guest/agent/scan.h"

#include "guest/agent/cgroup.h"
#include "guest/agent/limits.h"
#include "guest/agent/mime.h"
#include "guest/agent/paths.h"
#include "guest/agent/peak.h"
#include "guest/agent/snapshot.h"
#include "guest/agent/spawn.h"
#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_ignore.h"
#include "common/ck_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 32
#define VISITS_MAX 100000
#define LISTED_MAX 200
#define LISTED_BYTES_MAX (700 * 1024)
#define HASH_FILE_MAX (64LL << 20)
#define HASH_TOTAL_MAX (128LL << 20)

struct ag_scan {
    struct ag_snapshot *last;
    struct ag_peak peak;
    json_t *ignore; // patterns, checked; NULL = the usual ones
};

struct walk {
    struct ag_snapshot *into;
    const json_t *ignore;
    char path[AG_PATH_MAX]; // relative to the home folder, of the folder being read
    unsigned visits;
    bool truncated;
    dev_t dev;
};

struct ag_scan *ag_scan_new(void) { return calloc(1, sizeof(struct ag_scan)); }

static int64_t ns(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

// Folders that hold caches and tools rather than a user's results.
static bool unwatched(const json_t *ignore, const char *name)
{
    static const char *const usual[] = {".cache",      "__pycache__", ".ipython",      ".config", ".local",
                                        ".matplotlib", ".jupyter",    "site-packages", ".git",    "node_modules",
                                        ".npm",        ".ipynb_checkpoints"};
    size_t n = ignore ? json_array_size(ignore) : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < n; i++)
        if (ck_ignore_match(ignore ? json_string_value(json_array_get(ignore, i)) : usual[i], name))
            return true;
    return false;
}

static void walk_dir(struct walk *w, int fd, size_t len, int depth);

static void enter(struct walk *w, int parent, const char *name, size_t len, int depth)
{
    if (depth >= DEPTH_MAX) {
        w->truncated = true;
        return;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        walk_dir(w, fd, len, depth + 1); // takes fd
}

static void visit(struct walk *w, int parent, const char *name, size_t len, int depth)
{
    struct stat st;
    size_t n = strlen(name);
    if (++w->visits > VISITS_MAX || len + n + 2 > sizeof w->path) {
        w->truncated = true;
        return;
    }
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; // gone meanwhile
    memcpy(w->path + len, name, n + 1);
    if (S_ISREG(st.st_mode) && strncmp(name, AG_TEMP_PREFIX, strlen(AG_TEMP_PREFIX)) != 0) {
        struct ag_file f = {w->path, ns(st.st_mtim), ns(st.st_ctim), st.st_size, st.st_ino, false};
        w->truncated |= ag_snapshot_add(w->into, &f) != 0;
    } else if (S_ISDIR(st.st_mode) && st.st_dev == w->dev && !unwatched(w->ignore, name)) {
        w->path[len + n] = '/';
        enter(w, parent, name, len + n + 1, depth);
    }
    w->path[len] = 0;
}

static void walk_dir(struct walk *w, int fd, size_t len, int depth)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            visit(w, dirfd(dir), e->d_name, len, depth);
        if (w->truncated && (w->visits > VISITS_MAX || ag_snapshot_count(w->into) >= AG_SNAPSHOT_MAX))
            break;
    }
    closedir(dir);
}

static struct ag_snapshot *take_picture(const struct ag_scan *s, bool *truncated, struct ck_err *err)
{
    struct walk w = {.into = ag_snapshot_new(), .ignore = s->ignore};
    struct stat st;
    int fd = open(AG_HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!w.into || fd < 0 || fstat(fd, &st) < 0) {
        ck_fail_errno(err, errno, 500, "scan", "reading " AG_HOME);
        ag_snapshot_free(w.into);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    w.dev = st.st_dev;
    walk_dir(&w, fd, 0, 0);
    *truncated = w.truncated;
    return w.into;
}

int ag_job_baseline(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                    struct ck_err *err)
{
    (void)header, (void)payload, (void)out;
    struct ag_scan *s = state;
    bool truncated = false;
    struct ag_snapshot *now = take_picture(s, &truncated, err);
    if (!now)
        return -1;
    ag_snapshot_free(s->last);
    s->last = now;
    return 0;
}

int ag_op_watch(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out, struct ck_err *err)
{
    struct ag_scan *s = state;
    const json_t *ignore = json_object_get(header, "ignore");
    if (ignore && ck_ignore_check(ignore, "ignore", err) < 0)
        return -1;
    json_decref(s->ignore);
    s->ignore = json_deep_copy(ignore); // the request is another thread's
    return ag_job_baseline(state, header, payload, out, err);
}

// Whether anybody has the file open for writing, or maps it so: only then a lease for reading is refused.
// It is given back at once; who opens the file meanwhile waits for that.
static bool being_written(int fd)
{
    bool busy = fcntl(fd, F_SETLEASE, F_RDLCK) < 0 && errno == EAGAIN;
    if (!busy)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    return busy;
}

static bool unlike(const struct ag_file *f, const struct stat *st)
{
    return st->st_size != f->size || ns(st->st_mtim) != f->mtime_ns;
}

struct look {
    const char *mime;
    char hex[CK_SHA256_HEX]; // "" when it was not hashed
    bool partial;            // somebody is still writing it
};

static void digest(int fd, uint8_t *buf, size_t room, ssize_t n, int64_t limit, char hex[CK_SHA256_HEX])
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
    int64_t total = n;
    while (ok && n > 0 && total <= limit) {
        ok = EVP_DigestUpdate(ctx, buf, (size_t)n) == 1;
        n = read(fd, buf, room);
        total += n > 0 ? n : 0;
    }
    if (ok && n == 0 && total <= limit && EVP_DigestFinal_ex(ctx, sum, NULL) == 1)
        ck_hex(sum, CK_SHA256_LEN, hex);
    EVP_MD_CTX_free(ctx);
}

// Reads at most limit bytes: type from the first ones, hash of all.
static void look_into(const char *path, const struct ag_file *f, int64_t limit, struct look *l)
{
    uint8_t buf[64 * 1024];
    struct stat st;
    *l = (struct look){.mime = "application/octet-stream"};
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    l->partial = being_written(fd);
    ssize_t n = read(fd, buf, sizeof buf);
    if (n < 0)
        return;
    l->mime = ag_mime_guess(path, buf, (size_t)n > AG_MIME_HEAD ? AG_MIME_HEAD : (size_t)n);
    if (!l->partial)
        digest(fd, buf, sizeof buf, n, limit, l->hex);
    if (!fstat(fd, &st) && unlike(f, &st)) { // it was written since the picture was taken: the next one has it
        l->partial = true;
        l->hex[0] = 0;
    }
}

// NULL: there is nothing to tell, or no memory.
static json_t *describe(struct ag_snapshot *now, const struct ag_change *c, int64_t *budget)
{
    char path[AG_PATH_MAX + sizeof AG_HOME + 1];
    struct look l;
    const struct ag_file *f = c->file;
    snprintf(path, sizeof path, AG_HOME "/%s", f->path);
    int64_t limit = f->size > HASH_FILE_MAX || f->size > *budget ? 0 : f->size;
    look_into(path, f, limit, &l);
    *budget -= l.partial ? 0 : limit;
    if (l.partial)
        ag_snapshot_mark(now, f->path);
    if (l.partial && c->same)
        return NULL; // still
    json_t *j = json_pack("{s:I, s:I, s:s, s:s}", "size", (json_int_t)f->size, "mtime_ns", (json_int_t)f->mtime_ns,
                          "change", c->created ? "created" : "changed", "mime", l.mime);
    if (!j || ck_name_set(j, "path", path) < 0 || (l.partial && json_object_set_new(j, "partial", json_true()) < 0) ||
        json_object_set_new(j, "sha256", l.hex[0] ? json_string(l.hex) : json_null()) < 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

int ag_op_changes(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                  struct ck_err *err)
{
    (void)header, (void)payload;
    struct ag_scan *s = state;
    struct ag_change *list = NULL;
    size_t count = 0, bytes = 0;
    int64_t budget = HASH_TOTAL_MAX;
    bool truncated = false;
    struct ag_snapshot *now = take_picture(s, &truncated, err);
    if (!now)
        return -1;
    json_t *files = json_array();
    if (!files || ag_snapshot_diff(s->last, now, &list, &count) < 0) {
        json_decref(files);
        ag_snapshot_free(now);
        return ck_fail(err, 503, "no_memory", "out of memory");
    }
    size_t told = count;
    for (size_t i = 0; i < count; i++) {
        bool room = json_array_size(files) < LISTED_MAX && bytes < LISTED_BYTES_MAX;
        json_t *one = room ? describe(now, &list[i], &budget) : NULL;
        if (one) {
            bytes += 300 + 4 * strlen(list[i].file->path);
            json_array_append_new(files, one);
        } else if (list[i].same) {
            told--;
            ag_snapshot_mark(now, list[i].file->path); // to be looked at again
        }
    }
    free(list);
    ag_snapshot_free(s->last);
    s->last = now;
    struct ag_usage use; // along with it, so that a finished cell needs one round trip
    struct ag_disk disk;
    ag_cgroup_usage(NULL, &use);
    ag_limits_disk(&disk);
    out->answer = json_pack("{s:o, s:I, s:b, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}}", "files", files, "count",
                            (json_int_t)count, "scan_truncated", truncated, "usage", "cpu_ms", (json_int_t)use.cpu_ms, "memory_bytes",
                            (json_int_t)use.memory_bytes, "peak_memory_bytes", (json_int_t)use.peak_memory_bytes,
                            "recent_peak_memory_bytes", (json_int_t)ag_peak_since(&s->peak, &use), "disk_bytes",
                            (json_int_t)disk.used, "disk_free_bytes", (json_int_t)disk.left, "pids_refused",
                            (json_int_t)ag_limits_refused());
    return out->answer ? 0 : ck_fail(err, 503, "no_memory", "out of memory");
}
