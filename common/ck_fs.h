// Small synchronous file helpers for start-up, the bridge's own directory and the command line.
// Never call them from the gateway's event loop on a request path.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <sys/types.h>

// Whole file of at most max bytes, appended to out (a NUL follows the last byte, not counted).
// On failure out is as it was.
int ck_read_file(const char *path, size_t max, struct ck_buf *out, struct ck_err *err);
// Temporary name in the same folder, fsync, rename, fsync of the folder: all or nothing.
int ck_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode, struct ck_err *err);
int ck_mkdirs(const char *path, mode_t mode, struct ck_err *err); // as mkdir -p
int ck_remove_tree(const char *path, struct ck_err *err);         // absent is fine; never follows links
// snprintf into a caller's buffer; -1 with err when it does not fit.
int ck_path(char *out, size_t room, struct ck_err *err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int ck_write_all(int fd, const void *p, size_t n); // loops over short writes; -1 with errno
