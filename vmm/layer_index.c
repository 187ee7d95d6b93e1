// Tail and index of a layer's RAM. Must never let a range through that lies outside of the guest's
// memory: it would be written there.
#include "vmm/layer_index.h"

#include <string.h>

#define VERSION 1u

static const char magic[8] = {'C', 'K', 'L', 'R', 'A', 'M', '\r', '\n'}; // a copy in text mode would show

static void put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i--;)
        v = v << 8 | p[i];
    return v;
}

void ck_ram_print_tail(const struct ck_ram_tail *t, uint8_t out[CK_RAM_TAIL])
{
    memset(out, 0, CK_RAM_TAIL);
    memcpy(out, magic, sizeof magic);
    put(out + 8, VERSION, 4);
    put(out + 12, CK_PAGE, 4);
    put(out + 16, t->guest_pages, 8);
    put(out + 24, t->data_pages, 8);
    put(out + 32, t->zero_pages, 8);
    put(out + 40, t->index_at, 8);
    put(out + 48, t->ranges, 4);
}

static int bad(struct ck_err *err, const char *what)
{
    return ck_fail(err, 422, "bad_layer", "the layer's memory cannot be used: %s", what);
}

int ck_ram_parse_tail(const uint8_t p[CK_RAM_TAIL], uint64_t file_bytes, uint64_t guest_pages, struct ck_ram_tail *out,
                        struct ck_err *err)
{
    static const uint8_t rest[12] = {0};
    struct ck_ram_tail t = {get(p + 16, 8), get(p + 24, 8), get(p + 32, 8), get(p + 40, 8), (uint32_t)get(p + 48, 4)};
    if (memcmp(p, magic, sizeof magic) != 0)
        return bad(err, "it has another magic");
    if (get(p + 8, 4) != VERSION)
        return bad(err, "it is of another version");
    if (get(p + 12, 4) != CK_PAGE || memcmp(p + 52, rest, sizeof rest) != 0)
        return bad(err, "its description does not add up");
    if (t.guest_pages != guest_pages)
        return bad(err, "it is of a VM with another amount of memory");
    if (t.data_pages > guest_pages || t.zero_pages > guest_pages || t.ranges > t.data_pages + t.zero_pages)
        return bad(err, "it has more pages than its VM");
    if (t.index_at != t.data_pages * CK_PAGE ||
        file_bytes != t.index_at + (uint64_t)t.ranges * CK_RAM_RANGE + CK_RAM_TAIL)
        return bad(err, "it is cut short or has grown");
    *out = t;
    return 0;
}

void ck_ram_print_range(struct ck_ram_range r, uint8_t out[CK_RAM_RANGE])
{
    put(out, r.first, 4);
    put(out + 4, (uint64_t)r.count * 2 + (r.zero ? 1 : 0), 4);
}

struct ck_ram_range ck_ram_range_at(const uint8_t *index, size_t i)
{
    const uint8_t *p = index + i * CK_RAM_RANGE;
    uint32_t n = (uint32_t)get(p + 4, 4);
    return (struct ck_ram_range){(uint32_t)get(p, 4), n / 2, n & 1};
}

int ck_ram_check_index(const struct ck_ram_tail *t, const uint8_t *index, struct ck_err *err)
{
    uint64_t next = 0, data = 0, zero = 0;
    for (uint32_t i = 0; i < t->ranges; i++) {
        struct ck_ram_range r = ck_ram_range_at(index, i);
        if (!r.count || r.first < next || (uint64_t)r.first + r.count > t->guest_pages)
            return bad(err, "a range of its index is out of order or outside of the VM's memory");
        next = (uint64_t)r.first + r.count;
        *(r.zero ? &zero : &data) += r.count;
    }
    if (data != t->data_pages || zero != t->zero_pages)
        return bad(err, "its index and its description differ");
    return 0;
}
