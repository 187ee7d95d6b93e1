// The least of an agent client: one command in the guest at a time, blocking, without a loop. For
// benches, which have nothing else to do.
#pragma once
#include "common/ck_error.h"

#include <stddef.h>
#include <stdint.h>

void *guest_context(void);
// The first request after a template: from here on the agent's key is `key`.
int guest_personalise(void *zctx, uint16_t port, const uint8_t key[32], int timeout_ms, struct ck_err *err);
// Runs a command (a shell's, or Python's when `until` is given) and takes its output until it ends, or
// until the output is `until`: then it is left running.
int guest_call(void *zctx, uint16_t port, const uint8_t key[32], const char *code, const char *until, char *out,
               size_t room, int timeout_ms, struct ck_err *err);
