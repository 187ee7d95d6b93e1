// Any bytes from a WebSocket client: in one piece and byte by byte must give the same messages and
// the same end.
#include "gateway/ws_codec.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MESSAGE 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int64_t rc, events;
    uint64_t sum;
};

static struct result feed(const uint8_t *data, size_t size, size_t step, bool keep_start)
{
    struct ws_rx rx;
    struct result r = {0, 0, 5381};
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    ws_rx_init(&rx, MAX_MESSAGE);
    rx.keep_start = keep_start;
    for (size_t at = 0; at < size && r.rc >= 0;) {
        struct ws_event ev;
        size_t take = size - at < step ? size - at : step, used = 0;
        r.rc = ws_rx_feed(&rx, copy + at, take, &used, &ev);
        if (used > take || (!used && !r.rc))
            abort();
        at += used;
        if (r.rc != 1)
            continue;
        r.events++;
        r.sum = r.sum * 33 + ev.op;
        for (size_t i = 0; i < ev.data.n; i++)
            r.sum = r.sum * 33 + ev.data.p[i];
        if (ev.op == WS_CLOSE)
            ws_close_code(ev.data);
        if (!keep_start && ev.data.n > MAX_MESSAGE)
            abort();
        ws_rx_release(&rx);
    }
    if (r.rc == 1)
        r.rc = 0;
    ws_rx_free(&rx);
    free(copy);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result whole = feed(data, size, size + 1, false), bytes = feed(data, size, 1, false);
    if (memcmp(&whole, &bytes, sizeof whole))
        abort();
    feed(data, size, 7, true);
    return 0;
}
