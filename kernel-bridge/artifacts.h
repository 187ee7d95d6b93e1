// From the agent's answer to `changes` to the artifacts of PROTOCOL.md. Pure.
#pragma once
#include "common/ck_buf.h"
#include "kernel-bridge/written.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define ARTIFACTS_MAX 200

// What one `changes` answer holds for a cell.
struct artifacts {
    struct ck_buf json[ARTIFACTS_MAX]; // one object each
    unsigned n;
    int64_t total; // changed files, listed or not
    bool too_many;      // there were more than how->max
    unsigned too_large; // not listed for their size
};
// Where artifacts are read for: how they are named, and what is not one.
struct artifacts_for {
    const char *session_id, *url_prefix;
    const struct written *written; // by clients; NULL = nothing
    unsigned max;                  // at most ARTIFACTS_MAX
    int64_t bytes;                 // of one, at most
};
// Fills *out (zeroed by the caller). Entries that are not what PROTOCOL.md says are left out.
void artifacts_read(const json_t *answer, const struct artifacts_for *f, struct artifacts *out);
int artifacts_array(const struct artifacts *a, struct ck_buf *out); // appends a JSON array
void artifacts_free(struct artifacts *a);

// Appends an absolute path percent-encoded, slashes kept: what follows ".../files" in a URL.
int artifacts_encode_path(const char *path, struct ck_buf *out);
