// Inside of templates; shared by template.c (reading) and template_build.c (building), and by tests.
#pragma once
#include "vmm/template.h"

#include <stddef.h>

// Over image, qemu, accel, cpu and memory_mb of t, the layout and template versions, and the host's
// CPU where it matters (KVM; "" under TCG). Pure.
int ck_template_hash(const struct ck_template *t, uint64_t disk_bytes, const char *host_cpu, char out[CK_HASH_MAX], struct ck_err *err);
// Into `dir` (the temporary folder); t->dir is the final one.
int ck_template_write_json(const struct ck_template *t, const char *dir, struct ck_err *err);
// t->dir must be set; fills what template.json says. Pure.
int ck_template_parse_json(const void *p, size_t n, struct ck_template *t, struct ck_err *err);
