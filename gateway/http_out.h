// The output queue of one connection: bytes that wait for the socket, in order, either copied or
// held in shared blobs. No sockets here. It only counts; caps are the caller's.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_frame.h"

struct out_chunk;

struct out_queue {
    struct out_chunk *head, *tail;
    size_t bytes;      // waiting
    uint64_t consumed; // taken from the front so far
};

int out_copy(struct out_queue *q, const void *p, size_t n); // -1 = out of memory
int out_blob(struct out_queue *q, struct ck_blob *b, size_t off, size_t n); // takes a reference of its own
int out_buf(struct out_queue *q, struct ck_buf *b); // takes the memory, leaves b empty

// The next at most max bytes: a pointer into the queue when one piece is long enough, else small
// pieces gathered in scratch (max bytes). 0 bytes when the queue is empty.
struct ck_slice out_peek(const struct out_queue *q, uint8_t *scratch, size_t max);
void out_consume(struct out_queue *q, size_t n);
void out_clear(struct out_queue *q);
