// HTTP client of the command line: requests to one gateway over libcurl. One thread; calls block.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "gateway/cli_args.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>

struct cli_client {
    CURL *curl;               // for everything but a stream that runs at the same time
    char *base;               // scheme://host:port/prefix, no trailing slash; owned
    char *token;              // owned, NULL = none known
    struct curl_slist *headers;
};

// The URL may be the whole ready line's, with ?token=...: then its token is used unless another was
// given. Without any token, the one in the default state folder is read if it is readable.
int cli_client_open(const struct cli_target *t, struct cli_client *c, struct ck_err *err);
void cli_client_close(struct cli_client *c); // a zeroed one is fine

// path begins with "/v1/...". body NULL = none. *out (may be NULL) is the JSON of the answer, NULL
// for an empty one; the caller owns it. An answer of 400 and above fills err with its message.
int cli_request(struct cli_client *c, const char *method, const char *path, const json_t *body, json_t **out,
                struct ck_err *err);

// Streams a local file up, a guest file down. The files stay the caller's.
int cli_put_file(struct cli_client *c, const char *path, FILE *from, struct ck_err *err);
int cli_get_file(struct cli_client *c, const char *path, FILE *to, struct ck_err *err);

// A streamed POST (body) or GET (body NULL) with Accept: text/event-stream. on_data gets the bytes
// (not 0 = stop: outcome 1); tick is called at least every 100 ms (not 0 = stop: outcome 1).
// 0 = the server ended the stream. Other requests may be made from within tick.
typedef int (*cli_data_fn)(void *ctx, const void *p, size_t n);
typedef int (*cli_tick_fn)(void *ctx);
int cli_stream(struct cli_client *c, const char *path, const json_t *body, cli_data_fn on_data, cli_tick_fn tick,
               void *ctx, struct ck_err *err);

// For those who drive a transfer of their own: URL and the usual options, a bound on silence (the
// gateway says something every 15 s), and what went wrong below HTTP in words (-1).
int cli_set_url(struct cli_client *c, CURL *h, const char *path, struct ck_err *err);
void cli_set_stall(CURL *h);
int cli_transport_error(const struct cli_client *c, CURLcode rc, struct ck_err *err);
