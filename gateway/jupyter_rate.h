// The iopub rate limit that Jupyter servers have, for one socket: messages a second and bytes of
// `stream` messages a second, each as a mean over a sliding window. Pure; time is passed in.
//
// As there: status, comm_open and execute_input never count and always pass; what is over a limit is
// dropped, which is told once; it goes on below 80 % of the limit, and a kernel that falls idle starts
// afresh. Off by default: our streams are bounded anyhow.
#pragma once
#include "common/ck_buf.h"

#include <stdint.h>

struct jup_rate_limits {
    int msgs;         // a second; 0 = no limit
    int bytes;        // a second; 0 = no limit
    int64_t window_ms; // > 0
};
static inline bool jup_rate_on(const struct jup_rate_limits *l) { return l->msgs || l->bytes; }

#define JUP_RATE_STEPS 64 // the window moves in so many steps, so that its memory is bounded

struct jup_rate {
    struct {
        uint64_t msgs, bytes;
    } step[JUP_RATE_STEPS];
    int64_t newest; // number of the newest step since time 0
    uint64_t msgs, bytes; // in the window
    bool msgs_exceeded, bytes_exceeded;
};

enum jup_rate_verdict {
    JUP_RATE_PASS,
    JUP_RATE_DROP,
    JUP_RATE_TELL_MSGS,  // drop, and tell that the message rate was exceeded
    JUP_RATE_TELL_BYTES, // drop, and tell that the data rate was exceeded
};

// One iopub message: its type, its content, the size of its parts together.
enum jup_rate_verdict jup_rate_take(struct jup_rate *r, const struct jup_rate_limits *l, int64_t now_ms, const char *type,
                                    struct ck_slice content, uint64_t bytes);

// What the client is told, NUL-terminated. verdict: one of the two TELLs.
void jup_rate_text(char *out, size_t room, enum jup_rate_verdict verdict, const struct jup_rate_limits *l);
