// Client of the bridge protocol (docs/PROTOCOL.md section 1) over the unix socket of one bridge.
// Loop thread only. A link is one connection: open one for each client you serve, close it with the
// client. Flow control goes end to end: pause a link while your client's queue is over its mark, and
// the bridge stops encoding for it.
#pragma once
#include "common/ck_error.h"
#include "common/ck_frame.h"

#include <jansson.h>
#include <uv.h>

struct bridge_link;

struct bridge_link_events {
    void (*on_open)(struct bridge_link *l, void *user); // optional; operations may be sent before it
    // One frame. header is its part 0, parsed; parts by ck_frame_part(frame, 1…). Both valid during
    // the call. Not called while paused.
    void (*on_frame)(struct bridge_link *l, void *user, const json_t *header, const struct ck_frame *frame);
    void (*on_drain)(struct bridge_link *l, void *user); // optional: send queue below its mark again
    // The link broke or the bridge closed it (err: 503 "bridge_gone", 502 "bad_frame"), or the bridge
    // neither answers nor takes anything (504 "bridge_timeout": its process hangs). Exactly once, never after bridge_link_close(); l is gone when it returns.
    void (*on_close)(struct bridge_link *l, void *user, const struct ck_err *err);
};

#define BRIDGE_LINK_HIGH_WATER (1024 * 1024)
#define BRIDGE_LINK_QUEUE_MAX (256u * 1024 * 1024)

// Begins to connect (deadline 5 s). NULL with err when the path does not fit or memory is out; every
// later failure arrives through on_close, never from inside this call.
struct bridge_link *bridge_link_open(uv_loop_t *loop, const char *socket_path,
                                     const struct bridge_link_events *ev, void *user, struct ck_err *err);
// A link that is not connected yet: operations wait in it until bridge_link_begin() connects it, or
// bridge_link_fail() ends it through on_close. Neither may be called from inside bridge_link_hold().
struct bridge_link *bridge_link_hold(uv_loop_t *loop, const struct bridge_link_events *ev, void *user, struct ck_err *err);
void bridge_link_begin(struct bridge_link *l, const char *socket_path);
void bridge_link_fail(struct bridge_link *l, const struct ck_err *err);
// Called once when the link is over, whoever ended it, before on_close.
void bridge_link_on_end(struct bridge_link *l, void (*ended)(void *owner), void *owner);
void *bridge_link_owner(const struct bridge_link *l); // of bridge_link_on_end()
// No callback after this. NULL is fine. May be called from any callback of the link.
void bridge_link_close(struct bridge_link *l);
// After an operation was sent, a bridge that stays silent is asked whether it still lives; one that is
// asked to be watched is also asked while its owner waits for events. A paused link is not watched.
void bridge_link_watch(struct bridge_link *l, bool on);
void bridge_link_patient(struct bridge_link *l); // never asked: what it waits for keeps the bridge from answering
// Hands an open link to another owner, from any callback: what arrives from now on is told to it. Answers
// to the owner before may be among it, under numbers (rid) that are not given out again.
void bridge_link_rebind(struct bridge_link *l, const struct bridge_link_events *ev, void *user);
bool bridge_link_idle(const struct bridge_link *l); // open, read, and nothing waits to be sent

// Sends one operation; takes the reference of header. When header has no "rid" and `rid` is not
// NULL, a fresh one is put in and stored there. 0 = queued, 1 = queued but over the high-water mark
// (stop until on_drain), negative = refused (too large, out of memory), header is released all the same.
int bridge_link_op(struct bridge_link *l, json_t *header, const struct ck_slice *parts, uint32_t nparts, int64_t *rid);
int bridge_link_send(struct bridge_link *l, struct ck_blob *frame); // an encoded frame; takes the reference
size_t bridge_link_queued(const struct bridge_link *l);
void bridge_link_pause(struct bridge_link *l);
void bridge_link_resume(struct bridge_link *l); // may deliver frames that were read already, from the loop

// The error of a response {"re","error":{status,reason,message}} as ck_err. True when there is one.
bool bridge_error(const json_t *header, struct ck_err *out);

// One request, one response: connect, send op, wait for its "re", close. done is called exactly once,
// from the loop, unless the call was cancelled: with err NULL and the response, or with err filled
// (the response's own error, or the link's). timeout_ms > 0 bounds all of it (504).
struct bridge_call;
typedef void (*bridge_call_done)(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err);
struct bridge_call *bridge_call(uv_loop_t *loop, const char *socket_path, json_t *op, const struct ck_slice *parts,
                                uint32_t nparts, int timeout_ms, bridge_call_done done, void *user);
// The same on a link of its own that `open` makes (it may be one that waits); timeout_ms counts from
// when the link is connected.
typedef struct bridge_link *(*bridge_open_fn)(void *context, const struct bridge_link_events *ev, void *user, struct ck_err *err);
struct bridge_call *bridge_call_over(uv_loop_t *loop, bridge_open_fn open, void *context, json_t *op,
                                     const struct ck_slice *parts, uint32_t nparts, int timeout_ms, bridge_call_done done,
                                     void *user);
void bridge_call_patient(struct bridge_call *c); // its link is (right after the call, from where it was made)
void bridge_call_cancel(struct bridge_call *c); // done will not be called; NULL is fine
