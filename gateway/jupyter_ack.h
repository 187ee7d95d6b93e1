// Which event of the session has reached the client: maps "bytes of the WebSocket still unsent" back
// to "sequence number delivered". Pure; the caller reads the queue length and the clock.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JUP_ACK_MARKS 256

struct jup_ack {
    struct {
        uint64_t seq;
        uint64_t end; // bytes given to the socket in all, once this event's frame was queued
    } mark[JUP_ACK_MARKS]; // a ring, oldest at `first`
    unsigned first, n;
    uint64_t given;    // bytes queued in all
    uint64_t acked;    // last seq returned by jup_ack_reached
};

// An event was queued as `bytes` of payload (0 for one that the client does not get). Seqs only grow.
// When the ring is full the newest marks are merged: acks become coarser, never early.
void jup_ack_queued(struct jup_ack *a, uint64_t seq, size_t bytes);
// Bytes that belong to no event (answers of our own).
void jup_ack_other(struct jup_ack *a, size_t bytes);
// `unsent` bytes still wait. Returns the newest seq that is out completely and was not returned
// before, or 0.
uint64_t jup_ack_reached(struct jup_ack *a, size_t unsent);
static inline bool jup_ack_pending(const struct jup_ack *a) { return a->n > 0; }
