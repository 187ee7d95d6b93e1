// The web front-end at "/": answers with the mapped files of the bundle, each page with a policy of its own
// for what a browser may do. Open to everybody, as the files hold no secret: the page asks for the token.
// "/" must answer 200 without one: VS Code takes anything else for a password prompt. Never reads a file.
#include "common/ck_buf.h"
#include "gateway/routes.h"
#include "gateway/serve.h"
#include "gateway/v1_range.h"
#include "gateway/web_bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (256u * 1024) // one write out of the mapping into the connection's queue

#define OWN "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " \
            "media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; " \
            "worker-src 'self' blob:; base-uri 'self'; form-action 'none'; "

struct policy {
    const char *name, *csp;
};

// Styles are inline because typeset formulas and charts set them; scripts never are. A cell's output may be
// shown inside other pages (embed.html), and its active content runs in sandbox.html alone, which has an
// origin of its own and no way out: no host, no storage, no parent.
static const struct policy policies[] = {
    {"index.html", OWN "frame-ancestors 'none'"},
    {"embed.html", OWN "frame-ancestors *"},
    {"sandbox.html", "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; "
                     "style-src 'unsafe-inline' data:; img-src data: blob:; media-src data: blob:; font-src data:; "
                     "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"},
};
#define FALLBACK_CSP "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

struct transfer { // one answer on its way
    struct web_body body;
    size_t sent;
};

static void transfer_gone(struct http_req *r, void *user)
{
    (void)r;
    free(user);
}

static void transfer_go_on(struct http_req *r, void *user)
{
    struct transfer *t = user;
    while (t->sent < t->body.n) {
        size_t n = t->body.n - t->sent < PIECE ? t->body.n - t->sent : PIECE;
        const char *p = t->body.p + t->sent;
        t->sent += n;
        if (http_stream_write(r, p, n) && t->sent < t->body.n)
            return; // on_drain goes on
    }
    free(t);
    http_stream_end(r);
}

static void send_body(struct http_req *r, const struct web_file *f, struct web_body body)
{
    struct transfer *t = http_method(r) == HTTP_HEAD ? NULL : malloc(sizeof *t);
    if (!t && http_method(r) != HTTP_HEAD) {
        http_reply_error(r, 503, "no_memory", "out of memory");
        return;
    }
    http_stream_begin(r, 200, f->type, (int64_t)body.n);
    if (!t) {
        http_stream_end(r);
        return;
    }
    *t = (struct transfer){.body = body};
    http_set_user(r, t);
    http_on_gone(r, transfer_gone);
    http_on_drain(r, transfer_go_on);
    transfer_go_on(r, t);
}

static void add_policy(struct http_req *r, const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (!strcmp(policies[i].name, name))
            http_header_add(r, "Content-Security-Policy", policies[i].csp);
}

static void send_file(struct http_req *r, const struct web_file *f, bool forever)
{
    static const char *const coding_name[WEB_CODINGS] = {NULL, "gzip", "br"};
    static const char coding_letter[WEB_CODINGS] = {'i', 'g', 'b'};
    enum web_coding c = web_bundle_choose(f, http_header_in(r, "Accept-Encoding"));
    const char *none = http_header_in(r, "If-None-Match");
    char etag[48], quoted[56];
    snprintf(etag, sizeof etag, "%s-%c", f->hash, coding_letter[c]);
    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    http_header_add(r, "ETag", quoted);
    http_header_add(r, "Cache-Control", forever ? "public, max-age=31536000, immutable" : "no-cache");
    http_header_add(r, "Vary", "Accept-Encoding");
    http_header_add(r, "Referrer-Policy", "no-referrer"); // the address may hold the token
    http_header_add(r, "Cross-Origin-Resource-Policy", "same-origin");
    add_policy(r, f->name);
    if (none && v1_etag_listed(none, etag, true)) {
        http_reply_empty(r, 304);
        return;
    }
    if (coding_name[c])
        http_header_add(r, "Content-Encoding", coding_name[c]);
    send_body(r, f, f->body[c]);
}

static const struct web_bundle *bundle_of(const struct http_req *r)
{
    return http_gateway(r)->web;
}

// What "/" says while there is no bundle.
static void plain_page(struct http_req *r)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    const char *base = http_base_url(r);
    http_header_add(r, "Content-Security-Policy", FALLBACK_CSP);
    http_header_add(r, "Referrer-Policy", "no-referrer"); // the address may hold the token
    http_header_add(r, "Cache-Control", "no-store");
    ck_buf_printf(&b,
                  "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
                  "<title>cellkeep</title><style>body{font:16px/1.6 system-ui,sans-serif;max-width:44rem;margin:3rem auto;"
                  "padding:0 1rem;color:#1d2530}code{background:#eef1f4;padding:.1em .35em;border-radius:4px}"
                  "td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style>"
                  "<h1>cellkeep %s</h1><p>A kernel gateway: every session is a Python kernel in a virtual machine of its own.</p>"
                  "<p>The web front-end belongs here, but it is not built. Run <code>script/web</code> in the source folder "
                  "(<code>script/server</code> does it too), then start the gateway again.</p>"
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

static void send_named(struct http_req *r, const char *name, bool forever)
{
    const struct web_file *f = web_bundle_get(bundle_of(r), name);
    if (f)
        send_file(r, f, forever);
    else
        http_reply_error(r, 404, "not_found", "the web front-end has no such file");
}

static void index_page(struct http_req *r)
{
    if (bundle_of(r))
        send_named(r, "index.html", false);
    else
        plain_page(r);
}

static void embed_page(struct http_req *r)
{
    send_named(r, "embed.html", false);
}

static void sandbox_page(struct http_req *r)
{
    send_named(r, "sandbox.html", false);
}

static void icon(struct http_req *r)
{
    send_named(r, "favicon.svg", false);
}

// Names of assets hold a hash of their content: they never change.
static void asset(struct http_req *r)
{
    char name[512];
    int n = snprintf(name, sizeof name, "assets/%s", http_param(r, "name"));
    send_named(r, n < (int)sizeof name ? name : "", true);
}

const struct http_route ck_web_routes[] = {
    {HTTP_GET, "/", HTTP_OPEN, 0, index_page},
    {HTTP_GET, "/embed", HTTP_OPEN, 0, embed_page},
    {HTTP_GET, "/sandbox", HTTP_OPEN, 0, sandbox_page},
    {HTTP_GET, "/favicon.svg", HTTP_OPEN, 0, icon},
    {HTTP_GET, "/assets/{name}", HTTP_OPEN, 0, asset},
};
const size_t ck_web_nroutes = sizeof ck_web_routes / sizeof ck_web_routes[0];
