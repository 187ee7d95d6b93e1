// The signed messages between bridge and agent, PROTOCOL.md section 2. Pure: no sockets.
// One message is three byte strings: signature, JSON header, payload.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>

#define AG_KEY_LEN 32
#define AG_SIG_LEN 32
#define AG_REQUEST_HEADER_MAX (64 * 1024)
#define AG_ANSWER_HEADER_MAX (1024 * 1024)
#define AG_PAYLOAD_MAX (1024 * 1024)

// The state of one conversation under one key. Zero-initialised it has the template's key.
struct ag_wire {
    uint8_t key[AG_KEY_LEN];
    int64_t in_n;     // the last number accepted
    int64_t out_n;    // the last number sent
    uint64_t dropped; // messages refused since boot
};

// A new key; both directions count from the start again.
void ag_wire_rekey(struct ag_wire *w, const uint8_t *key);

// Verifies and parses. 0 = *header is the caller's (json_decref) and the number was accepted;
// 1 = dropped and counted (too large, wrong signature, replayed, or not a JSON object with "n").
int ag_wire_open(struct ag_wire *w, struct ck_slice sig, struct ck_slice header, struct ck_slice payload,
                 json_t **out);

// Numbers and signs. header gets its "n" (the caller keeps it); text receives the JSON to send.
// -1 when out of memory or too large; then nothing was numbered.
int ag_wire_seal(struct ag_wire *w, json_t *header, struct ck_slice payload, struct ck_buf *text, uint8_t *sig);
