// Reading the kernel's own words about a process's memory. Must never guess: a line that is not
// understood is an error, since what follows from it is written into a process.
#include "vmm/layer_maps.h"

#include <stdlib.h>
#include <sys/sysmacros.h>

static const char *hex(const char *s, char end, uint64_t *out)
{
    char *e;
    if ((unsigned char)*s <= ' ' || *s == '-' || *s == '+')
        return NULL;
    *out = strtoull(s, &e, 16);
    return e != s && *e == end ? e + 1 : NULL;
}

// 7f34dbfff000-7f34fbfff000 rw-p 00000000 00:01 2072    /memfd:ram (deleted)
int ck_maps_line(const char *line, dev_t dev, ino_t ino, struct ck_area *out)
{
    uint64_t start, end, offset, major_no, minor_no;
    const char *p = hex(line, '-', &start);
    if (!p || !(p = hex(p, ' ', &end)) || end <= start || strnlen(p, 5) < 5 || p[4] != ' ')
        return -1;
    bool private = p[3] == 'p';
    if (!(p = hex(p + 5, ' ', &offset)) || !(p = hex(p, ':', &major_no)) || !(p = hex(p, ' ', &minor_no)))
        return -1;
    char *e;
    unsigned long long inode = strtoull(p, &e, 10);
    if (e == p)
        return -1;
    *out = (struct ck_area){start, end - start, offset};
    return private && inode == ino && major_no == major(dev) && minor_no == minor(dev);
}

int ck_maps_find(const char *text, dev_t dev, ino_t ino, uint64_t bytes, struct ck_area out[CK_AREAS_MAX])
{
    int n = 0;
    while (text && *text) {
        struct ck_area a;
        int rc = ck_maps_line(text, dev, ino, &a);
        if (rc < 0 || n == CK_AREAS_MAX)
            return -1;
        if (rc) { // QEMU maps it once; the kernel may split that, and lists the parts by address
            uint64_t at = n ? out[n - 1].offset + out[n - 1].bytes : 0;
            if (a.offset != at || a.bytes > bytes - at)
                return -1;
            out[n++] = a;
        }
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return n && out[n - 1].offset + out[n - 1].bytes == bytes ? n : -1;
}

int ck_pagemap_runs(const uint64_t *words, size_t n, uint32_t first, struct ck_buf *runs, uint64_t *pages)
{
    for (size_t i = 0; i < n; i++) {
        if (!ck_pagemap_private(words[i]))
            continue;
        size_t from = i;
        while (i + 1 < n && ck_pagemap_private(words[i + 1]))
            i++;
        struct ck_run r = {first + (uint32_t)from, (uint32_t)(i + 1 - from)}, last = {0, 0};
        *pages += r.count;
        if (runs->n)
            memcpy(&last, runs->p + runs->n - sizeof last, sizeof last);
        if (last.count && last.first + last.count == r.first) { // across two pieces of the map
            last.count += r.count;
            memcpy(runs->p + runs->n - sizeof last, &last, sizeof last);
        } else if (ck_buf_add(runs, &r, sizeof r)) {
            return -1;
        }
    }
    return 0;
}
