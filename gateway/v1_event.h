// Events of a session's log as clients of /v1 see them: one JSON object each. Pure.
#pragma once
#include "common/ck_frame.h"

#include <jansson.h>
#include <stdbool.h>

enum v1_event_kind {
    V1_EVENT_PLAIN, // pass on
    V1_EVENT_INPUT, // a cell waits for input()
    V1_EVENT_DONE,  // a cell ended; `finished` is its JSON
    V1_EVENT_GAP,   // the log dropped events
    V1_EVENT_SKIP,  // nothing for /v1 clients (shell replies, comm chatter of other doors)
};

struct v1_event {
    enum v1_event_kind kind;
    const char *type;         // static: stream, display, update_display, result, error, ...
    uint64_t seq;             // 0 when it has none
    uint64_t gap_from, gap_to, gap_bytes; // V1_EVENT_GAP
    char cell[64];            // "" when the event belongs to no cell
    struct ck_slice finished; // V1_EVENT_DONE: borrowed from the frame
};

// Reads an event frame; h is its header. 0, or -1 when it is no event (no "ev").
int v1_event_read(const json_t *h, const struct ck_frame *f, struct v1_event *out);

// Appends the event as one JSON object: {"seq":17,"type":"stream","t":...,"cell":"...","content":{...}}.
// Content made by the kernel is copied as it is (the bridge has verified that it is JSON), under a
// key of its own, so that it cannot override ours. Line breaks, which can only be white space
// between its values, become spaces: one event stays one line, whatever door it leaves by.
int v1_event_json(const json_t *h, const struct ck_frame *f, const struct v1_event *ev, struct ck_buf *out);

// The same replacement in what out holds after offset `from`.
void v1_flatten(struct ck_buf *out, size_t from);

// Where a reader wants to go on: Last-Event-ID is the last event it has, ?from= the first it wants;
// the header wins (an EventSource sends it by itself on a reconnect). Both may be NULL: 0, the
// oldest kept. Outcome 1: "now". 400 "bad_field" when neither a number nor "now".
int v1_event_position(const char *last_event_id, const char *from, uint64_t *seq, struct ck_err *err);
