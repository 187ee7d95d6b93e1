// Pictures of a finished cell: how large they are, and which are larger than wanted. Pure; any thread.
//
// Pictures are bytes of strangers: here only their headers are looked at, in bounds. What decodes them
// runs in the guest (picture_shrink.h).
#pragma once
#include "common/ck_buf.h"

#include <jansson.h>

enum picture_kind { PICTURE_NONE, PICTURE_PNG, PICTURE_JPEG };
struct picture_size {
    uint32_t width, height;
};

// The size that the header tells. PICTURE_NONE: neither PNG nor JPEG, or cut off before it tells.
enum picture_kind picture_look(struct ck_slice bytes, struct picture_size *out);

#define PICTURES_MAX 64                       // of one cell that are shrunk; the others stay whole
#define PICTURES_BYTES_MAX (16 * 1024 * 1024) // of them together
#define PICTURE_NOT_DISPLAYED (-1)            // it is the cell's result

struct picture {
    json_t *bundle;   // borrowed from the cell: what has its base64 under `type`; NULL = it has none
    const char *type; // static
    int display;      // index among the cell's displays, or PICTURE_NOT_DISPLAYED
    enum picture_kind kind;
    struct picture_size was, is; // is: zeroes while it is whole
    struct ck_buf bytes;
};

struct pictures { // zeroed: none
    struct picture p[PICTURES_MAX];
    size_t n, bytes;
    uint32_t edge; // wanted at most
};

// Takes the picture (a copy) when it is larger than edge. 1 = taken, 0 = no need, -1 = no room.
int pictures_add(struct pictures *set, struct ck_slice bytes, struct picture like);
// Looks for those of the cell that are larger than set->edge; cell must outlive the set.
void pictures_find(struct pictures *set, json_t *cell);
void pictures_free(struct pictures *set);

// All of them for the guest, each with its length (4 bytes, big endian) before it; its answer has the same
// form, a length of 0 for one that it could not shrink. Takes from an answer what is a picture of the same
// kind and no larger than wanted; anything else stays as it was.
int pictures_pack(const struct pictures *set, struct ck_buf *out);
void pictures_take(struct pictures *set, struct ck_slice answer);

// Puts what was shrunk into the cell, and adds "images": what became of each. -1 = no memory.
int pictures_apply(struct pictures *set, json_t *cell, const char *why_whole);
