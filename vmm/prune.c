// Removes from the cache what nobody needs any more. A template is needed by the disks of sessions (their chains of
// qcow2 layers end in it), by the layers of paused ones, by running QEMUs and by who gave it a name; an image by templates, a root file system by images. Must never
// remove what might be in use: every doubt keeps everything.
#include "vmm/cache.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "vmm/named.h"
#include "vmm/template.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 1024  // of one kind; a cache with more is not pruned
#define FILES_MAX 4096    // of one session
#define DEPTH_MAX 3       // session, layers, layer
#define JSON_MAX (256 * 1024)
#define TMP_KEEP_S (24 * 3600) // what a killed builder left; no build takes as long

struct entry {
    char hash[CK_HASH_MAX], made_from[CK_HASH_MAX];
    int64_t used_s;
    bool keep;
};

struct kind {
    const char *folder, *json, *key; // key: the field of json that names what it was made from
    struct entry e[ENTRIES_MAX];
    unsigned n;
};

struct prune {
    const char *cache;
    int64_t now_s;
    bool unsure; // keep everything
    struct kind templates, images, rootfs;
    struct ck_named named[CK_NAMED_LIST_MAX];
};

static bool is_hash(const char *s)
{
    size_t n = strspn(s, "0123456789abcdef");
    return n >= 8 && n < CK_HASH_MAX && !s[n];
}

static bool dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

// ---- what there is --------------------------------------------------------------------------------

// A folder whose JSON is missing or damaged is used by nobody and made from nothing.
static void describe(const struct prune *p, const struct kind *k, struct entry *e)
{
    char path[PATH_MAX], dir[PATH_MAX];
    struct stat st;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_path(dir, sizeof dir, NULL, "%s/%s/%s", p->cache, k->folder, e->hash) ||
        ck_path(path, sizeof path, NULL, "%s/%s", dir, k->json))
        return;
    e->used_s = !stat(path, &st) || !stat(dir, &st) ? st.st_mtime : p->now_s;
    if (!k->key || ck_read_file(path, JSON_MAX, &text, NULL))
        return;
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text.p, text.n, false, NULL);
    const char *from = ck_json_str(j, k->key, "", NULL);
    if (is_hash(from))
        snprintf(e->made_from, sizeof e->made_from, "%s", from);
}

static void collect(struct prune *p, struct kind *k)
{
    char path[PATH_MAX];
    if (ck_path(path, sizeof path, NULL, "%s/%s", p->cache, k->folder))
        return;
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));) {
        if (!is_hash(f->d_name))
            continue;
        if (k->n == ENTRIES_MAX) {
            p->unsure = true;
            break;
        }
        struct entry *e = &k->e[k->n++];
        *e = (struct entry){.used_s = p->now_s};
        memcpy(e->hash, f->d_name, strlen(f->d_name)); // is_hash: it fits, and zeroes follow
        describe(p, k, e);
        e->keep = e->used_s > p->now_s - CK_CACHE_KEEP_S;
    }
    if (d)
        closedir(d);
}

static void keep(struct kind *k, const char *hash)
{
    for (unsigned i = 0; i < k->n; i++)
        if (!strcmp(k->e[i].hash, hash))
            k->e[i].keep = true;
}

static void keep_what_it_was_made_from(const struct kind *k, struct kind *from)
{
    for (unsigned i = 0; i < k->n; i++)
        if (k->e[i].keep)
            keep(from, k->e[i].made_from);
}

// ---- sessions -----------------------------------------------------------------------------------

// The session owns these files and may have made them anything: regular ones are read, a little of each.
static void read_backing(struct prune *p, int dir, const char *name)
{
    struct {
        char magic[4];
        uint32_t version;
        uint64_t at;
        uint32_t len;
    } __attribute__((packed)) head;
    char backing[PATH_MAX] = "", hash[CK_HASH_MAX];
    struct stat st;
    CK_CLEAN_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        p->unsure |= errno != ENOENT && errno != ELOOP && errno != ENXIO;
        return;
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || pread(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.magic, "QFI\xfb", 4) || be32toh(head.len) >= sizeof backing || be64toh(head.at) > INT32_MAX)
        return;
    ssize_t n = pread(fd, backing, be32toh(head.len), (off_t)be64toh(head.at));
    if (n <= 0)
        return;
    backing[n] = 0;
    const char *at = strstr(backing, "/templates/");
    if (at && sscanf(at + strlen("/templates/"), "%64[0-9a-f]", hash) == 1)
        keep(&p->templates, hash);
}

