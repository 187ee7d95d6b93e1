// How much memory the host has left. Reads one file of /proc; never waits for a disk.
#pragma once
#include <stdint.h>

// MemAvailable of the text of /proc/meminfo in MiB, -1 when it does not say. Pure.
int64_t host_memory_parse(const char *text);
int64_t host_memory_available_mb(void); // -1 = cannot be known
