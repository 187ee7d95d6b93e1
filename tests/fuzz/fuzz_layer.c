// What a restore reads before it touches a VM: layer.json, the memory's tail and index, a disk's
// header, and the kernel's list of mappings. The first byte chooses which. What is accepted must lie
// inside of its bounds and, where it has a printer, come back the same.
#include "common/ck_clean.h"
#include "vmm/layer.h"
#include "vmm/layer_index.h"
#include "vmm/layer_maps.h"
#include "vmm/layer_qcow2.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void json(const uint8_t *p, size_t n)
{
    struct ck_layer_info i, back;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_BUF struct ck_buf again = CK_BUF_INIT;
    if (ck_layer_parse_json(p, n, &i, NULL))
        return;
    if (i.data_pages + i.zero_pages > (uint64_t)i.memory_mb << 8 || i.nbelow < 0 || i.nbelow >= CK_LAYER_DISKS_MAX ||
        !ck_uuid_valid(i.id))
        abort();
    if (ck_layer_print_json(&i, &text) || ck_layer_parse_json(text.p, text.n, &back, NULL) ||
        ck_layer_print_json(&back, &again) || again.n != text.n || memcmp(again.p, text.p, text.n) != 0)
        abort();
}

// The tail is at the end of the input, the index before it; what would be pages is only counted.
static void memory(const uint8_t *p, size_t n)
{
    struct ck_ram_tail t;
    uint8_t again[CK_RAM_TAIL];
    const uint64_t pages = 1u << 17;
    if (n < CK_RAM_TAIL)
        return;
    uint64_t said = 0; // lets the file be as long as it says, so that the index is reached
    memcpy(&said, p + n - CK_RAM_TAIL + 40, 8);
    size_t index = n - CK_RAM_TAIL;
    if (ck_ram_parse_tail(p + index, said + n, pages, &t, NULL))
        return;
    ck_ram_print_tail(&t, again);
    if (memcmp(again, p + index, sizeof again) != 0 || (uint64_t)t.ranges * CK_RAM_RANGE != index)
        abort();
    if (ck_ram_check_index(&t, p, NULL))
        return;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t.ranges; i++) {
        struct ck_ram_range r = ck_ram_range_at(p, i);
        if ((uint64_t)r.first + r.count > pages)
            abort();
        sum += r.count;
    }
    if (sum != t.data_pages + t.zero_pages)
        abort();
}

static void disk(const uint8_t *p, size_t n)
{
    uint8_t head[CK_QCOW2_HEADER] = {0};
    uint64_t bytes;
    memcpy(head, p, n < sizeof head ? n : sizeof head);
    if (!ck_qcow2_check(head, &bytes, NULL) && (head[79] & 4))
        abort();
}

static void maps(const uint8_t *p, size_t n)
{
    struct ck_area a[CK_AREAS_MAX];
    CK_CLEAN_FREE char *text = malloc(n + 1);
    if (!text)
        return;
    memcpy(text, p, n);
    text[n] = 0;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    int areas = ck_maps_find(text, 1, 7, 0x4000, a);
    uint64_t at = 0;
    for (int i = 0; i < areas; i++) {
        if (a[i].offset != at || !a[i].bytes)
            abort();
        at += a[i].bytes;
    }
    if (areas > 0 && at != 0x4000)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    switch (data[0] & 3) {
    case 0: json(data + 1, size - 1); break;
    case 1: memory(data + 1, size - 1); break;
    case 2: disk(data + 1, size - 1); break;
    default: maps(data + 1, size - 1);
    }
    return 0;
}
