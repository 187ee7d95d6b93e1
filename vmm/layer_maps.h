// What the kernel says about a process's memory: lines of /proc/PID/maps, words of /proc/PID/pagemap.
// Pure.
#pragma once
#include "common/ck_buf.h"

#include <stdbool.h>
#include <sys/types.h>

#define CK_AREAS_MAX 64

struct ck_area { // one mapping of (a part of) a file
    uint64_t start, bytes; // in the process
    uint64_t offset;       // in the file
};

// One line (without its end): 1 = a private mapping of that file, in *out; 0 = something else;
// negative = not a line of that kind.
int ck_maps_line(const char *line, dev_t dev, ino_t ino, struct ck_area *out);
// All private mappings of a file in the text (NUL-terminated), ascending by offset. They must cover
// exactly [0, bytes) of it. Returns their number (at most CK_AREAS_MAX), negative when they do not.
int ck_maps_find(const char *text, dev_t dev, ino_t ino, uint64_t bytes, struct ck_area out[CK_AREAS_MAX]);

// A page that is the process's own: there (present or swapped) and not the file's.
static inline bool ck_pagemap_private(uint64_t word) { return (word >> 62) && !(word >> 61 & 1); }

struct ck_run { // of pages
    uint32_t first, count;
};
// Appends the private runs among n words, the first of which is page `first`, to runs (an array of
// struct ck_run); a run that continues the last one is joined to it. -1 = no memory.
int ck_pagemap_runs(const uint64_t *words, size_t n, uint32_t first, struct ck_buf *runs, uint64_t *pages);
