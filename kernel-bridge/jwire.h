// The Jupyter message model and its ZeroMQ multipart form:
//   identities… , "<IDS|MSG>", hex HMAC-SHA256, header, parent_header, metadata, content, buffers…
// Pure. Slices are borrowed from the parts that were parsed; nothing here knows a socket.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#define JW_PARTS_MAX 1000          // of one multipart message, identities included
#define JW_IDENTS_MAX 8
#define JW_BUFFERS_MAX (JW_PARTS_MAX - 6)
#define JW_HEADER_MAX (64 * 1024)  // header and parent_header, each
#define JW_ID_MAX 200              // msg_id, session; longer ones count as absent
#define JW_TYPE_MAX 64
#define JW_SIG_HEX 65

enum jw_channel { JW_SHELL, JW_CONTROL, JW_STDIN, JW_IOPUB, JW_CHANNELS };
extern const char *const jw_channel_names[JW_CHANNELS];
bool jw_channel_from_name(const char *name, enum jw_channel *out);

struct jw_msg {
    struct ck_slice part[4]; // header, parent_header, metadata, content: JSON text
    const struct ck_slice *buffers;
    uint32_t nbuffers;
    uint64_t bytes; // of everything, identities too
    uint64_t left_out; // bytes that jw_check left out, because they were nested too deeply
};
enum { JW_HEADER, JW_PARENT, JW_METADATA, JW_CONTENT };

// What the bridge reads of a header. Empty strings for what is absent or over-long.
struct jw_head {
    char msg_id[JW_ID_MAX], session[JW_ID_MAX], type[JW_TYPE_MAX];
};

// Splits and checks the signature (an empty key means unsigned, as Jupyter has it). Says nothing yet
// about JSON: see jw_check. -1 with err: malformed or wrongly signed ("bad_message", "bad_signature").
int jw_parse(const struct ck_slice *parts, size_t nparts, struct ck_slice key, struct jw_msg *out, struct ck_err *err);

// Makes the four JSON parts safe to pass on: each must be one JSON object; invalid UTF-8 and lone
// surrogates become U+FFFD, what is nested deeper than CK_JSON_DEPTH_MAX a text that says so. Repaired
// parts live in scratch (4 buffers the caller frees). -1: not JSON.
int jw_check(struct jw_msg *m, struct ck_buf scratch[4], struct ck_err *err);

// Reads a header or parent header that passed ck_json_valid.
void jw_read_head(struct ck_slice header, struct jw_head *out);

// out: JW_SIG_HEX bytes; empty string for an empty key.
int jw_sign(struct ck_slice key, const struct ck_slice part[4], char *out);

// Appends a header object with the time given (microseconds since the epoch).
int jw_make_header(struct ck_buf *out, const char *msg_id, const char *session, const char *type, int64_t wall_us);
