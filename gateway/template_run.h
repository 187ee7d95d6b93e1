// Gets the template that sessions start from, by running `cellkeep template ensure --json` as a child:
// building one takes minutes, runs a loop of its own and is none of the gateway's code. Blocks; before
// the loop only. Its progress lines go to our standard error.
#pragma once
#include "common/ck_error.h"
#include "gateway/config.h"

#include <limits.h>

struct template_info {
    char dir[PATH_MAX], image_dir[PATH_MAX];
    char accelerator[8], reason[512], qemu[128];
    int memory_mb;
};

// exe = path of this program. Outcomes: 0 = *out is filled; 1 = the child failed and has said why on
// standard error, there is nothing to add; negative = err.
int template_ensure(const char *exe, const struct config *c, struct template_info *out, struct ck_err *err);
