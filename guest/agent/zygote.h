// The Python process that kernels are forked from: started, watched and restarted here.
// Main thread only. What it writes is treated as hostile: the user's code runs as the same uid.
#pragma once
#include "guest/agent/loop.h"
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <sys/types.h>

#define AG_ZYGOTE_MESSAGE_MAX (128 * 1024)

// Pure: one message of the zygote.
enum ag_zygote_kind { AG_ZYGOTE_PROGRESS, AG_ZYGOTE_SERVING, AG_ZYGOTE_WARM, AG_ZYGOTE_WARMED, AG_ZYGOTE_FAILED };
struct ag_zygote_message {
    enum ag_zygote_kind kind;
    int percent;    // progress
    char text[160]; // progress, failed
};
int ag_zygote_parse(struct ck_slice in, struct ag_zygote_message *out); // -1 = not a message

struct ag_zygote;

struct ag_zygote_events {
    void (*progress)(void *ctx, int percent, const char *text);
    void (*serving)(void *ctx); // forks kernels from now on; perhaps still importing
    void (*warm)(void *ctx);    // everything is imported
    void (*warmed)(void *ctx);  // the exercise asked for by ag_zygote_exercise is done
    void (*failed)(void *ctx, const char *text); // an import or the exercise failed
    void *ctx;
};

struct ag_zygote *ag_zygote_new(struct ag_loop *loop, struct ag_zygote_events events);
void ag_zygote_free(struct ag_zygote *z);

// first = in a template: import everything before serving; else serve as soon as possible.
int ag_zygote_start(struct ag_zygote *z, bool first, struct ck_err *err);
bool ag_zygote_serving(const struct ag_zygote *z);

// Asks for a kernel: request is sent as JSON, fd goes along (and stays the caller's).
int ag_zygote_fork(struct ag_zygote *z, const json_t *request, int fd, struct ck_err *err);
// Asks for a client that exercises the running kernel (template mode).
int ag_zygote_exercise(struct ag_zygote *z, struct ck_err *err);

// To be told of every child that ended: true when it was the zygote (it restarts by itself).
bool ag_zygote_reaped(struct ag_zygote *z, pid_t pid);
