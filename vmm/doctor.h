// What `cellkeep doctor` finds out: whether a session could be started here, and what would be better.
#pragma once
#include "vmm/cmd_opts.h"
#include "vmm/host.h"
#include "vmm/image.h"
#include "vmm/jail.h"
#include "vmm/template.h"

struct ck_doctor_folder {
    char path[PATH_MAX];
    bool usable; // writable, or its nearest existing parent is
    uint64_t free_bytes;
};

struct ck_doctor {
    bool ok;       // a session could be started
    char fix[512]; // not ok: what is wrong, with the one command that mends it
    struct ck_err qemu_err, image_err, template_err, jail_err; // status 0 = fine
    struct ck_qemu qemu;
    struct ck_image image;
    struct ck_accel_choice accel;
    bool accel_known;
    struct ck_template t;
    bool have_template;
    uint64_t ram_disk_bytes; // what the template takes on disk
    struct ck_jail_report jail;
    struct ck_doctor_folder state, cache;
    uint64_t nofile, nproc; // hard limits; UINT64_MAX = none
    uint64_t memory_total, memory_available;
    int cpus;
    int ptrace_scope; // -1 = this kernel has no Yama
};

// Never fails: what could not be found out is in the result. Blocks for up to the accelerator's proof.
void ck_doctor_run(const struct ck_cmd_opts *o, ck_progress_fn progress, void *user, struct ck_doctor *d);
