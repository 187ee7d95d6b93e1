// What the cache folder remembers of its users, so that nothing in use is ever removed. Synchronous, any thread.
//
//   CACHE/.use-lock         shared while a template is looked up and marked, exclusive while old ones are removed
//   CACHE/users/<hash>      a link to the sessions folder of every gateway that ever used this cache
//   the time of template.json, image.json, rootfs.json: the last use
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stdint.h>

// The lock, gone when *fd is closed. Shared waits; exclusive does not: 1 = somebody holds it. -1 = it cannot be had
// at all (a cache that we may only read); *fd is -1 then.
int ck_cache_lock(const char *cache, bool exclusive, int *fd);

// "Used now." Refused to others than its owner: then it stays as it is.
void ck_cache_touch(const char *dir, const char *file);

// Remembers that the sessions of STATE_DIR use this cache.
int ck_cache_register(const char *cache, const char *state_dir, struct ck_err *err);

#define CK_CACHE_KEEP_S (7 * 24 * 3600)

struct ck_pruned {
    unsigned templates, images, rootfs;
    uint64_t bytes; // freed
};

// Removes templates, images and root file systems that nothing refers to and nobody used for CK_CACHE_KEEP_S: no
// session of a registered gateway (paused ones and their layers too), no running process, no name that somebody gave
// (vmm/named.h), nothing newer made from them. What cannot
// be known for certain is kept. Never fails: a cache that could not be pruned is merely large.
void ck_cache_prune(const char *cache, int64_t now_s, struct ck_pruned *out);
