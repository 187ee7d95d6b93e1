// Layers as files. Descriptors of folders are opened without following links and everything below is
// reached through them; what is not a plain file in a place for plain files ends the operation.
#include "gateway/layer_files.h"

#include "common/ck_buf.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 64   // in one layer
#define LAYERS_MAX 4096
#define JSON_MAX 65536

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// The folder of one layer, or -1 with err.
static int open_layer(const char *session_dir, const char *layer, struct ck_err *err)
{
    CK_CLEAN_FD int session = open_folder(AT_FDCWD, session_dir);
    CK_CLEAN_FD int layers = session >= 0 ? open_folder(session, "layers") : -1;
    int fd = layers >= 0 ? open_folder(layers, layer) : -1;
    if (fd < 0)
        ck_fail_errno(err, errno, 500, "layer_lost", "layer %s of the session cannot be opened", layer);
    return fd;
}

// A plain file, or -1. Never waits: a pipe opens without blocking and is then refused.
static int open_plain(int dir, const char *name, struct stat *st)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, st) || !S_ISREG(st->st_mode))) {
        close(fd);
        fd = -1;
        errno = EINVAL;
    }
    return fd;
}

static int read_small(int dir, const char *name, struct ck_buf *out, struct stat *st)
{
    CK_CLEAN_FD int fd = open_plain(dir, name, st);
    if (fd < 0 || st->st_size > JSON_MAX || ck_buf_reserve(out, (size_t)st->st_size + 1))
        return -1;
    ssize_t n = pread(fd, out->p, (size_t)st->st_size, 0);
    if (n < 0)
        return -1;
    out->n = (size_t)n;
    return 0;
}

// Calls each() for the entries of a folder, at most max of them. It ends at the first that is not 0.
static int each_entry(int dir, int max, int (*each)(int dir, const char *name, void *user), void *user)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0, n = 0;
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *e;
    if (!d) {
        if (copy >= 0)
            close(copy);
        return -1;
    }
    while (!rc && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = ++n > max ? -1 : each(dir, e->d_name, user);
    closedir(d);
    return rc;
}

// --- layer.json ----------------------------------------------------------------------------------------

int layer_parse_below(const void *json, size_t n, char below[LAYER_BELOW_MAX][CK_UUID_MAX], struct ck_err *err)
{
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(json, n, false, err);
    const json_t *list = json_object_get(j, "below");
    size_t count = json_array_size(list);
    if (!j)
        return -1;
    if ((list && !json_is_array(list)) || count > LAYER_BELOW_MAX)
        return ck_fail(err, 500, "layer_damaged", "layer.json does not say which disks lie below");
    for (size_t i = 0; i < count; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        if (!id || !ck_uuid_valid(id))
            return ck_fail(err, 500, "layer_damaged", "layer.json names a layer that can be none");
        memcpy(below[i], id, CK_UUID_MAX);
    }
    return (int)count;
}

static int get_hash(const json_t *j, const char *key, char out[80])
{
    const char *v = ck_json_str(j, key, "", NULL);
    size_t n = strlen(v);
    if (n < 8 || n >= 80 || strspn(v, "0123456789abcdef") != n) // it becomes part of a path
        return -1;
    memcpy(out, v, n + 1);
    return 0;
}

int layer_parse_origin(const void *json, size_t n, struct layer_origin *out, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(json, n, false, err);
    int64_t memory = ck_json_int(j, "memory_mb", 0, NULL);
    if (!j)
        return -1;
    if (get_hash(j, "template", out->template) || get_hash(j, "image", out->image) || memory < 1 || memory > 1 << 20)
        return ck_fail(err, 500, "layer_damaged", "layer.json does not say what the layer was made on");
    out->memory_mb = (int)memory;
    return 0;
}

int layer_read_origin(const char *session_dir, const char *layer, struct layer_origin *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    struct stat st;
    CK_CLEAN_FD int dir = open_layer(session_dir, layer, err);
    if (dir < 0)
        return -1;
    if (read_small(dir, "layer.json", &text, &st))
        return ck_fail(err, 500, "layer_damaged", "layer.json cannot be read");
    return layer_parse_origin(text.p, text.n, out, err);
}

