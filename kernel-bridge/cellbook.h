// Finished cells, by id, for those who ask later. Bounded in number and bytes; the oldest goes
// first. Holds references to the very frames that the event log holds. Pure; one thread.
#pragma once
#include "common/ck_crypto.h"
#include "common/ck_frame.h"
#include "kernel-bridge/celljson.h"

#define CELLBOOK_MAX 512
#define CELLBOOK_BYTES_MAX (32u * 1024 * 1024)

struct cellbook {
    struct cellbook_entry {
        char id[CK_UUID_MAX];
        enum cell_status status;
        struct ck_blob *frame; // its `cell` event: part 1 is the JSON
    } entry[CELLBOOK_MAX]; // ring
    unsigned first, n;
    size_t bytes;
};

// Takes a reference of its own. The newest is kept whatever its size.
void cellbook_add(struct cellbook *b, const char *id, enum cell_status status, struct ck_blob *frame);
void cellbook_replace(struct cellbook *b, const char *id, struct ck_blob *frame); // takes frame; NULL: nothing changes
const struct cellbook_entry *cellbook_find(const struct cellbook *b, const char *id); // NULL = unknown or forgotten
void cellbook_free(struct cellbook *b);
