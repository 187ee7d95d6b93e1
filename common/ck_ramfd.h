// The RAM of a template as a sealed memfd: what every session of one template starts from. QEMU
// opens it read-write (it insists) and maps it privately; F_SEAL_WRITE means that nothing that
// breaks out of one session's QEMU can write the memory of the others.
#pragma once
#include "common/ck_error.h"

#include <stdint.h>

// Copies the file at `path` (holes stay holes) into a new memfd sealed against writing, shrinking,
// growing and unsealing. *out is the caller's, close-on-exec. expect_bytes 0 = any size; else a file
// of another size is refused. Blocks for the time of the copy: never call it on the event loop.
int ck_ramfd_load(const char *path, uint64_t expect_bytes, int *out, struct ck_err *err);

// 0 when fd is a memfd with all four seals and the given size (0 = any); else -1 with err. A bridge
// checks what it was handed.
int ck_ramfd_check(int fd, uint64_t expect_bytes, struct ck_err *err);
