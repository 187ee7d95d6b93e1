// Templates: a booted, warmed-up, saved VM that sessions start from (PROTOCOL.md section 5).
#pragma once
#include "common/ck_error.h"
#include "vmm/argv.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define CK_HASH_MAX 65
#define CK_TEMPLATE_VERSION 2 // since 2, template.json has the sizes of the two disks
#define CK_MEMORY_MB_DEFAULT 512
#define CK_MEMORY_MB_MIN 384 // with less, nothing is left for cells: the guest itself needs about 270
#define CK_MEMORY_MB_MAX 32768

struct ck_template {
    char dir[PATH_MAX];       // CACHE/templates/<hash>, absolute
    char hash[CK_HASH_MAX];
    char image[CK_HASH_MAX];
    char image_dir[PATH_MAX]; // CACHE/images/<image>, absolute
    char qemu[128];           // version text, e.g. "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
    char qemu_path[PATH_MAX]; // the executable that made it
    char cpu[64];
    enum ck_vm_accel accel;
    unsigned memory_mb;
    uint64_t state_bytes;
    uint64_t disk_file_bytes, blank_file_bytes; // of disk.qcow2 and blank.qcow2, neither of which changes any more
    uint32_t tsc_khz;         // of the host that built it; 0 = does not matter (KVM)
    int64_t created_us;       // wall clock
};

// Reads and checks DIR/template.json and the files beside it. A wrong magic or version, a missing or
// truncated file is refused with what to do ("bad_template"). image_dir NULL = DIR/../../images/<image>.
// Does small file reads only; for a bridge before its loop runs, and for the command line.
int ck_template_load(const char *dir, const char *image_dir, struct ck_template *out, struct ck_err *err);

static inline uint64_t ck_template_ram_bytes(const struct ck_template *t) { return (uint64_t)t->memory_mb << 20; }

// Opens DIR/state read-only for ck_machine_restore, which takes the descriptor over.
int ck_template_open_state(const struct ck_template *t, int *out, struct ck_err *err);

// Makes a session's private disk: a copy of DIR/blank.qcow2 (about 200 KiB) under a temporary name,
// renamed. Its backing file is DIR/disk.qcow2 by absolute path.
int ck_template_make_disk(const struct ck_template *t, const char *path, struct ck_err *err);

// What serve and `template build` do. Runs its own loop and blocks, up to minutes: never from a
// running event loop. SIGINT and SIGTERM end it (err "interrupted"); no QEMU survives it.
struct ck_template_opts {
    const char *cache_dir;
    const char *image_dir; // NULL = the newest complete image in CACHE/images
    const char *qemu;      // NULL = qemu-system-x86_64 found in PATH
    const char *accel;     // "auto", "kvm", "tcg"
    unsigned memory_mb;    // 0 = default
    uint64_t disk_bytes;   // 0 = 4 GiB
    bool rebuild;          // even when a good one exists
};
struct ck_accel_choice {
    enum ck_vm_accel accel;
    char reason[256]; // in words, one line
};
// Called on the same thread; percent -1 = unknown. text is one line, bounded, printable.
typedef void (*ck_progress_fn)(int percent, const char *text, void *user);

int ck_template_ensure(const struct ck_template_opts *opts, ck_progress_fn progress, void *user,
                       struct ck_template *out, struct ck_accel_choice *choice, struct ck_err *err);

// As ck_template_ensure, but builds nothing: 1 = there is no good template yet (err says why when
// there is a bad one; *choice is filled). May boot the guest for the proof of KVM.
int ck_template_find(const struct ck_template_opts *opts, ck_progress_fn progress, void *user, struct ck_template *out,
                     struct ck_accel_choice *choice, struct ck_err *err);