// A layer's memory lies on its template's, whatever becomes of its disk.
static void read_layer(struct prune *p, int dir, const char *name)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    struct stat st;
    CK_CLEAN_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        p->unsure |= errno != ENOENT && errno != ELOOP && errno != ENXIO;
        return;
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > JSON_MAX || ck_buf_reserve(&text, (size_t)st.st_size + 1))
        return;
    ssize_t n = pread(fd, text.p, (size_t)st.st_size, 0);
    CK_CLEAN_JSON json_t *j = n > 0 ? ck_json_parse_object(text.p, (size_t)n, false, NULL) : NULL;
    keep(&p->templates, ck_json_str(j, "template", "", NULL));
}

static void walk(struct prune *p, int parent, const char *name, int depth, unsigned *files)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        p->unsure |= errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *f; (f = readdir(d));) {
        size_t n = strlen(f->d_name);
        if (dots(f->d_name))
            continue;
        if (++*files > FILES_MAX)
            p->unsure = true;
        if (p->unsure)
            break;
        if (f->d_type == DT_DIR && depth < DEPTH_MAX)
            walk(p, dirfd(d), f->d_name, depth + 1, files);
        else if (n > 6 && !strcmp(f->d_name + n - 6, ".qcow2"))
            read_backing(p, dirfd(d), f->d_name);
        else if (!strcmp(f->d_name, "layer.json"))
            read_layer(p, dirfd(d), f->d_name);
    }
    closedir(d);
}

static void ask_sessions(struct prune *p, const char *sessions)
{
    DIR *d = opendir(sessions);
    if (!d) {
        p->unsure = true;
        return;
    }
    for (struct dirent *f; !p->unsure && (f = readdir(d));) {
        unsigned files = 0;
        if (!dots(f->d_name))
            walk(p, dirfd(d), f->d_name, 1, &files);
    }
    closedir(d);
}

static void ask_users(struct prune *p)
{
    char users[PATH_MAX], link[PATH_MAX];
    if (ck_path(users, sizeof users, NULL, "%s/users", p->cache))
        return;
    DIR *d = opendir(users);
    p->unsure |= !d && errno != ENOENT;
    for (struct dirent *f; d && (f = readdir(d));) {
        if (dots(f->d_name) || ck_path(link, sizeof link, NULL, "%s/%s", users, f->d_name))
            continue;
        if (access(link, F_OK) && errno == ENOENT)
            unlink(link); // a gateway whose state folder was removed
        else
            ask_sessions(p, link);
    }
    if (d)
        closedir(d);
}

// ---- names ----------------------------------------------------------------------------------------

// The default template in another size is nobody's wish for good: it is kept by its use.
static void ask_names(struct prune *p)
{
    int n = ck_named_list(p->cache, p->named, NULL);
    p->unsure |= n < 0;
    for (int i = 0; i < n; i++)
        if (strcmp(p->named[i].name, CK_NAMED_DEFAULT) != 0)
            keep(&p->templates, p->named[i].template);
}

// ---- running processes ----------------------------------------------------------------------------

struct file_id {
    dev_t dev;
    ino_t ino;
    unsigned owner; // index of the template
};

struct file_ids {
    struct file_id *v;
    size_t n, room;
};

static void add_id(struct prune *p, struct file_ids *ids, const char *path, unsigned owner)
{
    struct stat st;
    if (stat(path, &st))
        return;
    if (ids->n == ids->room) {
        size_t room = ids->room ? 2 * ids->room : 64;
        struct file_id *v = realloc(ids->v, room * sizeof *v);
        if (!v) {
            p->unsure = true;
            return;
        }
        ids->v = v;
        ids->room = room;
    }
    ids->v[ids->n++] = (struct file_id){st.st_dev, st.st_ino, owner};
}

static void list_files(struct prune *p, struct file_ids *ids, unsigned i)
{
    char dir[PATH_MAX], path[PATH_MAX];
    if (ck_path(dir, sizeof dir, NULL, "%s/templates/%s", p->cache, p->templates.e[i].hash))
        return;
    add_id(p, ids, dir, i); // a gateway holds the folder of its template open
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));)
        if (!dots(f->d_name) && !ck_path(path, sizeof path, NULL, "%s/%s", dir, f->d_name))
            add_id(p, ids, path, i);
    if (d)
        closedir(d);
}

