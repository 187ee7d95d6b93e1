// Messages of the agent protocol (PROTOCOL.md section 2): signing, checking, reading. Pure.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_crypto.h"
#include "common/ck_error.h"

#include <jansson.h>

#define AW_KEY_LEN 32
#define AW_REQUEST_HEADER_MAX (64 * 1024)
#define AW_ANSWER_HEADER_MAX (1024 * 1024)
#define AW_PAYLOAD_MAX (1024 * 1024)

struct aw_msg {
    json_t *header;           // owned
    bool is_answer;           // else a push
    int64_t rid;              // of an answer
    const char *ev;           // of a push; borrowed from header
    struct ck_slice payload;  // borrowed from the input
};

// Signature over header and payload; sig has CK_SHA256_LEN bytes.
int aw_sign(const uint8_t key[AW_KEY_LEN], struct ck_slice header, struct ck_slice payload, uint8_t *sig);

// parts: signature, header, payload. *last_n is the last number seen from this peer under this key
// and moves on. -1 with err: malformed ("bad_message"), wrongly signed ("bad_signature"), or a
// number seen before ("replayed"). *out is freed by aw_free in every case.
int aw_parse(const struct ck_slice *parts, size_t nparts, const uint8_t key[AW_KEY_LEN], int64_t *last_n,
             struct aw_msg *out, struct ck_err *err);
void aw_free(struct aw_msg *m);
// An answer's {"error":{status,reason,message}}: true and *err filled, with a status that is one.
bool aw_error(const json_t *header, struct ck_err *err);
