// A bridge whose QEMU waits and which is not yet anybody's: the wait for what it shall be. Loop thread only.
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct spare;

// Says on fd, a socket of the gateway's, that it waits, and calls got once, from the loop, with the line that
// comes in answer (valid during the call), or with NULL when the gateway has gone. fd is borrowed until
// spare_free(), and does not block from then on. moves: the folder may get another name outside. NULL = err.
struct spare *spare_new(uv_loop_t *loop, int fd, bool moves, void (*got)(void *user, const void *text, size_t n),
                        void *user, struct ck_err *err);
void spare_free(struct spare *s); // NULL is fine; got may call it
