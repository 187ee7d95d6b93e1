// Client of one kernel: shell, control, stdin and iopub over ZeroMQ, signed with its key. Knows
// nothing of cells. One thread.
#pragma once
#include "kernel-bridge/jwire.h"
#include "kernel-bridge/zsock.h"

#define KC_KEY_MAX 129
#define KC_BAD_MAX 1000 // malformed or wrongly signed messages until the kernel counts as hostile
#define KC_CALLS_MAX 64
#define KC_IDENTITY_MAX 33

struct kc;

struct kc_message {
    enum jw_channel channel;
    struct jw_msg msg;
    struct jw_head head, parent;
};

struct kc_opts {
    uv_loop_t *loop;
    void *zctx;
    const uint16_t *port; // shell, iopub, stdin, control
    const char *key;
    const char *session;  // the bridge's own header.session
    const char *identity; // routing id: a kernel with a past answers to the one that asked; NULL = a new one
    const char *topic;    // subscribed to beside everything, so that the kernel sees who listens; NULL = none
    uint64_t message_max; // bytes; larger messages arrive through on_oversize
    // A verified message: signature good, four JSON objects in valid UTF-8. Answers to kc_call come
    // here too, after their callback.
    void (*on_message)(void *user, const struct kc_message *m);
    // Its header and parent_header are JSON objects; content must not be looked at.
    void (*on_oversize)(void *user, const struct kc_message *m);
    void (*on_hostile)(void *user); // KC_BAD_MAX reached; once
    void *user;
};

struct kc *kc_open(const struct kc_opts *o, struct ck_err *err);
void kc_close(struct kc *k); // pending calls end with 503 kernel_gone; NULL is fine
void kc_set_key(struct kc *k, const char *key); // messages still signed with the one before are dropped silently
void kc_drain(struct kc *k); // handles what has been received already; NULL is fine. Not from a callback of its own
uint64_t kc_received(const struct kc *k); // bytes of iopub and shell so far, see zs_received; NULL: 0
void kc_set_message_max(struct kc *k, uint64_t bytes);
uint64_t kc_bad(const struct kc *k);
unsigned kc_pending(const struct kc *k);     // calls without an answer
const char *kc_key(const struct kc *k);      // a secret
const char *kc_identity(const struct kc *k);

// Signs and sends a message whose four JSON parts are given. -1 with err: 503. This and the two below
// take NULL for a kernel that is gone ("kernel_gone").
int kc_send(struct kc *k, enum jw_channel ch, const struct ck_slice part[4], const struct ck_slice *buffers,
            uint32_t nbuffers, struct ck_err *err);
// Sends a request of the bridge's own; msg_id NULL = a fresh one.
int kc_request(struct kc *k, enum jw_channel ch, const char *msg_id, const char *type, struct ck_slice content,
               struct ck_err *err);
// The same, and done is called once with the reply's content, or with err (504 kernel_timeout) after
// deadline_ms or when the client is closed.
typedef void (*kc_reply_cb)(void *user, const struct ck_slice *content, const struct ck_err *err);
int kc_call(struct kc *k, enum jw_channel ch, const char *type, struct ck_slice content, unsigned deadline_ms,
            kc_reply_cb done, void *user, struct ck_err *err);
