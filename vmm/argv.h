// From a description of a VM to QEMU's argument vector. Pure: no I/O, no globals. One code path for
// KVM and TCG, for sessions, the template and the probe; a restored VM must have the same devices in
// the same order as the template that it was saved from, so the layout has a version.
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stdint.h>

// Part of the template's hash: raise it whenever the devices below change.
#define CK_VM_LAYOUT_VERSION 1
#define CK_VM_PORTS 6                // kernel: shell iopub stdin control hb; then the agent
#define CK_VM_PORT_FIRST 5555        // guest port of host_port[0]; the others follow
#define CK_VM_PORT_AGENT 5           // index of the agent's port
#define CK_VM_ARGV_MAX 96
#define CK_VM_TRANSLATED_MIB 256     // TCG: bound of a session's translated code
#define CK_VM_CONSOLE_RING 65536     // bytes of serial console that a session keeps

enum ck_vm_accel { CK_ACCEL_TCG, CK_ACCEL_KVM };
const char *ck_vm_accel_name(enum ck_vm_accel accel); // "tcg", "kvm"
bool ck_vm_accel_from_name(const char *name, enum ck_vm_accel *out);

enum ck_vm_use {
    CK_VM_SESSION,  // restores a template: incoming defer, RAM private, console in a ring buffer
    CK_VM_TEMPLATE, // boots, RAM shared with its file, console on console_fd
    CK_VM_PROBE,    // boots, anonymous RAM, no writable disk, console on console_fd
};

struct ck_vm_spec {
    enum ck_vm_use use;
    enum ck_vm_accel accel;
    const char *qemu; // absolute path of the executable
    const char *cpu;
    unsigned memory_mb;
    const char *kernel, *initrd, *append; // boot only; ignored for sessions
    const char *root_image;               // erofs, read-only
    const char *disk;                     // qcow2; NULL for the probe
    const char *disk_base;                // session: the template's qcow2 that lies below it
    const char *ram_path;                 // template: plain file; session: NULL
    int ram_fd;                           // session: descriptor number in the child
    int qmp_fd, console_fd;               // descriptor numbers in the child; console_fd -1 for sessions
    uint16_t host_port[CK_VM_PORTS];      // on 127.0.0.1
};

struct ck_vm_argv {
    char *argv[CK_VM_ARGV_MAX + 1]; // owned, NULL-terminated
    int argc;
};

// Fills *out (to be freed in every case). Fails on a path with a comma or a control character
// (QEMU's option syntax), on ports of 0 and on descriptions that do not add up.
int ck_vm_argv_build(const struct ck_vm_spec *spec, struct ck_vm_argv *out, struct ck_err *err);
void ck_vm_argv_free(struct ck_vm_argv *a);
