// The one Python kernel of the session: start, ready, end. Main thread only.
#pragma once
#include "guest/agent/kmsg.h"
#include "guest/agent/server.h"
#include "guest/agent/zygote.h"

struct ag_kernel;

// on_started is called for every start that succeeded or failed (err NULL = success).
struct ag_kernel *ag_kernel_new(struct ag_loop *loop, struct ag_zygote *zygote, struct ag_kmsg *kmsg,
                                struct ag_server *server, void (*on_started)(void *ctx, const struct ck_err *err),
                                void *ctx);
void ag_kernel_free(struct ag_kernel *k);

pid_t ag_kernel_pid(const struct ag_kernel *k); // 0 = none running
// Starts with the template's key and no request to answer.
void ag_kernel_start_template(struct ag_kernel *k);
void ag_kernel_zygote_serving(struct ag_kernel *k); // to be called when the zygote starts to serve
bool ag_kernel_reaped(struct ag_kernel *k, pid_t pid, int status); // true when it was the kernel

void ag_kernel_limit(struct ag_kernel *k); // the limits (limits.h) have changed: they hold for the one that runs, too

void ag_op_kernel_start(struct ag_kernel *k, struct ag_request *req);
void ag_op_kernel_signal(struct ag_kernel *k, struct ag_request *req);
