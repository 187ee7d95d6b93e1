// Guest images (PROTOCOL.md section 5): CACHE/images/<hash>/{root.erofs,vmlinuz,initrd,image.json},
// made by guest/image/build.sh. Small file reads; any thread.
#pragma once
#include "common/ck_error.h"
#include "vmm/template.h"

#define CK_IMAGE_VERSION 2 // since 2, image.json has the sizes of the files beside it

struct ck_image {
    char dir[PATH_MAX]; // absolute
    char hash[CK_HASH_MAX];
    uint64_t root_bytes;
    int64_t built_s; // wall clock, seconds
    bool own;        // of packages or a warm-up of a user's own
};

// Checks one folder: image.json is what it should be and its files are there, in the size that it says. "bad_image" or
// "image_version" with what to do.
int ck_image_load(const char *dir, struct ck_image *out, struct ck_err *err);
// The image last built (or confirmed by `image build`) in cache_dir, but for users' own; "no_image" with what to do
// when there is none, "bad_image" when that one is damaged, even if there is an older one that is whole, "image_version" when
// all there are were made for another cellkeep.
int ck_image_find(const char *cache_dir, struct ck_image *out, struct ck_err *err);
