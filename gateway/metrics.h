// Counters of this gateway, and their Prometheus text. Loop thread only.
#pragma once
#include "common/ck_buf.h"

struct gateway;

struct metrics {
    unsigned long long requests[6]; // by hundreds of the status; 0 = the client left first
    unsigned long long upgrades;    // answered 101
};

void metrics_request(struct gateway *g, int status); // for http_server_options.on_request
int metrics_text(const struct gateway *g, struct ck_buf *out); // -1 = out of memory
long metrics_rss_bytes(void); // of this process; 0 = unknown
