// A small ring of recently lost clients. Guessing wrong must be harmless: a client ignores messages
// about requests that it did not make, and is recognised when it speaks.
#include "gateway/jupyter_absent.h"

#include <stdio.h>
#include <string.h>

static struct {
    char kernel[CK_UUID_MAX];
    char consumer[200];
    int64_t left; // 0 = free
} ring[JUP_ABSENT_MAX];
static unsigned next;

void jup_absent_remove(const char *kernel, const char *consumer)
{
    for (unsigned i = 0; i < JUP_ABSENT_MAX; i++) {
        if (ring[i].left && !strcmp(ring[i].consumer, consumer) && !strcmp(ring[i].kernel, kernel))
            ring[i].left = 0;
    }
}

void jup_absent_add(const char *kernel, const char *consumer, int64_t now)
{
    jup_absent_remove(kernel, consumer);
    unsigned i = next++ % JUP_ABSENT_MAX;
    snprintf(ring[i].kernel, sizeof ring[i].kernel, "%s", kernel);
    snprintf(ring[i].consumer, sizeof ring[i].consumer, "%s", consumer);
    ring[i].left = now;
}

const char *jup_absent_guess(const char *kernel, int64_t now)
{
    int last = -1;
    for (int i = 0; i < JUP_ABSENT_MAX; i++) {
        if (ring[i].left && !strcmp(ring[i].kernel, kernel) && (last < 0 || ring[i].left > ring[last].left))
            last = i;
    }
    if (last < 0 || now - ring[last].left > JUP_ABSENT_MS)
        return NULL;
    for (int i = 0; i < JUP_ABSENT_MAX; i++) {
        if (i != last && ring[i].left && !strcmp(ring[i].kernel, kernel) &&
            ring[last].left - ring[i].left < JUP_ABSENT_APART_MS)
            return NULL;
    }
    return ring[last].consumer;
}
