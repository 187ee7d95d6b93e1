// The kernel command line words that are meant for the agent. Pure.
#pragma once
#include "common/ck_error.h"

#include <stddef.h>

enum ag_mode {
    AG_MODE_TEMPLATE, // start zygote and kernel, warm up, report template-ready, then serve
    AG_MODE_PROBE,    // say hello and power off
};

struct ag_bootargs {
    enum ag_mode mode;
};

// Without a cellkeep.mode the mode is template. An unknown mode is an error (the boot then fails
// visibly instead of doing something that nobody asked for). cmdline needs no terminating NUL.
int ag_bootargs_parse(const char *cmdline, size_t n, struct ag_bootargs *out, struct ck_err *err);
