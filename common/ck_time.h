// Clocks and time stamps. Pure apart from reading the clock; any thread.
#pragma once
#include <stdint.h>

#define CK_ISO8601_MAX 32

int64_t ck_mono_ms(void); // milliseconds of CLOCK_MONOTONIC
int64_t ck_mono_us(void);
int64_t ck_wall_us(void); // microseconds since the epoch, CLOCK_REALTIME

// "2026-11-29T14:07:57.184015Z": always six fractional digits and Z, as jupyter_server's clients
// parse it. out has CK_ISO8601_MAX bytes.
void ck_iso8601_us(int64_t wall_us, char *out);
