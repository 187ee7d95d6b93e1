// Processes by pid *and* start time, so that a reused pid is never taken for ours or signalled.
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ck_proc_id {
    pid_t pid;
    uint64_t start; // field 22 of /proc/PID/stat: clock ticks after boot
};

// Parses the text of /proc/PID/stat; the name field may hold spaces and parentheses. Pure. -1 = malformed.
int ck_proc_parse_stat(const char *text, uint64_t *start, char *state);
// One number of that text by its number in proc(5), 4 and above. Pure. -1 = not there, or negative.
int ck_proc_stat_number(const char *text, unsigned field, uint64_t *out);
int ck_proc_identify(pid_t pid, struct ck_proc_id *out); // -1 = no such process (or a zombie)
bool ck_proc_alive(struct ck_proc_id id);
// SIGKILL etc. through a pidfd checked against the start time. 0 sent, 1 already gone, -1 error.
int ck_proc_signal(struct ck_proc_id id, int sig, struct ck_err *err);
// Marks every descriptor from `from` upward close-on-exec, except those in keep.
void ck_proc_cloexec_from(int from, const int *keep, int nkeep);
