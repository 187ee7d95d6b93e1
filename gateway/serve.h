// What the doors reach through http_gateway(): the parts of one running gateway. Loop thread only.
#pragma once
#include "gateway/auth.h"
#include "gateway/config.h"
#include "gateway/registry.h"

#include <stdatomic.h>
#include <uv.h>

struct auth_limit;
struct http_server;
struct metrics;
struct store;
struct pool;
struct launcher;
struct mcp;
struct web_bundle;

struct gateway {
    uv_loop_t *loop;
    const struct config *config;
    struct auth *auth;
    struct auth_limit *auth_limit;
    struct http_server *http;
    struct registry *registry;
    struct store *store;
    struct pool *pool;
    struct launcher *launcher;
    struct metrics *metrics;
    struct mcp *mcp; // made with its first request
    struct web_bundle *web; // NULL = the web front-end is not built
    char accelerator[8];      // what new sessions use: "kvm" or "tcg"
    char accel_reason[512];   // why
    int64_t started_us;       // wall clock
    bool draining;
};

int ck_cmd_serve(int argc, char **argv); // cellkeep serve; returns the exit code
