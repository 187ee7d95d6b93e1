// /healthz /readyz /metrics. Open to everybody but for /metrics: they tell nothing about sessions.
#include "common/ck_buf.h"
#include "gateway/metrics.h"
#include "gateway/pool.h"
#include "gateway/routes.h"
#include "gateway/serve.h"

static void healthz(struct http_req *r)
{
    const struct gateway *g = http_gateway(r);
    http_header_add(r, "Cache-Control", "no-store");
    http_reply_json(r, 200, json_pack("{s:s,s:s,s:{s:s,s:s}}", "status", "ok", "version", CK_VERSION, "accelerator", "name",
                                      g->accelerator, "reason", g->accel_reason));
}

// Ready = a session created now would most likely work: not draining, and a virtual machine stands
// ready or starting one has worked lately.
static void readyz(struct http_req *r)
{
    const struct gateway *g = http_gateway(r);
    http_header_add(r, "Cache-Control", "no-store");
    if (g->draining)
        http_reply_error(r, 503, "draining", "the gateway is shutting down");
    else if (pool_able(g->pool))
        http_reply_json(r, 200, json_pack("{s:s,s:i}", "status", "ready", "pool_ready", (int)pool_ready(g->pool)));
    else if (pool_no_room(g->pool))
        http_reply_error(r, 503, "no_capacity", "the host has no memory left for another session; see --memory-reserve-mb");
    else if (pool_failures(g->pool))
        http_reply_error(r, 503, "pool_failing", "virtual machines fail to start; see the gateway's log");
    else
        http_reply_error(r, 503, "pool_empty", "no virtual machine stands ready yet");
}

static void metrics(struct http_req *r)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (metrics_text(http_gateway(r), &b))
        http_reply_error(r, 503, "no_memory", "out of memory");
    else
        http_reply_buf(r, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

const struct http_route ck_base_routes[] = {
    {HTTP_GET, "/healthz", HTTP_OPEN, 0, healthz},
    {HTTP_GET, "/readyz", HTTP_OPEN, 0, readyz},
    {HTTP_GET, "/metrics", 0, 0, metrics},
};
const size_t ck_base_nroutes = sizeof ck_base_routes / sizeof ck_base_routes[0];