static int read_below(int layer, char below[LAYER_BELOW_MAX][CK_UUID_MAX], struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    struct stat st;
    if (read_small(layer, "layer.json", &text, &st))
        return ck_fail(err, 500, "layer_damaged", "layer.json cannot be read");
    return layer_parse_below(text.p, text.n, below, err);
}

// --- sealing -------------------------------------------------------------------------------------------

struct sealing {
    bool root;
    uid_t owner;
    int64_t bytes;
};

// Modes and owners bind who opens from now on, not who has it open: a QEMU that was broken into could
// keep its descriptor and write what other sessions build on. A lease for reading is to be had only while
// nobody has the file open for writing. A file system without leases cannot be asked.
static bool has_writer(int fd)
{
    bool busy = fcntl(fd, F_SETLEASE, F_RDLCK) && errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return busy;
}

static int seal_file(int dir, const char *name, void *user)
{
    struct sealing *s = user;
    struct stat st;
    CK_CLEAN_FD int fd = open_plain(dir, name, &st);
    if (fd < 0)
        return -1;
    s->bytes += (int64_t)st.st_blocks * 512;
    if (s->root && st.st_uid && (st.st_uid != s->owner || st.st_nlink != 1 || fchown(fd, 0, 0)))
        return -1; // somebody else's file has no business here
    return fchmod(fd, 0444) || has_writer(fd) ? -1 : 0;
}

int layer_seal(const char *session_dir, const char *layer, uid_t owner, int64_t *bytes, struct ck_err *err)
{
    struct sealing s = {.root = !geteuid(), .owner = owner};
    CK_CLEAN_FD int dir = open_layer(session_dir, layer, err);
    if (dir < 0)
        return -1;
    // The folder first: from then on its names are ours.
    if ((s.root && fchown(dir, 0, 0)) || fchmod(dir, 0755) || each_entry(dir, FILES_MAX, seal_file, &s))
        return ck_fail(err, 500, "layer_damaged", "layer %s of the session has files that cannot be taken over", layer);
    if (bytes)
        *bytes = s.bytes;
    return 0;
}

int layer_seal_all(const char *session_dir, const char *layer, uid_t owner, struct ck_err *err)
{
    char below[LAYER_BELOW_MAX][CK_UUID_MAX];
    if (layer_seal(session_dir, layer, owner, NULL, err))
        return -1;
    CK_CLEAN_FD int dir = open_layer(session_dir, layer, err);
    int n = dir >= 0 ? read_below(dir, below, err) : -1;
    for (int i = 0; i < n; i++)
        if (layer_seal(session_dir, below[i], owner, NULL, err))
            return -1;
    return n < 0 ? -1 : 0;
}

// --- links ---------------------------------------------------------------------------------------------

static int link_one(int from, const char *name, void *user)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return -1;
    return linkat(from, name, *(const int *)user, name, 0);
}

static int link_disk(int from_layers, int to_layers, const char *layer)
{
    CK_CLEAN_FD int from = open_folder(from_layers, layer);
    if (from < 0 || (mkdirat(to_layers, layer, 0755) && errno != EEXIST))
        return -1;
    CK_CLEAN_FD int to = open_folder(to_layers, layer);
    return to < 0 || (link_one(from, "disk.qcow2", &to) && errno != EEXIST) ? -1 : 0;
}

