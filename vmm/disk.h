// Disks of templates, and what is done to files that are mostly holes. Synchronous.
#pragma once
#include "common/ck_error.h"

#include <stdint.h>

#define CK_DISK_BYTES_DEFAULT (4ull << 30)

// Makes DIR/disk.qcow2: an ext4 file system labelled "cellkeep" of that many bytes, in a qcow2.
// Needs mke2fs and qemu-img ("no_tool" with what to install).
int ck_disk_make(const char *dir, uint64_t bytes, struct ck_err *err);
// Makes DIR/blank.qcow2, an empty layer over backing (an absolute path that need not exist yet).
int ck_disk_make_blank(const char *dir, const char *backing, uint64_t bytes, struct ck_err *err);
// Turns pages of zeroes of a file into holes. *kept is the number of bytes that are left.
int ck_disk_punch_zeroes(const char *path, uint64_t *kept, struct ck_err *err);
// Plain copy to a temporary name beside `to`, mode 0600, then rename. No fsync.
int ck_disk_copy(const char *from, const char *to, struct ck_err *err);
int ck_disk_sync(const char *path, struct ck_err *err); // fsync of a file or folder
