// Client of the guest's agent: signed requests with deadlines, and its pushes. One thread.
#pragma once
#include "kernel-bridge/agentwire.h"

#include <uv.h>

#define AC_REQUESTS_MAX 256
#define AC_BAD_MAX 1000

struct ac;

// Exactly once for each request unless it was cancelled: answer and payload (valid during the call),
// or err: the agent's own error, 504 "agent_timeout", or what ac_fail_all was given.
typedef void (*ac_answer_cb)(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err);

struct ac_opts {
    uv_loop_t *loop;
    void *zctx;
    uint16_t port;
    const uint8_t *key; // AW_KEY_LEN bytes that the agent knows; NULL = the template's
    int64_t number;     // that the last request under this key had at most; 0 for the template's
    void (*on_push)(void *user, const char *ev, const json_t *header, struct ck_slice payload);
    void (*on_hostile)(void *user); // AC_BAD_MAX malformed messages; once
    void *user;
};

struct ac *ac_open(const struct ac_opts *o, struct ck_err *err);
const uint8_t *ac_key(const struct ac *a);   // AW_KEY_LEN bytes, a secret
int64_t ac_number(const struct ac *a);       // of the last request sent
void ac_close(struct ac *a);                                     // calls nothing; NULL is fine
void ac_fail_all(struct ac *a, const struct ck_err *err);        // every pending request ends with err

// Takes the reference of header (an object with "op" and its fields). Returns a positive id for
// ac_cancel, or -1 with err (then the callback is not called): 503 "agent_busy".
int64_t ac_request(struct ac *a, json_t *header, struct ck_slice payload, unsigned deadline_ms, ac_answer_cb cb,
                   void *user, struct ck_err *err);
unsigned ac_pending(const struct ac *a); // requests without an answer
void ac_cancel(struct ac *a, int64_t id); // the callback will not be called; unknown ids are fine

// Sends `personalise` (header as for ac_request) and goes over to the new key with its answer.
int64_t ac_personalise(struct ac *a, json_t *header, struct ck_slice entropy, const uint8_t key[AW_KEY_LEN],
                       unsigned deadline_ms, ac_answer_cb cb, void *user, struct ck_err *err);
