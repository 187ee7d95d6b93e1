// Messages that the gateway itself tells a Jupyter client: the kernel died or restarts, output was
// dropped, a request was refused. They look like the kernel's own (a client drops queued messages
// when header.session changes), so the caller passes the kernel's session when it knows it.
// Pure but for the clock and the random ids.
#pragma once
#include "gateway/jupyter_wire.h"

struct jup_synth {
    struct ck_buf header, content; // owned
    struct jup_out out;            // borrows the two above and the caller's parent header
};
#define JUP_SYNTH_INIT {CK_BUF_INIT, CK_BUF_INIT, {0}}

void jup_synth_free(struct jup_synth *s);
static inline void jup_clean_synth_(struct jup_synth *s) { jup_synth_free(s); }
#define JUP_CLEAN_SYNTH __attribute__((cleanup(jup_clean_synth_)))

// parent: a header as JSON, or empty. session: the kernel's, or "" for one of our own. -1 = no memory.
int jup_synth_status(struct jup_synth *s, const char *session, struct ck_slice parent, const char *state);
int jup_synth_stderr(struct jup_synth *s, const char *session, struct ck_slice parent, const char *text);

// "N messages (B bytes) ..." as a stderr stream.
int jup_synth_gap(struct jup_synth *s, const char *session, struct ck_slice parent, uint64_t count, uint64_t bytes);

// The reply to a request that was refused: "execute_request" gets an execute_reply with status error.
// An error for people to see is the iopub message jup_synth_error. 1 = that message type has no reply.
int jup_synth_reply(struct jup_synth *s, const char *session, struct ck_slice parent, const struct jup_head *request,
                    enum jup_channel ch, const char *ename, const char *evalue);
int jup_synth_error(struct jup_synth *s, const char *session, struct ck_slice parent, const char *ename,
                    const char *evalue);
