// The two WebSocket dialects of the Jupyter protocol, both ways, as pure functions over bytes.
//
// v1 (subprotocol v1.kernel.websocket.jupyter.org): a binary frame
//     u64 n | n x u64 offset | channel, header, parent, metadata, content, buffers...   little-endian
// legacy (no subprotocol): a text frame with one JSON object, or, when there are buffers, a frame
//     u32 n | n x u32 offset | JSON, buffers...                                        big-endian
//
// Decoding borrows from the input and builds nothing; it is tolerant where clients in the field
// differ (missing date, buffers, channel, parent) and strict about everything that would be passed
// on: each JSON part must be an object, and the header must name the message, its type and session.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "common/ck_frame.h"

#define JUP_SUBPROTOCOL "v1.kernel.websocket.jupyter.org"
// A message becomes one frame of the bridge protocol, whose part 0 is the header of that frame.
#define JUP_PARTS_MAX (CK_FRAME_PARTS_MAX - 1)
#define JUP_ID_MAX 256

enum jup_dialect { JUP_LEGACY, JUP_V1 };
enum jup_channel { JUP_SHELL, JUP_CONTROL, JUP_STDIN, JUP_IOPUB, JUP_CHANNELS, JUP_CHANNEL_NONE = JUP_CHANNELS };

const char *jup_channel_name(enum jup_channel ch);         // "shell", ...; "" for JUP_CHANNEL_NONE
enum jup_channel jup_channel_of(struct ck_slice name);     // JUP_CHANNEL_NONE when unknown

// What stands in the header of a message, without its quotes.
struct jup_head {
    char msg_id[JUP_ID_MAX];
    char msg_type[JUP_ID_MAX];
    char session[JUP_ID_MAX];
};

struct jup_in {
    enum jup_channel channel;
    struct jup_head head;
    struct ck_slice part[JUP_PARTS_MAX]; // header, parent_header, metadata, content, buffers...; borrowed
    uint32_t nparts;
};

// Decodes one frame of a client. 0 = a message; -1 = malformed, or on a channel that no client may
// write or that we do not know: err says how ("bad_message", 400); head and part[0] are filled when the
// header could be read (head.msg_id is not ""). The frame must stay as it is while *out is used. binary: the frame came as a binary one. Some front-ends forward
// binary frames as text, so what a text frame really is shows in its first byte.
int jup_decode(enum jup_dialect dialect, bool binary, struct ck_slice frame, struct jup_in *out, struct ck_err *err);

// The head of a message that cannot be decoded as a whole: only its first bytes were kept (it was too
// large), or it is malformed further on. False when not even its msg_id can be read; type and session
// may be "".
bool jup_peek(enum jup_dialect dialect, bool binary, struct ck_slice start, enum jup_channel *ch,
              struct jup_head *head, struct ck_slice *header);

// Reads msg_id, msg_type and session; -1 when one is absent, empty or too long to be sane.
int jup_head_of(struct ck_slice header, struct jup_head *out, struct ck_err *err);

// A message for a client: four JSON texts that are already known to be JSON, and buffers. Borrowed.
struct jup_out {
    enum jup_channel channel;
    struct ck_slice part[4];
    const struct ck_slice *buffers;
    uint32_t nbuffers;
};

// The frame as one blob of exactly its size, by splicing the parts: nothing is parsed but the header's
// first level (legacy repeats msg_id and msg_type on top). *text says which kind of frame it is.
// NULL = out of memory or beyond the dialect's numbers. The caller owns the reference.
struct ck_blob *jup_encode(enum jup_dialect dialect, const struct jup_out *msg, bool *text);
