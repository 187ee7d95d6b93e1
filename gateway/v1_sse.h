// Server-sent events (WHATWG HTML section 9.2), the encoding and what a client says on its return. Pure.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#define V1_SSE_KEEPALIVE ": keep-alive\n\n"
#define V1_SSE_KEEPALIVE_MS 15000

// Appends one event. seq 0 = no id line. data is JSON: its line breaks can only be white space
// between values, and become spaces so that the event stays one line.
int v1_sse_event(uint64_t seq, const char *event, struct ck_slice data, struct ck_buf *out);

// The same in three steps, for data that is put together in place.
int v1_sse_begin(uint64_t seq, const char *event, struct ck_buf *out);
void v1_sse_flatten(struct ck_buf *out, size_t from); // line breaks after offset `from` become spaces
int v1_sse_end(struct ck_buf *out);

// Where a reader wants to go on: Last-Event-ID is the last event it has, ?from= the first it wants;
// the header wins (an EventSource sends it by itself on a reconnect). Both may be NULL: 0, the
// oldest kept. 400 "bad_field" when neither a number nor "now" (outcome 1: from now on).
int v1_sse_position(const char *last_event_id, const char *from, uint64_t *seq, struct ck_err *err);
