// Log lines: one write(2) each, so that lines of several threads and processes do not mix.
#include "common/ck_log.h"

#include "common/ck_time.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define RATE_SLOTS 64
#define RATE_PER_SECOND 50

static int log_fd = STDERR_FILENO;
static enum ck_log_level log_level = CK_LOG_INFO;
static const char *const level_names[] = {"debug", "info", "warn", "error"};

// One slot a format string (by address); two that collide share one budget.
static struct {
    int64_t second;
    unsigned passed, held;
} rate[RATE_SLOTS];
static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;

void ck_log_to(int fd) { log_fd = fd; }
void ck_log_set_level(enum ck_log_level level) { log_level = level; }

bool ck_log_level_from_name(const char *name, enum ck_log_level *out)
{
    for (unsigned i = 0; i < sizeof level_names / sizeof *level_names; i++)
        if (!strcmp(name, level_names[i])) {
            *out = (enum ck_log_level)i;
            return true;
        }
    return false;
}

// Returns false when the line is to be held back; *held is what was held back before.
static bool within_rate(const char *fmt, unsigned *held)
{
    size_t i = ((uintptr_t)fmt >> 3) % RATE_SLOTS;
    int64_t now = ck_mono_ms() / 1000;
    pthread_mutex_lock(&rate_lock);
    if (rate[i].second != now) {
        rate[i].second = now;
        rate[i].passed = 0;
    }
    bool pass = rate[i].passed < RATE_PER_SECOND;
    if (pass) {
        rate[i].passed++;
        *held = rate[i].held;
        rate[i].held = 0;
    } else {
        rate[i].held++;
    }
    pthread_mutex_unlock(&rate_lock);
    return pass;
}

static size_t copy_printable(char *dst, size_t room, const char *src)
{
    size_t n = 0;
    for (; *src && n + 5 < room; src++) {
        unsigned char c = (unsigned char)*src;
        if (c < 0x20 || c == 0x7f)
            n += (size_t)snprintf(dst + n, room - n, "\\x%02x", c);
        else
            dst[n++] = (char)c;
    }
    return n;
}

void ck_log(enum ck_log_level level, const char *module, const char *fmt, ...)
{
    unsigned held = 0;
    if (level < log_level || !within_rate(fmt, &held))
        return;
    char text[LINE_MAX_BYTES / 2], line[LINE_MAX_BYTES], stamp[CK_ISO8601_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ck_iso8601_us(ck_wall_us(), stamp);
    size_t n = (size_t)snprintf(line, sizeof line, "%s %-5s %s ", stamp, level_names[level], module);
    n += copy_printable(line + n, sizeof line - n - 32, text);
    if (held)
        n += (size_t)snprintf(line + n, sizeof line - n, " held_back=%u", held);
    line[n++] = '\n';
    ssize_t ignored = write(log_fd, line, n); // a full log pipe must not stop the program
    (void)ignored;
}
