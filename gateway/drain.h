// The orderly end of a gateway. Loop thread only.
#pragma once
#include "gateway/serve.h"

struct launcher;
struct state_dir;

struct drain {
    struct gateway *g;
    struct launcher *launcher;
    const struct state_dir *state;
    uv_signal_t signals[3];
    bool begun;
    bool at_once; // a second signal came: the loop was stopped, nothing was put away
    bool http_done, registry_done, pool_done;
};

// SIGTERM, SIGINT and SIGHUP begin the end: no new connections and sessions, open ones are finished or
// told to come back (never with close codes 1000 or 1001), sessions are kept or ended as --on-exit
// says, the pool is ended, the database is closed; then the loop runs out by itself. A second signal
// stops the loop at once.
void drain_on_signals(struct drain *d, struct gateway *g, struct launcher *l, const struct state_dir *s);
