// Writing the files of a layer's folder; shared by the checkpoint and tests. All of it blocks.
#pragma once
#include "vmm/layer.h"

#define CK_LAYER_FILE_CHUNK (1u << 20)

// Copies nothing: reads the file from its beginning and fills in size and sum. deadline: ck_mono_ms.
int ck_layer_sum_file(int fd, int64_t deadline, struct ck_layer_file *out, struct ck_err *err);
// A new file of mode 0600 in the folder: written, synced, summed (sum may be NULL).
int ck_layer_put_file(int dirfd, const char *name, const void *p, size_t n, struct ck_layer_file *sum,
                      struct ck_err *err);
// Fills the fields that describe the template.
void ck_layer_describe(struct ck_layer_info *info, const struct ck_template *t);
