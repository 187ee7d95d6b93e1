// Questions on their way to a WebSocket client, oldest first. It must never take an answer for a place that
// was not asked for: a client could say that it has what was not sent yet.
#include "gateway/ws_asks.h"

bool ws_asks_may(const struct ws_asks *a, int64_t now_ms)
{
    return !a->n || (a->n < WS_ASKS_MAX && now_ms - a->ms[a->first] < WS_ASKS_MS);
}

void ws_asks_add(struct ws_asks *a, uint64_t place, int64_t now_ms)
{
    unsigned at = (a->first + a->n++) % WS_ASKS_MAX;
    a->place[at] = place;
    a->ms[at] = now_ms;
    a->last = place;
}

bool ws_asks_answer(struct ws_asks *a, uint64_t place)
{
    for (unsigned i = 0; i < a->n; i++) {
        if (a->place[(a->first + i) % WS_ASKS_MAX] != place)
            continue;
        a->first = (a->first + i + 1) % WS_ASKS_MAX;
        a->n -= i + 1;
        return true;
    }
    return false;
}

uint64_t ws_asks_oldest(const struct ws_asks *a) { return a->n ? a->place[a->first] : 0; }

uint64_t ws_asks_second(const struct ws_asks *a)
{
    return a->n > 1 ? a->place[(a->first + 1) % WS_ASKS_MAX] : UINT64_MAX;
}
