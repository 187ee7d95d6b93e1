// What the numbers say about a span's peak. Pure; the text is the guest kernel's.
#include "guest/agent/peak.h"

#include <stdlib.h>
#include <string.h>

uint64_t ag_peak_field(struct ck_slice status, const char *name)
{
    size_t len = strlen(name);
    const char *at = (const char *)status.p, *end = at + status.n;
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((nl ? nl : end) - at);
        if (n > len && memcmp(at, name, len) == 0 && at[len] == ':') {
            uint64_t kib = 0;
            for (size_t i = len + 1; i < n && kib < UINT64_MAX / 20480; i++)
                if (at[i] >= '0' && at[i] <= '9')
                    kib = kib * 10 + (uint64_t)(at[i] - '0');
            return kib * 1024;
        }
        at += n + 1;
    }
    return 0;
}

uint64_t ag_peak_of_span(const struct ag_peak *then, const struct ag_usage *now, uint64_t grown)
{
    if (now->peak_memory_bytes > then->life)
        return now->peak_memory_bytes; // the highest of all, so it was in this span
    uint64_t about = then->held + grown;
    if (about < now->memory_bytes)
        about = now->memory_bytes;
    return about < now->peak_memory_bytes ? about : now->peak_memory_bytes;
}
