// Starting a program: as a watched child with a whitelist of descriptors (QEMU), or run to its end
// under a deadline (qemu-img, mke2fs, --version).
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "common/ck_proc.h"

#include <limits.h>

#define CK_SPAWN_FDS 4

struct ck_spawn {
    char *const *argv;     // argv[0] is the absolute path
    int fd[CK_SPAWN_FDS];  // child's 3, 4, …: our descriptors, borrowed
    int nfd;
};

// Starts the program with an empty environment, stdin from /dev/null, stdout and stderr to one pipe
// whose read end is *output (non-blocking, the caller's), descriptors 3.. as listed and nothing else,
// default signal dispositions, and SIGKILL when the calling thread dies. *pidfd becomes readable when it ends;
// the caller reaps it with waitpid. A program that cannot be executed ends with exit code 127 and
// says so on its output.
int ck_spawn(const struct ck_spawn *s, struct ck_proc_id *proc, int *pidfd, int *output, struct ck_err *err);

// Runs argv to its end; at most output_max bytes of stdout and stderr together are appended to out,
// the rest is dropped. Fails on a non-zero exit (err quotes the last line) and kills at the deadline.
// Blocks. SIGINT reaches the child as it reaches us (same process group).
int ck_run(char *const *argv, int timeout_ms, size_t output_max, struct ck_buf *out, struct ck_err *err);

// Absolute path of an executable: `name` itself when it has a slash, else searched in PATH and in the
// sbin folders, which an ordinary user's PATH lacks. 1 = not found (err untouched).
int ck_find_program(const char *name, char out[PATH_MAX], struct ck_err *err);
