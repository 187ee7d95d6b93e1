// QMP client on a caller's libuv loop: commands with ids and deadlines, events, descriptors by
// SCM_RIGHTS. One thread.
#pragma once
#include "common/ck_error.h"
#include "vmm/qmp_codec.h"

#include <uv.h>

#define CK_QMP_PENDING_MAX 16
#define CK_QMP_OUT_MAX (256 * 1024)

struct ck_qmp;

struct ck_qmp_opts {
    uv_loop_t *loop;
    int fd; // our end of a socket pair; taken over in every case
    // The greeting came and capabilities are negotiated. Once.
    void (*on_ready)(void *user);
    // data is borrowed and may be NULL.
    void (*on_event)(const char *name, json_t *data, void *user);
    // The connection is of no use any more (closed, or broken by what came). Once; pending commands
    // have failed before it. Only ck_qmp_close may be called afterwards.
    void (*on_down)(const struct ck_err *err, void *user);
    void *user;
    unsigned greeting_ms; // deadline of greeting and negotiation; 0 = 20 s
};

// Callbacks run from the loop, never from inside these functions.
int ck_qmp_new(const struct ck_qmp_opts *opts, struct ck_qmp **out, struct ck_err *err);

// ret is borrowed; err NULL = success. A late answer after the deadline is dropped.
typedef void (*ck_qmp_reply_fn)(json_t *ret, const struct ck_err *err, void *user);
// args (may be NULL) and fd (-1 = none) are taken over in every case. Negative: cb will not be called.
int ck_qmp_command(struct ck_qmp *q, const char *name, json_t *args, int fd, unsigned timeout_ms, ck_qmp_reply_fn cb,
                   void *user, struct ck_err *err);

// Calls nothing any more, not even for pending commands; memory goes when the loop has run. NULL is fine.
void ck_qmp_close(struct ck_qmp *q);
