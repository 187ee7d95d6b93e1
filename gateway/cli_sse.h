// Reader of the server-sent events of our own gateway. Pure: bytes in, events out.
#pragma once
#include "common/ck_buf.h"

#define CLI_SSE_EVENT_MAX (512u * 1024 * 1024) // a finished cell with large pictures, and room

// event and data are valid during the call only; data is NUL-terminated; id is 0 when it has none or
// is no number. Not 0 = stop feeding.
typedef int (*cli_sse_fn)(void *ctx, const char *event, uint64_t id, const char *data, size_t n);

struct cli_sse {
    struct ck_buf line; // the unfinished line
    struct ck_buf data;
    char event[32];
    uint64_t id; // of the event in the making
    cli_sse_fn fn;
    void *ctx;
};

void cli_sse_init(struct cli_sse *s, cli_sse_fn fn, void *ctx);
void cli_sse_reset(struct cli_sse *s); // forgets an unfinished event: a new connection
void cli_sse_free(struct cli_sse *s);
// 0, -1 when an event is over the cap or memory ran out, or what fn returned.
int cli_sse_feed(struct cli_sse *s, const void *p, size_t n);
