// Delivery accounting of one Jupyter socket. It must never report an event as delivered while a byte
// of it, or of an earlier one, may still be in our queue: a lost ack repeats a message, an early one
// loses it.
#include "gateway/jupyter_ack.h"

void jup_ack_other(struct jup_ack *a, size_t bytes) { a->given += bytes; }

void jup_ack_queued(struct jup_ack *a, uint64_t seq, size_t bytes)
{
    a->given += bytes;
    if (a->n < JUP_ACK_MARKS)
        a->n++;
    unsigned last = (a->first + a->n - 1) % JUP_ACK_MARKS;
    a->mark[last].seq = seq;
    a->mark[last].end = a->given;
}

uint64_t jup_ack_reached(struct jup_ack *a, size_t unsent)
{
    uint64_t out = unsent < a->given ? a->given - unsent : 0, seq = 0;
    while (a->n && a->mark[a->first].end <= out) {
        seq = a->mark[a->first].seq;
        a->first = (a->first + 1) % JUP_ACK_MARKS;
        a->n--;
    }
    if (seq <= a->acked)
        return 0;
    a->acked = seq;
    return seq;
}
