// A finished cell as somebody wants to see it: text, types and the size of pictures. Loop thread, but for
// what is said to run in the pool.
#pragma once
#include "gateway/serve.h"
#include "gateway/v1_output.h"

struct cell_view; // opaque
struct session;

struct cell_view_events {
    int (*make)(void *user, const json_t *cell); // in the pool: turns it into what is sent. Not 0 = no memory
    void (*done)(void *user, int rc);            // from the loop, once; the view is gone. Not 0 = no memory
};

// Takes a copy of finished and what output owns (output is zeroed). s is where pictures are made smaller.
// NULL: no memory, and no event.
struct cell_view *cell_view_start(struct gateway *gw, struct session *s, struct v1_output *output,
                                  struct ck_slice finished, const struct cell_view_events *ev, void *user);
// The client has left: what takes time is not waited for any more. done comes all the same, soon.
void cell_view_hurry(struct cell_view *v);
