// Making a clone its own machine, PROTOCOL.md section 2. Main thread only.
#pragma once
#include "guest/agent/wire.h"

struct ag_personality {
    uint8_t key[AG_KEY_LEN];
    int64_t time_us;
    const char *hostname;   // borrowed from the request
    const char *machine_id; // 32 hex digits, borrowed
};

// Pure: checks and takes apart a request's header.
int ag_personality_parse(const json_t *header, struct ag_personality *out, struct ck_err *err);

// Every step, or an error: the caller answers success only when all of it is done. entropy: the
// request's payload, at least 32 bytes.
int ag_personalise(const struct ag_personality *p, struct ck_slice entropy, struct ck_err *err);

int ag_set_time(int64_t time_us, struct ck_err *err);
