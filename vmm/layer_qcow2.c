// The header of a qcow2 image (QEMU's docs/interop/qcow2.txt), as far as it decides what else would
// be opened. By hand, because there is no library, and asking qemu-img would be opening it.
#include "vmm/layer_qcow2.h"

#include <stddef.h>
#include <string.h>

#define DIRTY 1u           // lazy refcounts: QEMU repairs it
#define COMPRESSION 8u     // of another type than zlib
#define KNOWN (DIRTY | COMPRESSION)
#define CORRUPT 2u
#define DATA_FILE 4u

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

int ck_qcow2_check(const uint8_t p[CK_QCOW2_HEADER], uint64_t *size, struct ck_err *err)
{
    const char *what = NULL;
    uint64_t incompatible = get(p + 72, 8);
    if (memcmp(p, "QFI\xfb", 4) != 0)
        what = "it is not a qcow2 image";
    else if (get(p + 4, 4) != 3 || get(p + 100, 4) < 104)
        what = "it is not a qcow2 image of version 3";
    else if (get(p + 32, 4))
        what = "it is encrypted";
    else if (incompatible & CORRUPT)
        what = "QEMU marked it as corrupt";
    else if (incompatible & DATA_FILE)
        what = "it keeps its data in another file";
    else if (incompatible & ~(uint64_t)KNOWN)
        what = "it uses features that are not known here";
    if (what)
        return ck_fail(err, 422, "bad_layer", "the layer's disk cannot be used: %s", what);
    *size = get(p + 24, 8);
    return 0;
}
