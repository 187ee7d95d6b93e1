// What is looked at in a qcow2 before QEMU opens it as a layer. Pure.
#pragma once
#include "common/ck_error.h"

#include <stdint.h>

#define CK_QCOW2_HEADER 112 // bytes that are looked at

// A layer's disk was written by a QEMU that a hostile guest may have broken into. Refuses ("bad_layer")
// what is not a plain version 3 image, names an external data file (which QEMU would open by path), is
// encrypted or says that it is corrupt. *size is the disk's size as the guest sees it. A backing file's
// name is of no matter: it is never followed (vmm/blockdev.h).
int ck_qcow2_check(const uint8_t p[CK_QCOW2_HEADER], uint64_t *size, struct ck_err *err);