static int link_layer(int from_layers, int to_layers, const char *layer, struct ck_err *err)
{
    char below[LAYER_BELOW_MAX][CK_UUID_MAX], tmp[CK_UUID_MAX + 8];
    CK_CLEAN_FD int from = open_folder(from_layers, layer);
    int n = from >= 0 ? read_below(from, below, err) : ck_fail_errno(err, errno, 500, "layer_lost", "layer %s", layer);
    if (n < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (link_disk(from_layers, to_layers, below[i]))
            return ck_fail_errno(err, errno, 500, "layer_lost", "the disk of layer %s cannot be shared", below[i]);
    snprintf(tmp, sizeof tmp, "%.36s.tmp", layer);
    if (mkdirat(to_layers, tmp, 0755))
        return ck_fail_errno(err, errno, 507, "layer_failed", "a folder for the layer cannot be made");
    CK_CLEAN_FD int to = open_folder(to_layers, tmp);
    if (to < 0 || each_entry(from, FILES_MAX, link_one, &to))
        return ck_fail_errno(err, errno, 507, "layer_failed", "the layer cannot be shared");
    if (renameat(to_layers, tmp, to_layers, layer))
        return ck_fail_errno(err, errno, 507, "layer_failed", "the layer cannot be shared");
    return 0;
}

int layer_link(const char *from_dir, const char *to_dir, const char *layer, struct ck_err *err)
{
    CK_CLEAN_FD int from = open_folder(AT_FDCWD, from_dir), to = open_folder(AT_FDCWD, to_dir);
    CK_CLEAN_FD int from_layers = from >= 0 ? open_folder(from, "layers") : -1;
    if (to >= 0 && mkdirat(to, "layers", 0755) && errno != EEXIST)
        return ck_fail_errno(err, errno, 507, "layer_failed", "a folder for the layer cannot be made");
    CK_CLEAN_FD int to_layers = to >= 0 ? open_folder(to, "layers") : -1;
    if (from_layers < 0 || to_layers < 0)
        return ck_fail_errno(err, errno, 500, "layer_lost", "the session's layers cannot be opened");
    return link_layer(from_layers, to_layers, layer, err);
}

// --- a folder for a folder -----------------------------------------------------------------------------

struct moving {
    int from_layers, to_layers;
};

// Its folder is whose it was: root's, or, of a gateway that was killed before it sealed the layer, the bridge's.
static int move_layer(int layers, const char *name, void *user)
{
    const struct moving *m = user;
    struct stat st;
    if (!ck_uuid_valid(name)) // half made, and nobody's
        return 0;
    CK_CLEAN_FD int from = open_folder(layers, name);
    if (from < 0 || fstat(from, &st) || mkdirat(m->to_layers, name, 0700))
        return -1;
    CK_CLEAN_FD int to = open_folder(m->to_layers, name);
    if (to < 0 || fchmod(to, st.st_mode & 0755) || (st.st_uid != geteuid() && fchown(to, st.st_uid, st.st_gid)))
        return -1;
    return each_entry(from, FILES_MAX, link_one, &to);
}

static int link_if_there(int from, int to, const char *name, const char *new_name)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : -1;
    return S_ISREG(st.st_mode) ? linkat(from, name, to, new_name, 0) : -1;
}

int folder_take_over(const char *session_dir, const char *spare_dir, struct ck_err *err)
{
    CK_CLEAN_FD int from = open_folder(AT_FDCWD, session_dir), to = open_folder(AT_FDCWD, spare_dir);
    if (from < 0 || to < 0 || mkdirat(to, "layers", 0755))
        return ck_fail_errno(err, errno, 500, "not_taken", "the folders of a session and of a spare");
    CK_CLEAN_FD int from_layers = open_folder(from, "layers");
    CK_CLEAN_FD int to_layers = open_folder(to, "layers");
    struct moving m = {from_layers, to_layers};
    if (from_layers < 0 || to_layers < 0 || each_entry(from_layers, LAYERS_MAX, move_layer, &m) ||
        link_if_there(from, to, "history", "history") || link_if_there(from, to, "paused.json", "paused.json") ||
        link_if_there(from, to, "bridge.log", "bridge.log.before"))
        return ck_fail_errno(err, errno, 500, "not_taken", "what a session has cannot be put into a spare's folder");
    if (renameat2(AT_FDCWD, spare_dir, AT_FDCWD, session_dir, RENAME_EXCHANGE))
        return ck_fail_errno(err, errno, 500, "not_taken", "two folders cannot change names");
    return 0;
}

// --- tidying -------------------------------------------------------------------------------------------

struct tidying {
    const struct layer_wants *w;
    char path[PATH_MAX]; // of the layers' folder
    char (*needed)[CK_UUID_MAX]; // disks that something lies on
    int nneeded, room;
    bool unsure;
};

static bool among(const char (*list)[CK_UUID_MAX], int n, const char *id)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i], id))
            return true;
    return false;
}

static void need(struct tidying *t, const char *id)
{
    if (t->nneeded == t->room) {
        int room = t->room ? 2 * t->room : 32;
        char(*grown)[CK_UUID_MAX] = realloc(t->needed, (size_t)room * sizeof *grown);
        if (!grown) {
            t->unsure = true;
            return;
        }
        t->needed = grown;
        t->room = room;
    }
    memcpy(t->needed[t->nneeded++], id, CK_UUID_MAX);
}

