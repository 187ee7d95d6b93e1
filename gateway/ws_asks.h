// The questions ("do you have everything up to this place?", sent as pings) that a WebSocket client has not
// answered yet. Pure; places only grow.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define WS_ASKS_MAX 16
#define WS_ASKS_MS 250 // a client that has not answered for so long is asked nothing more

struct ws_asks {
    uint64_t place[WS_ASKS_MAX]; // a ring, oldest at `first`
    int64_t ms[WS_ASKS_MAX];     // when it was asked
    unsigned first, n;
    uint64_t last; // the place of the newest, answered or not
};

bool ws_asks_may(const struct ws_asks *a, int64_t now_ms); // another one may be asked
void ws_asks_add(struct ws_asks *a, uint64_t place, int64_t now_ms);
// The client named this place. False: it was not asked for it, or has answered. Questions before it count as
// answered, too.
bool ws_asks_answer(struct ws_asks *a, uint64_t place);
uint64_t ws_asks_oldest(const struct ws_asks *a); // 0 = none
// Up to here a client has read all that was sent before it answers a second time: by then it knows that a
// connection is broken, and many throw away what they have not read. UINT64_MAX = no second question.
uint64_t ws_asks_second(const struct ws_asks *a);
