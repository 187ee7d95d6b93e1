// The files of a paused session: `history`, and `paused.json`, which is there exactly while the session
// is paused (PROTOCOL.md section 7). Everything here blocks: for the thread pool, or before a loop runs.
#pragma once
#include "kernel-bridge/history.h"

// Temporary name, sync, rename: first the history, then paused.json. After a failure neither is there
// that was not before. Seals the image.
int hist_write(const char *dir, const char *id, const char *layer, struct hist_image *image, struct ck_err *err);
// Reads `history` of at most max bytes; bytes are appended.
int hist_read(const char *dir, uint64_t max, struct ck_buf *bytes, struct ck_err *err);
// The session runs again: paused.json goes first, so that there is none without its history.
void hist_remove(const char *dir);