static void need_below(struct tidying *t, int layers, const char *id)
{
    char below[LAYER_BELOW_MAX][CK_UUID_MAX];
    CK_CLEAN_FD int dir = open_folder(layers, id);
    int n = dir >= 0 ? read_below(dir, below, NULL) : -1;
    if (n < 0)
        t->unsure = true;
    for (int i = 0; i < n; i++)
        need(t, below[i]);
}

static int tidy_entry(int layers, const char *name, void *user)
{
    struct tidying *t = user;
    static const char *const parts[] = {"ram", "state", "session.json"};
    char path[PATH_MAX + NAME_MAX + 2];
    struct ck_err err = CK_ERR_INIT;
    bool tmp = strlen(name) > 4 && !strcmp(name + strlen(name) - 4, ".tmp");
    if (!tmp && (!ck_uuid_valid(name) || among(t->w->wanted, t->w->nwanted, name)))
        return 0;
    if (tmp && !t->w->stopped)
        return 0;
    if (!tmp && (!t->w->base_known || among((const char(*)[CK_UUID_MAX])t->needed, t->nneeded, name))) {
        CK_CLEAN_FD int dir = open_folder(layers, name);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            unlinkat(dir, parts[i], 0);
        return 0;
    }
    snprintf(path, sizeof path, "%s/%s", t->path, name);
    if (ck_remove_tree(path, &err))
        ck_log(CK_LOG_WARN, "layers", "layer_left layer=%s error=\"%s\"", name, err.text);
    return 0;
}

void layer_tidy(const char *session_dir, const struct layer_wants *w)
{
    struct tidying t = {.w = w};
    CK_CLEAN_FD int session = open_folder(AT_FDCWD, session_dir);
    CK_CLEAN_FD int layers = session >= 0 ? open_folder(session, "layers") : -1;
    if (layers < 0 || ck_path(t.path, sizeof t.path, NULL, "%s/layers", session_dir))
        return;
    for (int i = 0; i < w->nwanted; i++)
        need_below(&t, layers, w->wanted[i]);
    if (w->base_known && *w->base) {
        need(&t, w->base);
        need_below(&t, layers, w->base);
    }
    if (!t.unsure)
        each_entry(layers, LAYERS_MAX, tidy_entry, &t);
    free(t.needed);
}

// --- bridges -------------------------------------------------------------------------------------------

struct ck_proc_id folder_bridge(const char *session_dir)
{
    struct ck_proc_id none = {0, 0}, p;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_FD int dir = open_folder(AT_FDCWD, session_dir);
    struct stat st;
    if (dir < 0 || read_small(dir, "bridge.json", &text, &st))
        return none;
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text.p, text.n, false, NULL);
    if (!j || ck_json_int(j, "version", 0, NULL) != 1)
        return none;
    p.pid = (pid_t)ck_json_int(j, "pid", 0, NULL);
    p.start = (uint64_t)ck_json_int(j, "start", 0, NULL);
    return p.pid > 0 && ck_proc_alive(p) ? p : none;
}

bool folder_locked(const char *session_dir)
{
    struct stat st;
    CK_CLEAN_FD int dir = open_folder(AT_FDCWD, session_dir);
    CK_CLEAN_FD int fd = dir >= 0 ? open_plain(dir, "bridge.lock", &st) : -1;
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
}

// --- paused.json ---------------------------------------------------------------------------------------

int layer_paused(const char *session_dir, const char *session, char layer[CK_UUID_MAX], int64_t *since_us)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_FD int dir = open_folder(AT_FDCWD, session_dir);
    struct stat st;
    if (dir < 0 || read_small(dir, "paused.json", &text, &st))
        return -1;
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text.p, text.n, false, NULL);
    const char *id = ck_json_str(j, "layer", "", NULL);
    if (!j || ck_json_int(j, "version", 0, NULL) != 1 || strcmp(ck_json_str(j, "id", "", NULL), session) != 0 ||
        !ck_uuid_valid(id))
        return -1;
    memcpy(layer, id, CK_UUID_MAX);
    *since_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    return 0;
}
