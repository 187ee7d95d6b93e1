// What a client may choose for a new kernel: its environment and its working directory. Pure.
#pragma once
#include <jansson.h>
#include <stddef.h>

#define JUP_ENV_MAX 64          // variables
#define JUP_ENV_VALUE_MAX 4096  // bytes of one value
#define JUP_CWD_MAX 1024

// A new object with those members of env (any JSON; borrowed) that may reach the guest: names that
// begin with KERNEL_ or stand in allow (comma-separated names, NULL = none), with text values, within
// the bounds above. Everything else is dropped without a word: jupyter-server 1.23 posts its whole
// process environment, secrets included. KERNEL_GATEWAY=1 is added when anything is left (an empty
// environment costs a new kernel nothing). NULL = out of memory.
json_t *jup_env_filter(json_t *env, const char *allow);

// The guest directory for a `path` of the Jupyter API: relative to /home/user unless absolute. 0 =
// out filled (absolute, cleaned, without "." and ".."), -1 = nothing that could be a directory there.
int jup_cwd(const char *path, char *out, size_t room);
