// Remembers the files that clients wrote, so that they are not reported as a cell's artifacts. A file
// is known by name, size and modification time in nanoseconds; a cell that changes it afterwards
// changes one of these. Pure; the oldest of WRITTEN_MAX is forgotten first.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITTEN_MAX 512

struct written {
    uint64_t key[WRITTEN_MAX]; // 0 = free
    size_t next;
};
void written_add(struct written *w, const char *path, int64_t size, int64_t mtime_ns);
bool written_has(const struct written *w, const char *path, int64_t size, int64_t mtime_ns);
