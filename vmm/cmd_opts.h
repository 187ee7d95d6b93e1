// Options that the subcommands of this room share. Precedence: option, then CELLKEEP_… environment,
// then default; the same names and defaults as `cellkeep serve`.
#pragma once
#include "common/ck_error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct ck_cmd_opts {
    char cache_dir[PATH_MAX], state_dir[PATH_MAX];
    const char *accel, *image, *qemu, *recipe, *agent; // NULL when not given (accel: "auto")
    const char *name, *packages, *warm_up;             // likewise
    unsigned memory_mb;
    bool json, rebuild, help;
    bool cache_given, state_given; // --cache-dir, --state-dir were on the command line
};

// argv[0] is skipped; words that are no options are counted in *nwords and listed in words (at most
// max). On failure err has one line for the user (usage, exit code 2).
int ck_cmd_opts_parse(int argc, char **argv, struct ck_cmd_opts *out, const char **words, int max, int *nwords,
                      struct ck_err *err);

// Runs the image's recipe and checks what it made. Takes up to minutes; for the command line.
struct ck_image;
int ck_cmd_image_build(const struct ck_cmd_opts *o, struct ck_image *out, struct ck_err *err);

// One line "cellkeep NAME: text" on stderr. Returns 1.
int ck_cmd_fail(const char *name, const struct ck_err *err);

// A ck_progress_fn that prints one line a step to stderr. user: a zeroed ck_cmd_progress.
struct ck_cmd_progress {
    int last;
    char text[128];
};
void ck_cmd_progress(int percent, const char *text, void *user);

// Removes from the cache what is old and needed by nobody (vmm/cache.h); one line about it, if anything.
void ck_cmd_prune(const char *name, const char *cache);

// "1.5 GiB"
void ck_cmd_size(uint64_t bytes, char out[32]);
