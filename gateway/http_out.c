// Output queue: a list of pieces. Small writes share a piece, so that an event stream of short lines
// does not become one allocation a line.
#include "gateway/http_out.h"

#include <stdlib.h>

#define SMALL 2048
#define WORTH_A_POINTER (16 * 1024) // pieces from here on go to the socket without being gathered

struct out_chunk {
    struct out_chunk *next;
    struct ck_blob *blob; // a reference, or NULL
    uint8_t *owned;       // memory of a ck_buf, or NULL
    const uint8_t *p;
    size_t n;             // bytes left
    size_t room;          // free bytes after p + n (only in a small piece)
    uint8_t small[];
};

static struct out_chunk *append(struct out_queue *q, size_t room)
{
    struct out_chunk *c = calloc(1, sizeof *c + room);
    if (!c)
        return NULL;
    if (q->tail)
        q->tail->next = c;
    else
        q->head = c;
    q->tail = c;
    return c;
}

int out_copy(struct out_queue *q, const void *p, size_t n)
{
    if (!n)
        return 0;
    struct out_chunk *c = q->tail;
    if (!c || c->room < n) {
        size_t room = n < SMALL ? SMALL : n;
        c = append(q, room);
        if (!c)
            return -1;
        c->p = c->small;
        c->room = room;
    }
    memcpy((uint8_t *)(uintptr_t)c->p + c->n, p, n);
    c->n += n;
    c->room -= n;
    q->bytes += n;
    return 0;
}

int out_blob(struct out_queue *q, struct ck_blob *b, size_t off, size_t n)
{
    if (!n)
        return 0;
    struct out_chunk *c = append(q, 0);
    if (!c)
        return -1;
    c->blob = ck_blob_ref(b);
    c->p = b->p + off;
    c->n = n;
    q->bytes += n;
    return 0;
}

int out_buf(struct out_queue *q, struct ck_buf *b)
{
    if (!b->n)
        return 0;
    struct out_chunk *c = append(q, 0);
    if (!c)
        return -1;
    c->owned = b->p;
    c->p = b->p;
    c->n = b->n;
    q->bytes += b->n;
    *b = (struct ck_buf){NULL, 0, 0, b->cap};
    return 0;
}

struct ck_slice out_peek(const struct out_queue *q, uint8_t *scratch, size_t max)
{
    const struct out_chunk *c = q->head;
    if (!c)
        return ck_slice(scratch, 0);
    if (!c->next || c->n >= WORTH_A_POINTER)
        return ck_slice(c->p, c->n < max ? c->n : max);
    size_t n = 0;
    for (; c && n < max; c = c->next) {
        size_t take = c->n < max - n ? c->n : max - n;
        memcpy(scratch + n, c->p, take);
        n += take;
    }
    return ck_slice(scratch, n);
}

static void drop_head(struct out_queue *q)
{
    struct out_chunk *c = q->head;
    q->head = c->next;
    if (!q->head)
        q->tail = NULL;
    ck_blob_unref(c->blob);
    free(c->owned);
    free(c);
}

void out_consume(struct out_queue *q, size_t n)
{
    q->bytes -= n;
    q->consumed += n;
    while (n) {
        struct out_chunk *c = q->head;
        size_t take = c->n < n ? c->n : n;
        c->p += take;
        c->n -= take;
        n -= take;
        if (!c->n)
            drop_head(q);
    }
}

void out_clear(struct out_queue *q)
{
    while (q->head)
        drop_head(q);
    q->bytes = 0;
}
