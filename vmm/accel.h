// Which accelerator: KVM is believed only when the real guest has booted under it.
#pragma once
#include "vmm/host.h"
#include "vmm/image.h"
#include "vmm/template.h"

#define CK_ACCEL_PROBE_MS 20000

// wanted: "auto", "kvm" or "tcg". auto: KVM when it is there and proves itself (the answer is
// remembered in cache_dir/accel.json for this boot of the host, this QEMU and this image), else TCG
// with the reason in words. kvm: fails when the proof fails ("no_kvm"). Blocks for up to
// CK_ACCEL_PROBE_MS; ends with "interrupted" on signals. progress may be NULL.
int ck_accel_choose(const char *wanted, const char *cache_dir, const struct ck_qemu *qemu, const struct ck_image *image,
                    ck_progress_fn progress, void *user, struct ck_accel_choice *out, struct ck_err *err);

const char *ck_accel_cpu(enum ck_vm_accel accel); // the CPU model that goes with it
