// Facts about this host that templates depend on. Synchronous.
#pragma once
#include "common/ck_error.h"

#include <limits.h>
#include <stdint.h>

struct ck_qemu {
    char path[PATH_MAX];
    char version[128]; // "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
    int major, minor;
};

// wanted NULL = qemu-system-x86_64 from PATH. "no_qemu" with what to install; "old_qemu" below 7.2.
int ck_host_qemu(const char *wanted, struct ck_qemu *out, struct ck_err *err);
// Reads the text of `qemu --version`. Pure. -1 = not that.
int ck_host_parse_qemu_version(const char *text, struct ck_qemu *out);

// Frequency of the time-stamp counter in kHz, measured for some milliseconds. Under TCG a guest's TSC
// is the host's, and on a loaded host the guest's own calibration of it hangs.
uint32_t ck_host_tsc_khz(unsigned measure_ms);

// Bytes free for this user in the file system of an existing path; UINT64_MAX when unknown.
uint64_t ck_host_disk_free(const char *path);
// Model and features of this host's CPU as 16 hex digits: a state saved under KVM fits no other.
int ck_host_cpu_id(char out[17], struct ck_err *err);
int ck_host_boot_id(char out[40], struct ck_err *err);
