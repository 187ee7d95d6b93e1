// Boots a VM in the foreground and watches its console: for the template and for the proof of an
// accelerator. Runs a loop of its own; blocks.
#pragma once
#include "vmm/argv.h"
#include "vmm/template.h"

struct ck_boot_opts {
    const struct ck_vm_spec *spec; // CK_VM_TEMPLATE or CK_VM_PROBE
    unsigned deadline_ms;          // to hello (probe); from one percent of progress to the next (template)
    const char *state_path;        // template: where QEMU saves the device state
    ck_progress_fn progress;       // may be NULL
    void *user;
};

// Probe: 0 when the guest said hello; it is killed then. Template: 0 when the guest got ready, fell
// idle, was stopped and saved, and QEMU has quit. In every case no QEMU is left. SIGINT, SIGTERM and
// SIGHUP end it with "interrupted".
int ck_boot_run(const struct ck_boot_opts *opts, struct ck_err *err);

// The kernel command line. Pure. mode: "template" or "probe".
int ck_boot_cmdline(enum ck_vm_accel accel, uint32_t tsc_khz, const char *mode, char *out, size_t room,
                    struct ck_err *err);
