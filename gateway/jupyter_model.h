// The JSON that Jupyter's REST API shows: kernels, sessions, kernelspecs, status. New references;
// NULL only when out of memory.
#pragma once
#include "gateway/registry.h"

#include <jansson.h>

#define JUP_KERNEL_NAME "python3"

// One of starting, idle, busy, restarting, dead: clients throw anything else away. A paused session
// wakes up when it is used, so it is idle to them.
const char *jup_execution_state(enum session_state s);
// True for the names under which the one kernelspec is asked for.
bool jup_kernel_name_known(const char *name);

json_t *jup_kernel_model(const struct session *s);
json_t *jup_session_model(const struct jsession *j, const struct session *kernel);
json_t *jup_spec_model(void);
