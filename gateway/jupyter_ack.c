// Delivery accounting of one Jupyter socket. It must never report an event as delivered while a byte
// of it, or of an earlier one, may still be on the way: a late ack repeats a message, an early one
// loses it.
#include "gateway/jupyter_ack.h"

void jup_ack_given(struct jup_ack *a, uint64_t seq, uint64_t end, uint64_t asked)
{
    unsigned last = (a->first + a->n - 1) % JUP_ACK_MARKS;
    bool full = a->n == JUP_ACK_MARKS;
    if (a->n && (a->mark[last].end == end || (full && a->mark[last].end > asked))) {
        a->mark[last].seq = seq; // nothing came between, or nobody will ask for what was there
        a->mark[last].end = end;
        return;
    }
    if (full)
        a->first = (a->first + 1) % JUP_ACK_MARKS;
    else
        a->n++;
    last = (a->first + a->n - 1) % JUP_ACK_MARKS;
    a->mark[last].seq = seq;
    a->mark[last].end = end;
}

uint64_t jup_ack_reached(struct jup_ack *a, uint64_t place)
{
    uint64_t seq = 0;
    while (a->n && a->mark[a->first].end <= place) {
        seq = a->mark[a->first].seq;
        a->first = (a->first + 1) % JUP_ACK_MARKS;
        a->n--;
    }
    if (seq <= a->acked)
        return 0;
    a->acked = seq;
    return seq;
}

uint64_t jup_ack_at(const struct jup_ack *a, uint64_t place)
{
    uint64_t seq = a->acked;
    for (unsigned i = a->n; i > 0; i--) {
        unsigned at = (a->first + i - 1) % JUP_ACK_MARKS;
        if (a->mark[at].end <= place)
            return a->mark[at].seq > seq ? a->mark[at].seq : seq;
    }
    return seq;
}
