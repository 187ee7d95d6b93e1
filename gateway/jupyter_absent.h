// Clients without session_id that are gone for the moment: what their next socket, which brings no
// name and may say nothing, is most likely to be. Notebook servers in gateway mode reconnect like
// that when the browser behind them lost its connection. Loop thread; time is passed in (ms).
#pragma once
#include "common/ck_crypto.h"

#include <stdint.h>

#define JUP_ABSENT_MAX 256
#define JUP_ABSENT_MS (60 * 1000)  // nobody is guessed to be a client that left longer ago
#define JUP_ABSENT_APART_MS 3000   // two that left closer together cannot be told apart

void jup_absent_add(const char *kernel, const char *consumer, int64_t now);
void jup_absent_remove(const char *kernel, const char *consumer); // it is back, or known not to come
// The one client of this kernel that a silent socket continues, or NULL. Valid until the next call.
const char *jup_absent_guess(const char *kernel, int64_t now);
