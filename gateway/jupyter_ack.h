// Which event of the session has reached the client: maps a place in the WebSocket's output back to a
// sequence number. Pure; the caller asks the socket for the places.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define JUP_ACK_MARKS 64

struct jup_ack {
    struct {
        uint64_t seq;
        uint64_t end; // place in the output after the event's last byte
    } mark[JUP_ACK_MARKS]; // a ring, oldest at `first`
    unsigned first, n;
    uint64_t acked; // last seq returned by jup_ack_reached
};

// Everything up to this event was given to the socket, whose output now ends at `end`. Neither number
// ever goes back. asked: the place that the client was last asked about, 0 = none. When the ring is full, acks
// for other places than that get coarser, never early.
void jup_ack_given(struct jup_ack *a, uint64_t seq, uint64_t end, uint64_t asked);
// The client has the output up to `place`. Returns the newest seq that is there completely and was
// not returned before, or 0.
uint64_t jup_ack_reached(struct jup_ack *a, uint64_t place);
// The newest seq that lies wholly before `place`, at least `acked`. Changes nothing.
uint64_t jup_ack_at(const struct jup_ack *a, uint64_t place);
static inline bool jup_ack_pending(const struct jup_ack *a) { return a->n > 0; }
