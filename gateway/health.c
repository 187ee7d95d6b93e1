// /healthz /readyz /metrics, and a small page at / that says what this is. Open to everybody but for
// /metrics: they tell nothing about sessions. "/" must answer 200 without a token: VS Code takes
// anything else for a password prompt.
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

static void page(struct http_req *r)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    const char *base = http_base_url(r);
    http_header_add(r, "Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    http_header_add(r, "Referrer-Policy", "no-referrer"); // the address may hold the token
    http_header_add(r, "Cache-Control", "no-store");
    ck_buf_printf(&b,
                  "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
                  "<title>cellkeep</title><style>body{font:16px/1.6 system-ui,sans-serif;max-width:44rem;margin:3rem auto;"
                  "padding:0 1rem;color:#1d2530}code{background:#eef1f4;padding:.1em .35em;border-radius:4px}"
                  "td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style>"
                  "<h1>cellkeep %s</h1><p>A kernel gateway: every session is a Python kernel in a virtual machine of its own.</p>"
                  "<table><tr><td><code>%s/api</code><td>Jupyter kernels: JupyterLab and Notebook with "
                  "<code>--gateway-url</code>, VS Code, thebe, Open WebUI"
                  "<tr><td><code>%s/v1</code><td>cells, files and commands as JSON for programs; described by "
                  "<a href=\"%s/openapi.json\">openapi.json</a>"
                  "<tr><td><code>%s/mcp</code><td>the Model Context Protocol, for agents"
                  "<tr><td><code>%s/healthz</code><td>health; also <code>/readyz</code> and <code>/metrics</code></table>"
                  "<p>Every door but the last needs the token that the gateway printed when it started: "
                  "<code>Authorization: Bearer …</code> or <code>?token=…</code>.</p></html>\n",
                  CK_VERSION, base, base, base, base, base);
    http_reply_buf(r, 200, "text/html; charset=utf-8", &b);
}

const struct http_route ck_base_routes[] = {
    {HTTP_GET, "/", HTTP_OPEN, 0, page},
    {HTTP_GET, "/healthz", HTTP_OPEN, 0, healthz},
    {HTTP_GET, "/readyz", HTTP_OPEN, 0, readyz},
    {HTTP_GET, "/metrics", 0, 0, metrics},
};
const size_t ck_base_nroutes = sizeof ck_base_routes / sizeof ck_base_routes[0];
