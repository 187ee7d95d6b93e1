// Finished cells in a ring. A linear search over at most CELLBOOK_MAX ids is nanoseconds beside what
// asking costs.
#include "kernel-bridge/cellbook.h"

static void forget_oldest(struct cellbook *b)
{
    struct cellbook_entry *e = &b->entry[b->first];
    b->bytes -= e->frame->n;
    ck_blob_unref(e->frame);
    e->frame = NULL;
    b->first = (b->first + 1) % CELLBOOK_MAX;
    b->n--;
}

void cellbook_add(struct cellbook *b, const char *id, enum cell_status status, struct ck_blob *frame)
{
    while (b->n && (b->n == CELLBOOK_MAX || b->bytes + frame->n > CELLBOOK_BYTES_MAX))
        forget_oldest(b);
    struct cellbook_entry *e = &b->entry[(b->first + b->n++) % CELLBOOK_MAX];
    *e = (struct cellbook_entry){.status = status, .frame = ck_blob_ref(frame)};
    strncpy(e->id, id, sizeof e->id - 1);
    b->bytes += frame->n;
}

// The newest of an id, should a client reuse it; its place in the ring, -1 = not there.
static int place_of(const struct cellbook *b, const char *id)
{
    for (unsigned i = b->n; i-- > 0;)
        if (!strcmp(b->entry[(b->first + i) % CELLBOOK_MAX].id, id))
            return (int)((b->first + i) % CELLBOOK_MAX);
    return -1;
}

const struct cellbook_entry *cellbook_find(const struct cellbook *b, const char *id)
{
    int i = place_of(b, id);
    return i < 0 ? NULL : &b->entry[i];
}

void cellbook_replace(struct cellbook *b, const char *id, struct ck_blob *frame)
{
    int i = frame ? place_of(b, id) : -1;
    if (i < 0) {
        ck_blob_unref(frame);
        return;
    }
    struct cellbook_entry *e = &b->entry[i];
    b->bytes += frame->n;
    b->bytes -= e->frame->n;
    ck_blob_unref(e->frame);
    e->frame = frame;
}

void cellbook_free(struct cellbook *b)
{
    while (b->n)
        forget_oldest(b);
}
