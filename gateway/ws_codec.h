// RFC 6455, server side: frames in, messages and control frames out. Pure: no sockets. Extensions
// are never negotiated, so reserved bits are errors. Text is not checked for UTF-8 (gateway/http.h
// says why).
#pragma once
#include "common/ck_buf.h"

#include <stdint.h>

enum ws_op { WS_CONTINUATION = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

enum ws_code { WS_NORMAL = 1000, WS_PROTOCOL_ERROR = 1002, WS_NO_CODE = 1005, WS_ABNORMAL = 1006, WS_TOO_BIG = 1009,
               WS_RESTART = 4012 };
// WS_RESTART is not the registered 1012 ("service restart"): python3-websocket 1.2.3 (Debian 12; clients
// of jupyter_server's gateway use it) takes that for a broken frame. All known clients come back after it.

#define WS_START_MAX (64 * 1024) // what is kept of a message beyond max_message

struct ws_rx {
    size_t max_message;
    bool keep_start;    // a message beyond it is not an error: its start is handed out, the rest dropped
    bool too_big;       // the open message is one
    struct ck_buf message; // a message, or part of a frame's payload, that spans feeds
    uint8_t head[14];
    uint8_t nhead;
    bool in_payload;
    uint8_t op;         // of the current frame
    bool fin;
    uint8_t message_op; // WS_TEXT or WS_BINARY while a message is open, else 0
    uint64_t left;      // payload bytes of the current frame still to come
    uint32_t pos;       // position in the mask
    uint8_t mask[4];
    uint8_t control[125];
    uint8_t ncontrol;
};

struct ws_event {
    enum ws_op op;        // WS_TEXT, WS_BINARY (a whole message), WS_CLOSE, WS_PING, WS_PONG
    bool too_big;         // of a message beyond max_message: data is its start
    struct ck_slice data; // valid until the next feed or ws_rx_release
};

void ws_rx_init(struct ws_rx *rx, size_t max_message);
void ws_rx_free(struct ws_rx *rx);

// Reads from p[0..n), unmasking in place. Outcomes: 1 = *ev is filled, call again with the rest; 0 =
// all used, more wanted; negative = minus the close code to answer with (WS_PROTOCOL_ERROR,
// WS_TOO_BIG). *used is how far it got.
int ws_rx_feed(struct ws_rx *rx, uint8_t *p, size_t n, size_t *used, struct ws_event *ev);

// Frees the message that was handed out last, so that an idle connection keeps no memory for it.
void ws_rx_release(struct ws_rx *rx);

// The close code of a close frame's payload: WS_NO_CODE when empty, WS_PROTOCOL_ERROR when invalid.
int ws_close_code(struct ck_slice payload);

// Head of an unmasked server frame; returns its length (2, 4 or 10).
size_t ws_frame_head(uint8_t out[10], bool fin, enum ws_op op, uint64_t len);

// Sec-WebSocket-Accept of a 24-character key: 28 characters and NUL. -1 when the key is not base64
// of 16 bytes.
int ws_accept_key(const char *key, char out[29]);
