// The most memory that the user's processes held since the last time it was asked. The cgroup's own
// memory.peak cannot be set back (Linux 6.1), so it answers only when it has grown; else the
// processes' high-water marks tell, which can (/proc/PID/clear_refs). One thread, the scans worker.
#pragma once
#include "common/ck_buf.h"
#include "guest/agent/cgroup.h"

#define AG_PEAK_PROCS 64 // looked at; what more there are count only with what they hold at the end

struct ag_peak {
    uint64_t life, held; // memory.peak and memory.current at the last time
    struct ag_peak_proc {
        int pid;
        uint64_t resident; // at the last time, when its mark was set back
    } proc[AG_PEAK_PROCS];
    int procs;
};

// now: of all of /user. Begins the next span.
uint64_t ag_peak_since(struct ag_peak *p, const struct ag_usage *now);

// Pure. The number after a line's name, as in /proc/PID/status ("VmHWM:\t  123 kB"), in bytes; 0 = not there.
uint64_t ag_peak_field(struct ck_slice status, const char *name);
// Pure. grown: by how much the processes' marks rose above what they held at the last time.
uint64_t ag_peak_of_span(const struct ag_peak *then, const struct ag_usage *now, uint64_t grown);
