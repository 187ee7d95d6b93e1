// A thread that does file work for the main loop, so that a slow disk or a large hash never delays
// an interrupt or a health check. It runs with the file-system identity of the user (uid 1000), so
// nothing it is asked to do can reach more than the user's own code can.
#pragma once
#include "guest/agent/server.h"

#define AG_WORKER_QUEUE_MAX 64

struct ag_worker;

// What a job produces. Filled in the worker, sent from the main thread.
struct ag_result {
    json_t *answer;        // NULL = {"ok":true}
    struct ck_buf payload;
};

// Runs in the worker's thread. state is the worker's own. Negative = err is the answer.
typedef int ag_job_fn(void *state, const json_t *header, struct ck_slice payload, struct ag_result *out,
                      struct ck_err *err);

struct ag_worker *ag_worker_start(struct ag_loop *loop, void *state, struct ck_err *err);

// Main thread. Takes req over and answers it when the job is done; refuses at once when the queue is full.
void ag_worker_submit(struct ag_worker *w, ag_job_fn *fn, struct ag_request *req);
// A job without a request: done (may be NULL) is called in the main thread with the outcome.
void ag_worker_call(struct ag_worker *w, ag_job_fn *fn, void (*done)(void *ctx, const struct ck_err *err), void *ctx);
