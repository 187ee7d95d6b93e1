// The route tables of the doors, collected by serve.c. Each door defines its own two symbols.
#pragma once
#include "gateway/http.h"

struct mcp;

extern const struct http_route ck_jupyter_routes[]; // gateway/jupyter_*.c
extern const size_t ck_jupyter_nroutes;
extern const struct http_route ck_v1_routes[]; // gateway/v1_*.c
extern const size_t ck_v1_nroutes;
extern const struct http_route ck_mcp_routes[]; // gateway/mcp_http.c
extern const size_t ck_mcp_nroutes;
void mcp_free(struct mcp *m); // after the server; NULL is fine
extern const struct http_route ck_base_routes[]; // gateway/health.c: /healthz /readyz /metrics
extern const size_t ck_base_nroutes;
extern const struct http_route ck_web_routes[]; // gateway/web_routes.c: / and what the page loads
extern const size_t ck_web_nroutes;
