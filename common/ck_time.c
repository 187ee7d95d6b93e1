// Clocks and time stamps.
#include "common/ck_time.h"

#include <stdio.h>
#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t ck_mono_us(void) { return read_us(CLOCK_MONOTONIC); }
int64_t ck_mono_ms(void) { return read_us(CLOCK_MONOTONIC) / 1000; }
int64_t ck_wall_us(void) { return read_us(CLOCK_REALTIME); }

void ck_iso8601_us(int64_t wall_us, char *out)
{
    time_t s = (time_t)(wall_us / 1000000);
    long us = (long)(wall_us % 1000000);
    if (us < 0) {
        us += 1000000;
        s--;
    }
    struct tm tm;
    gmtime_r(&s, &tm);
    size_t n = strftime(out, CK_ISO8601_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, CK_ISO8601_MAX - n, ".%06ldZ", us);
}
