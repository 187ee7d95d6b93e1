// How a cell can end, and the finished cell as the JSON that /v1 clients get (design.md section 5).
// Pure.
#pragma once
#include "kernel-bridge/cellout.h"

enum cell_status {
    CELL_OK,
    CELL_ERROR,
    CELL_TIMEOUT,
    CELL_INTERRUPTED,
    CELL_OOM,
    CELL_KERNEL_DIED,
    CELL_VM_DIED,
    CELL_CANCELLED,
    CELL_STATUSES,
};
const char *cell_status_name(enum cell_status s);
int cell_exit_code(enum cell_status s); // the usual one

// Limits of the session that a cell ran into, each named as in the API.
enum cell_hit { CELL_HIT_OUTPUT, CELL_HIT_ARTIFACTS, CELL_HIT_ARTIFACT_SIZE, CELL_HIT_PIDS, CELL_HIT_DISK, CELL_HITS };
#define CELL_HIT(h) (1u << (h))
int cell_hits_json(unsigned hits, struct ck_buf *out); // appends a JSON array of names

struct cell_facts {
    const char *id;
    uint64_t seq_first, seq_last;
    enum cell_status status;
    int exit_code;
    const struct cout *out;
    struct ck_slice artifacts; // JSON array text
    int64_t artifacts_total;
    int64_t wall_ms, cpu_ms, peak_memory_bytes, disk_bytes; // -1 = unknown: null
    int64_t artifacts_too_large; // of them, not listed for their size
    unsigned limits_hit;         // CELL_HIT bits
    const char *ended_by; // machine word for what ended it when it did not end by itself, "" = itself
    const char *detail;   // words for a person, "" = none
};
int cell_json(const struct cell_facts *f, struct ck_buf *out); // appends; -1 = no memory

// The same cell with another ending: what became of it was not known when it was told. 1 = it does not
// end as `was` says.
struct cell_ending {
    const char *ended_by, *detail;
};
int cell_json_end_anew(struct ck_slice json, const struct cell_ending *was, const struct cell_ending *now,
                       struct ck_buf *out);

// Text without ANSI escape sequences (CSI, OSC and two-byte ones), appended.
int cell_strip_ansi(struct ck_slice text, struct ck_buf *out);
