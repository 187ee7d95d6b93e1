// Which template a session that asks for one gets: the names in the cache (docs/PROTOCOL.md section 5,
// written by vmm/named.c), and whether what they name can be used here. Blocks: for the thread pool.
#pragma once
#include "common/ck_error.h"
#include "gateway/layer_files.h"

#include <jansson.h>

#define TEMPLATE_DEFAULT "default"
#define TEMPLATE_MEMORY_MB_MIN 384
#define TEMPLATE_MEMORY_MB_MAX 32768

struct template_ask {
    const char *cache_dir;
    const char *name;        // as the client wrote it; NULL = default
    int memory_mb;           // 0 = any: the gateway's size when there is one, else the smallest
    int gateway_memory_mb;
    const char *accelerator; // what this gateway's sessions run on
    const char *qemu;        // version text of its QEMU
};

// 400 "no_such_template" (the text lists what there is), 400 "bad_field" (memory), 409
// "template_not_built", 503 "template_building". What was chosen counts as used now.
int template_choose(const struct template_ask *ask, struct layer_origin *out, struct ck_err *err);

// What a session may ask for: [{"name","memory_mb":[sizes, smallest first]}], the default first, then by name. Of `ask`
// neither name nor memory_mb. A new reference; NULL = out of memory.
json_t *template_list(const struct template_ask *ask);
