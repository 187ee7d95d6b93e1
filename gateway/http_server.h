// Starting and stopping the HTTP server; what serve.c needs. Loop thread only.
#pragma once
#include "common/ck_error.h"
#include "gateway/http.h"

#include <uv.h>

struct http_server;
struct auth;
struct auth_limit;

struct http_server_options {
    const char *host;         // address or name; every address of a name is listened on
    int port;                 // 0 = any
    const char *tls_cert;     // PEM files, both or none
    const char *tls_key;
    const char *base_url;     // "" or "/prefix"
    const char *allow_origin; // NULL, "*" or one origin
    int max_connections;
    size_t max_body;          // upper bound of collected bodies, whatever the route says
    const struct auth *auth;  // NULL = everyone is let in (tests)
    struct auth_limit *auth_limit; // NULL = wrong tokens are only that
    struct gateway *gateway;  // handed to the handlers
    // Called for every finished request (status 0 = the client left first); may be NULL.
    void (*on_request)(struct gateway *g, int status);
};

// Every string is borrowed for the life of the server. Binds and listens; nothing is accepted until
// the loop runs. Errors: port in use, no such address, unreadable certificate (one clear line each).
int http_server_start(uv_loop_t *loop, const struct http_server_options *opt, struct http_server **out,
                      struct ck_err *err);
int http_server_add_routes(struct http_server *s, const struct http_route *routes, size_t n); // before the loop runs
int http_server_port(const struct http_server *s);
size_t http_server_websockets(const struct http_server *s);
size_t http_server_connections(const struct http_server *s);
uint64_t http_server_evicted(const struct http_server *s); // connections that gave way to new ones

// Stops listening and ends what is open: idle connections at once, WebSockets with WS_RESTART,
// requests that are being answered within grace_ms, then by cutting. Event streams are cut at once,
// as their clients go on from the next gateway; with streams_end they too get grace_ms, for what they
// tell of ends now. done is called from the loop when the last connection is gone. Call once.
void http_server_drain(struct http_server *s, int grace_ms, bool streams_end, void (*done)(void *user), void *user);
void http_server_cut_owner(struct http_server *s, const char *owner); // all connections of a token that was revoked
void http_server_cut(struct http_server *s); // cuts what a drain still waits for
// After a drain is done and before the loop is closed; run the loop once more afterwards.
void http_server_close(struct http_server *s);
void http_server_free(struct http_server *s); // after the loop has run empty; NULL is fine
