// A ring of 64-bit fingerprints. Two different files that share one are a one in 10^16 chance and
// cost one line in a list. Only the last part of a path counts: clients may write it in several ways.
#include "kernel-bridge/written.h"

#include <string.h>

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t fingerprint(const char *path, int64_t size, int64_t mtime_ns)
{
    uint64_t h = 0xCBF29CE484222325u;
    const char *slash = strrchr(path, '/');
    for (const char *p = slash ? slash + 1 : path; *p; p++)
        h = (h ^ (uint8_t)*p) * 0x100000001B3u;
    return mix(mix(h, (uint64_t)size), (uint64_t)mtime_ns) | 1;
}

void written_add(struct written *w, const char *path, int64_t size, int64_t mtime_ns)
{
    w->key[w->next] = fingerprint(path, size, mtime_ns);
    w->next = (w->next + 1) % WRITTEN_MAX;
}

bool written_has(const struct written *w, const char *path, int64_t size, int64_t mtime_ns)
{
    uint64_t key = fingerprint(path, size, mtime_ns);
    for (size_t i = 0; i < WRITTEN_MAX; i++)
        if (w->key[i] == key)
            return true;
    return false;
}
