// Finds the route of a path. Pure but for the allocations of building it. A route table is compiled
// once; matching is linear over it (a few dozen entries, about a microsecond).
#pragma once
#include "gateway/http.h"

#define ROUTER_PARAMS_MAX 4

struct router;

struct router_match {
    const struct http_route *route; // NULL when no pattern fits, or none of that method
    unsigned allowed;               // methods of the best pattern, 0 = no pattern fits the path
    size_t nparams;
    struct {
        const char *name; // inside the router
        const char *raw;  // inside the path, still percent-encoded
        size_t len;
        bool rest;        // of a {name...}: a path, of any bytes
    } params[ROUTER_PARAMS_MAX];
};

struct router *router_new(void); // NULL = out of memory
// Adds a table, which must outlive the router. A bad pattern (no leading slash, more than
// ROUTER_PARAMS_MAX names, {name...} not last) is a programming error: -1.
int router_add(struct router *r, const struct http_route *routes, size_t n);
void router_free(struct router *r);

// path is percent-encoded and begins with '/'. Literal segments are compared after decoding.
void router_match(const struct router *r, unsigned method, const char *path, struct router_match *out);
