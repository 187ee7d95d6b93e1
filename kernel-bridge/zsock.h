// A ZeroMQ socket on a libuv loop. One thread. Whole multipart messages in, whole ones out; nothing
// ever blocks. A turn handles a bounded number of messages and bytes, then lets others run.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <uv.h>

#define ZS_TURN_MESSAGES 64
#define ZS_TURN_BYTES (4u * 1024 * 1024)
#define ZS_MESSAGE_MAX (256LL * 1024 * 1024) // one part; a peer that sends more is cut off by libzmq

struct zs;

// parts are valid during the call. truncated: there were more parts than max_parts, these are the
// first ones. The socket may be closed from inside it.
typedef void (*zs_message_cb)(void *user, const struct ck_slice *parts, size_t nparts, bool truncated);

struct zs_opts {
    uv_loop_t *loop;
    void *zctx;
    int type;             // ZMQ_DEALER or ZMQ_SUB (subscribed to everything)
    const char *identity; // routing id; NULL = none
    const char *topic;    // ZMQ_SUB: is subscribed to as well, after everything; NULL = none
    uint16_t port;        // connects to tcp 127.0.0.1
    size_t max_parts;
    int receive_hwm, send_hwm; // messages
    zs_message_cb on_message;
    void *user;
};

struct zs *zs_open(const struct zs_opts *o, struct ck_err *err); // NULL with err
void zs_drain(struct zs *z); // delivers what is there now, within bounds; not from its own on_message
// Bytes that have come over the connection of the last message, those of a message that is still on
// its way included; 0 = unknown. It begins anew with each connection.
uint64_t zs_received(const struct zs *z);
void zs_close(struct zs *z); // no callback after this; what was not sent is lost; NULL is fine

// Copies. 0 = handed over, -1 = the queue is full (503 "kernel_busy") or the socket broken.
int zs_send(struct zs *z, const struct ck_slice *parts, size_t nparts, struct ck_err *err);
