// Encodes events of PROTOCOL.md section 1 as frames, once, for the log and every reader. Pure.
#pragma once
#include "common/ck_frame.h"
#include "kernel-bridge/jwire.h"

#include <jansson.h>

struct evb_msg {
    enum jw_channel channel;
    const struct jw_head *head, *parent;
    const char *cell; // "" when the parent is no /v1 cell
    const struct jw_msg *msg;
};
// Each returns NULL when memory is out or the event is larger than a frame can be.
struct ck_blob *evb_message(uint64_t seq, int64_t t_ms, const struct evb_msg *m);
struct ck_blob *evb_cell_start(uint64_t seq, int64_t t_ms, const char *cell, int64_t execution_count); // < 0: left out
struct ck_blob *evb_input(uint64_t seq, int64_t t_ms, const char *cell, bool password, struct ck_slice prompt);
struct ck_blob *evb_artifact(uint64_t seq, int64_t t_ms, const char *cell, struct ck_slice json);
struct ck_blob *evb_cell(uint64_t seq, int64_t t_ms, const char *cell, const char *status, struct ck_slice json);
// reason may be "", usage NULL
struct ck_blob *evb_state(uint64_t seq, int64_t t_ms, const char *state, const char *reason, const json_t *usage);
struct ck_blob *evb_gap(int64_t t_ms, uint64_t from, uint64_t to, uint64_t count, uint64_t bytes);
