// A picture of the watched files, and what changed between two pictures. Pure, bounded.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AG_SNAPSHOT_MAX 50000

struct ag_file {
    const char *path; // owned by the snapshot; relative to the watched folder, bytes as on disk
    int64_t mtime_ns, ctime_ns, size;
    uint64_t inode;
    bool partial; // was open for writing, or changed, while it was looked at
};

struct ag_snapshot;
struct ag_snapshot *ag_snapshot_new(void); // NULL when out of memory
void ag_snapshot_free(struct ag_snapshot *s); // NULL is fine

// Copies f and its path. 1 = the snapshot is full (nothing added), -1 = out of memory.
int ag_snapshot_add(struct ag_snapshot *s, const struct ag_file *f);
size_t ag_snapshot_count(const struct ag_snapshot *s);
void ag_snapshot_mark(struct ag_snapshot *s, const char *path); // as partial; nothing when absent
const struct ag_file *ag_snapshot_find(const struct ag_snapshot *s, const char *path); // NULL = absent

struct ag_change {
    const struct ag_file *file; // of the newer snapshot
    bool created;               // else changed
    bool same;                  // not changed, but it was partial: news if it is not any more
};

// Everything of `now` that `before` (may be NULL) does not have just so, or has as partial, oldest modification first,
// then by path. *out is allocated (free it); its files live as long as `now`. -1 = out of memory.
int ag_snapshot_diff(const struct ag_snapshot *before, const struct ag_snapshot *now, struct ag_change **out,
                     size_t *count);
