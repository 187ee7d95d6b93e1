// Events of a session's log as clients of /v1 see them: one JSON object each. Pure.
#pragma once
#include "common/ck_frame.h"

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
    uint64_t gap_from, gap_to; // V1_EVENT_GAP
    char cell[64];            // "" when the event belongs to no cell
    struct ck_slice finished; // V1_EVENT_DONE: borrowed from the frame
};

// Reads an event frame. 0, or -1 when the frame is none of the bridge protocol's.
int v1_event_read(const struct ck_frame *f, struct v1_event *out, struct ck_err *err);

// Appends the event as one JSON object: {"seq":17,"type":"stream","t":...,"cell":"...","content":{...}}.
// Content made by the kernel is copied as it is (the bridge has verified that it is JSON), under a
// key of its own, so that it cannot override ours.
int v1_event_json(const struct ck_frame *f, const struct v1_event *ev, struct ck_buf *out);
