// Snapshots of a folder: an open-addressing table over an arena of names. By hand, since 50,000
// entries in jansson or in a tree of nodes would cost the guest several times the memory.
#include "guest/agent/snapshot.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 131072 // a power of two, so that the table is never more than 40 % full
#define CHUNK (256 * 1024)

struct chunk {
    struct chunk *next;
    size_t used;
    char bytes[CHUNK];
};

struct ag_snapshot {
    struct ag_file *files;
    size_t count, room;
    uint32_t *slots; // index + 1 into files
    struct chunk *names;
};

struct ag_snapshot *ag_snapshot_new(void)
{
    struct ag_snapshot *s = calloc(1, sizeof *s);
    if (s && !(s->slots = calloc(SLOTS, sizeof *s->slots))) {
        free(s);
        return NULL;
    }
    return s;
}

void ag_snapshot_free(struct ag_snapshot *s)
{
    if (!s)
        return;
    while (s->names) {
        struct chunk *c = s->names;
        s->names = c->next;
        free(c);
    }
    free(s->files);
    free(s->slots);
    free(s);
}

static uint32_t hash(const char *p) // FNV-1a; a user can collide it and slows only their own scan
{
    uint32_t h = 2166136261u;
    for (; *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    return h ^ h >> 15;
}

static uint32_t *slot_of(const struct ag_snapshot *s, const char *path)
{
    uint32_t i = hash(path) & (SLOTS - 1);
    while (s->slots[i] && strcmp(s->files[s->slots[i] - 1].path, path) != 0)
        i = (i + 1) & (SLOTS - 1);
    return &s->slots[i];
}

static const char *keep_name(struct ag_snapshot *s, const char *path)
{
    size_t n = strlen(path) + 1;
    if (n > CHUNK)
        return NULL;
    if (!s->names || CHUNK - s->names->used < n) {
        struct chunk *c = malloc(sizeof *c);
        if (!c)
            return NULL;
        c->next = s->names;
        c->used = 0;
        s->names = c;
    }
    char *at = s->names->bytes + s->names->used;
    memcpy(at, path, n);
    s->names->used += n;
    return at;
}

int ag_snapshot_add(struct ag_snapshot *s, const struct ag_file *f)
{
    if (s->count >= AG_SNAPSHOT_MAX)
        return 1;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct ag_file *more = realloc(s->files, room * sizeof *more);
        if (!more)
            return -1;
        s->files = more;
        s->room = room;
    }
    uint32_t *slot = slot_of(s, f->path);
    if (*slot) { // seen twice while the folder changed under the walk: the later look counts
        const char *path = s->files[*slot - 1].path;
        s->files[*slot - 1] = *f;
        s->files[*slot - 1].path = path;
        return 0;
    }
    const char *path = keep_name(s, f->path);
    if (!path)
        return -1;
    s->files[s->count] = *f;
    s->files[s->count].path = path;
    *slot = (uint32_t)++s->count;
    return 0;
}

size_t ag_snapshot_count(const struct ag_snapshot *s) { return s->count; }

const struct ag_file *ag_snapshot_find(const struct ag_snapshot *s, const char *path)
{
    uint32_t at = *slot_of(s, path);
    return at ? &s->files[at - 1] : NULL;
}

void ag_snapshot_mark(struct ag_snapshot *s, const char *path)
{
    uint32_t at = *slot_of(s, path);
    if (at)
        s->files[at - 1].partial = true;
}

static bool differs(const struct ag_file *a, const struct ag_file *b)
{
    return a->mtime_ns != b->mtime_ns || a->ctime_ns != b->ctime_ns || a->size != b->size || a->inode != b->inode;
}

static int by_age(const void *pa, const void *pb)
{
    const struct ag_file *a = ((const struct ag_change *)pa)->file, *b = ((const struct ag_change *)pb)->file;
    if (a->mtime_ns != b->mtime_ns)
        return a->mtime_ns < b->mtime_ns ? -1 : 1;
    return strcmp(a->path, b->path);
}

int ag_snapshot_diff(const struct ag_snapshot *before, const struct ag_snapshot *now, struct ag_change **out,
                     size_t *count)
{
    struct ag_change *list = calloc(now->count + 1, sizeof *list);
    size_t n = 0;
    if (!list)
        return -1;
    for (size_t i = 0; i < now->count; i++) {
        const struct ag_file *f = &now->files[i], *old = before ? ag_snapshot_find(before, f->path) : NULL;
        bool same = old && !differs(old, f);
        if (!same || old->partial)
            list[n++] = (struct ag_change){.file = f, .created = !old, .same = same};
    }
    qsort(list, n, sizeof *list, by_age);
    *out = list;
    *count = n;
    return 0;
}
