// Structured, levelled, rate-limited log lines on stderr (or any descriptor):
//   2026-11-29T14:07:57.184015Z info  bridge kernel_exited pid=41 code=1
// The message is an event word followed by key=value pairs. Never log tokens, keys, cell contents,
// query strings or environments. Any thread may log.
#pragma once
#include <stdbool.h>

enum ck_log_level { CK_LOG_DEBUG, CK_LOG_INFO, CK_LOG_WARN, CK_LOG_ERROR };

// fd stays the caller's. Level names: debug, info, warn, error; unknown names change nothing.
void ck_log_to(int fd);
void ck_log_set_level(enum ck_log_level level);
bool ck_log_level_from_name(const char *name, enum ck_log_level *out);

// At most 50 lines a second for each call site's format string; the next line that passes says how
// many were held back. Control characters in the text are printed as \xNN.
void ck_log(enum ck_log_level level, const char *module, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
