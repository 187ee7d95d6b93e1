// File operations on behalf of the user: stat, list, read, remove, mkdir, move. All run in the file
// worker's thread with the user's identity. Paths are resolved below "/" on the root file system
// alone: /proc, /sys, /dev and other mounts are not served.
#pragma once
#include "guest/agent/worker.h"

#include <sys/stat.h>

#define AG_READ_MAX (256 * 1024)
#define AG_ETAG_MAX 64

ag_job_fn ag_op_stat, ag_op_list, ag_op_read, ag_op_remove, ag_op_mkdir, ag_op_move;

// Shared with uploads. ---------------------------------------------------------------------------
// Opens a clean path by openat2, following links within the root file system. -1 with err.
int ag_open(const char *path, int flags, struct ck_err *err);
// Opens the folder of a clean path; *name points to its last part.
int ag_open_parent(const char *path, const char **name, struct ck_err *err);
int ag_make_folders(const char *dir, struct ck_err *err); // as mkdir -p, for a clean path
int ag_fail_path(struct ck_err *err, int errnum, const char *path); // maps errno to status and reason
void ag_etag(const struct stat *st, char *out);                  // AG_ETAG_MAX bytes
// {"type","size","mtime_ns","mode","etag","mime"}; mime by content for regular files. fd may be O_PATH.
json_t *ag_stat_json(const struct stat *st, int fd, const char *name);
// The field as a clean path. -1 with err.
int ag_path_field(const json_t *header, const char *field, char *out, struct ck_err *err);
