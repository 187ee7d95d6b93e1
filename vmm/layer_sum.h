// The checksum of layers: GMAC with AES-128 under a fixed, public key. Why: vmm/layer.h. Any thread.
#pragma once
#include "vmm/layer.h"

struct ck_sum; // opaque

int ck_sum_new(struct ck_sum **out, struct ck_err *err);
int ck_sum_add(struct ck_sum *s, const void *p, size_t n, struct ck_err *err);
// Ends it; out has CK_LAYER_SUM_MAX bytes.
int ck_sum_end(struct ck_sum *s, char *out, struct ck_err *err);
void ck_sum_free(struct ck_sum *s); // NULL is fine

static inline void ck_clean_sum_(struct ck_sum **s) { ck_sum_free(*s); }
#define CK_CLEAN_SUM __attribute__((cleanup(ck_clean_sum_)))
