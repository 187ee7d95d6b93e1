// session.json of a layer: what whoever restores the layer must know to be heard by the guest in it
// (PROTOCOL.md section 7). Pure. The keys are secrets until they are changed, right after the
// restore; the file never leaves the session's private folder.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "kernel-bridge/agentwire.h"
#include "kernel-bridge/kclient.h"

#include <limits.h>

#define FROZEN_VERSION 1
#define FROZEN_BYTES_MAX (512 * 1024) // the environment is most of it
#define FROZEN_MACHINE_ID_MAX 33

struct frozen {
    char kernel_key[KC_KEY_MAX], kernel_identity[KC_IDENTITY_MAX];
    uint8_t agent_key[AW_KEY_LEN];
    int64_t agent_n;                      // no request before had a higher number
    char kernel_session[JW_ID_MAX];       // header.session of the kernel
    char own_session[CK_UUID_MAX];        // header.session of the bridge's requests
    char seen[JW_ID_MAX];                 // msg_id of the last message on iopub that is in the log, "" = none
    char machine_id[FROZEN_MACHINE_ID_MAX];
    int64_t kernel_pid, execution_count;
    bool busy, asks;                      // the kernel ran something; it waited for stdin
    char cwd[PATH_MAX];                   // of fresh kernels; "" = the usual
    char *env;                            // the same: JSON object text, owned; NULL = none
};

int frozen_print(const struct frozen *f, struct ck_buf *out);
// -1 with err: "bad_layer". Free *out in every case.
int frozen_parse(const void *p, size_t n, struct frozen *out, struct ck_err *err);
void frozen_free(struct frozen *f); // wipes the keys
