// Parses an operation frame of the gateway (PROTOCOL.md section 1) into checked fields. Pure.
#pragma once
#include "common/ck_error.h"
#include "common/ck_frame.h"
#include "kernel-bridge/evlog.h"

#include <jansson.h>

#define BOP_PATH_MAX 4096
#define BOP_ENV_MAX 512
#define BOP_ARGV_MAX 1024
#define BOP_WHY_MAX 200
#define BOP_CHUNK_MAX (256 * 1024) // data frames
#define BOP_TIMEOUT_MAX_MS (7LL * 24 * 3600 * 1000)

enum bop_kind {
    BOP_INFO, BOP_CLAIM, BOP_ATTACH, BOP_ACK, BOP_SEND, BOP_EXECUTE, BOP_CELL, BOP_CANCEL, BOP_STDIN,
    BOP_INTERRUPT, BOP_RESTART, BOP_FILE_STAT, BOP_FILE_LIST, BOP_FILE_READ, BOP_FILE_WRITE, BOP_DATA,
    BOP_DATA_END, BOP_DATA_ABORT, BOP_FILE_REMOVE, BOP_FILE_MKDIR, BOP_FILE_MOVE, BOP_COMMAND, BOP_USAGE,
    BOP_CHECKPOINT, BOP_ROLLBACK, BOP_PAUSE, BOP_SHUTDOWN, BOP_KINDS,
};

enum bop_from { BOP_FROM_SEQ, BOP_FROM_RESUME, BOP_FROM_NOW };

// Strings and JSON are borrowed from header. Which fields are filled depends on kind.
struct bop {
    enum bop_kind kind;
    bool has_rid;
    int64_t rid;
    json_t *header; // owned
    char *bytes[2]; // owned: paths that are not UTF-8
    struct ck_frame frame; // borrowed: the input
    const char *name, *cwd, *consumer, *cell, *url_prefix, *value, *path, *to, *etag, *cmd, *why, *layer;
    json_t *env, *limits, *argv, *ignore;
    enum bop_from from_kind;
    enum ev_mode mode;
    enum jw_channel channel;
    uint64_t seq, sent;
    int64_t timeout_ms, offset, length, limit, file_mode; // -1 where absent, timeout 0
    bool silent, allow_stdin, attach, recursive;
};

// 0, or -1 with err; has_rid and rid are valid in both cases (an error is answered if there is one).
int bop_parse(const struct ck_frame *f, struct bop *out, struct ck_err *err);
void bop_free(struct bop *b);
const char *bop_name(enum bop_kind k);