// By inode: the jail shows a session these files under other paths.
static void ask_process(struct prune *p, const struct file_ids *ids, const char *pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));)
        for (size_t i = 0; !dots(f->d_name) && !fstatat(dirfd(d), f->d_name, &st, 0) && i < ids->n; i++)
            if (ids->v[i].dev == st.st_dev && ids->v[i].ino == st.st_ino)
                p->templates.e[ids->v[i].owner].keep = true;
    if (d)
        closedir(d);
}

static void ask_processes(struct prune *p)
{
    struct file_ids ids = {NULL, 0, 0};
    for (unsigned i = 0; i < p->templates.n; i++)
        if (!p->templates.e[i].keep)
            list_files(p, &ids, i);
    DIR *d = ids.n ? opendir("/proc") : NULL;
    p->unsure |= ids.n && !d;
    for (struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] >= '1' && f->d_name[0] <= '9')
            ask_process(p, &ids, f->d_name);
    if (d)
        closedir(d);
    free(ids.v);
}

// ---- removing -------------------------------------------------------------------------------------

static uint64_t bytes_of(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));)
        if (!dots(f->d_name) && !ck_path(path, sizeof path, NULL, "%s/%s", dir, f->d_name) && !lstat(path, &st) &&
            st.st_nlink == 1)
            sum += (uint64_t)st.st_blocks * 512;
    if (d)
        closedir(d);
    return sum;
}

// Renamed first, to a name that a builder's clean-up knows: half a folder is never seen.
static void remove_old(const struct prune *p, const struct kind *k, unsigned *count, uint64_t *bytes)
{
    char dir[PATH_MAX], away[PATH_MAX];
    for (unsigned i = 0; i < k->n; i++) {
        if (k->e[i].keep || ck_path(dir, sizeof dir, NULL, "%s/%s/%s", p->cache, k->folder, k->e[i].hash) ||
            ck_path(away, sizeof away, NULL, "%s/%s/%s%s", p->cache, k->folder, k == &p->templates ? ".tmp-" : "tmp.",
                    k->e[i].hash))
            continue;
        uint64_t freed = bytes_of(dir);
        ck_remove_tree(away, NULL);
        if (rename(dir, away) || ck_remove_tree(away, NULL))
            continue;
        ++*count;
        *bytes += freed;
    }
}

// Half-built templates of builders that were killed and whose template nobody builds again.
static void remove_leftovers(const struct prune *p)
{
    char templates[PATH_MAX], path[PATH_MAX];
    struct stat st;
    if (ck_path(templates, sizeof templates, NULL, "%s/templates", p->cache))
        return;
    DIR *d = opendir(templates);
    for (struct dirent *f; d && (f = readdir(d));)
        if (!strncmp(f->d_name, ".tmp-", 5) && !ck_path(path, sizeof path, NULL, "%s/%s", templates, f->d_name) &&
            !lstat(path, &st) && st.st_mtime < p->now_s - TMP_KEEP_S)
            ck_remove_tree(path, NULL);
    if (d)
        closedir(d);
}

static void prune_locked(struct prune *p, struct ck_pruned *out)
{
    collect(p, &p->templates);
    collect(p, &p->images);
    collect(p, &p->rootfs);
    ask_users(p);
    ask_names(p);
    ask_processes(p);
    if (p->unsure)
        return;
    keep_what_it_was_made_from(&p->templates, &p->images);
    keep_what_it_was_made_from(&p->images, &p->rootfs);
    remove_old(p, &p->templates, &out->templates, &out->bytes);
    remove_old(p, &p->images, &out->images, &out->bytes);
    remove_old(p, &p->rootfs, &out->rootfs, &out->bytes);
    remove_leftovers(p);
}

void ck_cache_prune(const char *cache, int64_t now_s, struct ck_pruned *out)
{
    char path[PATH_MAX];
    *out = (struct ck_pruned){.templates = 0};
    CK_CLEAN_FD int use = -1, build = -1;
    CK_CLEAN_FREE struct prune *p = calloc(1, sizeof *p);
    // .lock is that of guest/image/build.sh: what it reads may look unused
    if (!p || ck_path(path, sizeof path, NULL, "%s/.lock", cache) || ck_cache_lock(cache, true, &use))
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
        return;
    build = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (build < 0 || flock(build, LOCK_EX | LOCK_NB))
        return;
    p->cache = cache;
    p->now_s = now_s;
    p->templates = (struct kind){.folder = "templates", .json = "template.json", .key = "image"};
    p->images = (struct kind){.folder = "images", .json = "image.json", .key = "rootfs"};
    p->rootfs = (struct kind){.folder = "rootfs", .json = "rootfs.json"};
    prune_locked(p, out);
}
