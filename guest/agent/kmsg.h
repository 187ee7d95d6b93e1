// Which processes the kernel's OOM killer ended, from its log. Main thread only.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Pure: the pid in a /dev/kmsg record of the form "...;...Killed process 123 (name)...", or 0.
int ag_kmsg_victim(const char *record, size_t n);

struct ag_kmsg;
struct ag_kmsg *ag_kmsg_open(void); // NULL when the log cannot be read: nothing is then reported as oom
void ag_kmsg_close(struct ag_kmsg *k);
// Reads what is new, then tells whether pid was among the last victims (and forgets it).
bool ag_kmsg_was_victim(struct ag_kmsg *k, int pid);
