// The bridge's configuration, as the gateway writes it on fd 0. Pure.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_crypto.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <limits.h>
#include <sys/types.h>

struct blimits {
    uint64_t log_bytes;     // of the event log
    int64_t cell_ms;        // wall time of a cell that names none; 0 = no limit
    int64_t command_ms;     // the same for commands
    int64_t kernel_start_ms; // for a fresh kernel to answer, each try
    uint64_t output_bytes;  // collected of one cell; streamed of one command
    uint64_t message_bytes; // of one kernel message
    unsigned artifact_max;  // listed of one cell
    uint64_t artifact_bytes; // larger files are not listed
    int64_t cell_max_ms, command_max_ms; // that a request may ask for; 0 = any
    unsigned queue_max;     // waiting cells
    unsigned pids, open_files; // kept by the guest: see PROTOCOL.md section 2, `limits`
    uint64_t disk_bytes;    // the same; 0 = all there is
    unsigned cpu_weight;    // kept by the host: vmm/cpu_share.h
};
#define BLIMITS_GUEST_DEFAULTS {.pids = 256, .open_files = 65536, .disk_bytes = 0} // as templates are made

enum bconf_restore { BCONF_TEMPLATE, BCONF_RESUME, BCONF_FORK };

struct bconf {
    char id[CK_UUID_MAX];
    char dir[PATH_MAX], template_dir[PATH_MAX], image_dir[PATH_MAX];
    char qemu[PATH_MAX]; // "" = the template's
    char accelerator[8]; // "" = the template's
    int64_t memory_mb;   // 0 = the template's
    uid_t uid;
    gid_t gid;
    uint32_t jail_required, jail_skip; // CK_JAIL_BITs
    bool pool;
    bool spare; // what it shall be is told later: bconf_begin()
    enum bconf_restore restore; // what the session begins from
    char layer[CK_UUID_MAX];    // DIR/layers/<layer>; "" for the template
    struct blimits limits;
};

#define BCONF_BYTES_MAX (64 * 1024)

int bconf_parse(const void *p, size_t n, struct bconf *out, struct ck_err *err);
// What a spare becomes (docs/PROTOCOL.md section 7): id, pool, restore and limits take the place of the
// configuration's. Nothing changes on failure.
int bconf_begin(const void *p, size_t n, struct bconf *c, struct ck_err *err);
// Overrides the limits that the object names; NULL is fine. Nothing changes on failure.
int blimits_apply(struct blimits *l, const json_t *o, struct ck_err *err);
