// The Jupyter door's table of routes, and its small fixed answers: version, kernelspecs, status,
// identity, and the event channel that is held open and stays silent.
#include "gateway/jupyter_rest.h"
#include "gateway/owner.h"
#include "gateway/routes.h"

#include "common/ck_time.h"

#include <stdio.h>
#include <string.h>

// jupyter-server 1.23 posts its whole environment with each kernel: tens of KiB.
#define BODY_MAX (1024 * 1024)

static void api_version(struct http_req *r) { http_reply_json(r, 200, json_pack("{s:s}", "version", CK_VERSION)); }

static void specs_list(struct http_req *r)
{
    const char *name = http_gateway(r)->config->default_kernel_name;
    http_reply_json(r, 200, json_pack("{s:s,s:{s:o}}", "default", jup_kernel_name_known(name) ? JUP_KERNEL_NAME : name,
                                      "kernelspecs", JUP_KERNEL_NAME, jup_spec_model()));
}

static void spec_get(struct http_req *r)
{
    const char *name = http_param(r, "name");
    if (jup_kernel_name_known(name))
        http_reply_json(r, 200, jup_spec_model());
    else
        http_reply_error(r, 404, "no_such_kernelspec", "Kernel spec not found: %.64s", name);
}

static void spec_file(struct http_req *r)
{
    http_reply_error(r, 404, "no_such_file", "this kernel has no such resource file");
}

static void status_get(struct http_req *r)
{
    struct gateway *g = http_gateway(r);
    char started[CK_ISO8601_MAX], last[CK_ISO8601_MAX];
    int64_t at = g->started_us;
    int connections = 0, kernels = 0;
    for (struct session *s = owner_next(r, NULL); s; s = owner_next(r, s)) {
        kernels++;
        connections += s->connections;
        at = s->last_activity_us > at ? s->last_activity_us : at;
    }
    ck_iso8601_us(g->started_us, started);
    ck_iso8601_us(at, last);
    http_reply_json(r, 200, json_pack("{s:i,s:i,s:s,s:s}", "connections", connections, "kernels", kernels,
                                      "last_activity", last, "started", started));
}

static void me_get(struct http_req *r)
{
    // One token, one person: clients only want something to show.
    http_reply_json(r, 200, json_pack("{s:{s:s,s:s,s:s,s:s,s:n,s:n},s:{}}", "identity", "username", "user", "name",
                                      "user", "display_name", "user", "initials", "U", "avatar_url", "color",
                                      "permissions"));
}

// Nothing is published here. A refusal would kill a Node process that builds a ServiceManager.
static void events_message(struct ws_conn *w, void *user, bool binary, struct ck_slice msg)
{
    (void)w, (void)user, (void)binary, (void)msg;
}
static void events_close(struct ws_conn *w, void *user, int code) { (void)w, (void)user, (void)code; }

static void events_subscribe(struct http_req *r)
{
    static const struct ws_events ev = {.on_message = events_message, .on_close = events_close};
    struct ws_conn *w = http_ws_accept(r, NULL, &ev, NULL);
    if (w)
        ws_set_max_message(w, 64 * 1024);
}

static void events_post(struct http_req *r) { http_reply_empty(r, 204); }

const struct http_route ck_jupyter_routes[] = {
    {HTTP_GET, "/api", HTTP_OPEN, 0, api_version}, // open in jupyter-server too: it says the version only
    {HTTP_GET, "/api/kernelspecs", 0, 0, specs_list},
    {HTTP_GET, "/api/kernelspecs/{name}", 0, 0, spec_get},
    {HTTP_GET, "/kernelspecs/{name}/{file...}", 0, 0, spec_file},
    {HTTP_GET, "/api/status", 0, 0, status_get},
    {HTTP_GET, "/api/me", 0, 0, me_get},
    {HTTP_GET, "/api/events/subscribe", HTTP_WEBSOCKET, 0, events_subscribe},
    {HTTP_POST, "/api/events", 0, BODY_MAX, events_post},
    {HTTP_GET, "/api/kernels", 0, 0, jup_kernels_list},
    {HTTP_POST, "/api/kernels", 0, BODY_MAX, jup_kernels_create},
    {HTTP_GET, "/api/kernels/{id}", 0, 0, jup_kernel_get},
    {HTTP_DELETE, "/api/kernels/{id}", 0, 0, jup_kernel_delete},
    {HTTP_POST, "/api/kernels/{id}/interrupt", 0, 0, jup_kernel_interrupt},
    {HTTP_POST, "/api/kernels/{id}/restart", 0, 0, jup_kernel_restart},
    {HTTP_GET, "/api/kernels/{id}/channels", HTTP_WEBSOCKET, 0, jup_channels},
    {HTTP_GET, "/api/sessions", 0, 0, jup_sessions_list},
    {HTTP_POST, "/api/sessions", 0, BODY_MAX, jup_sessions_create},
    {HTTP_GET, "/api/sessions/{id}", 0, 0, jup_session_get},
    {HTTP_PATCH, "/api/sessions/{id}", 0, BODY_MAX, jup_session_patch},
    {HTTP_DELETE, "/api/sessions/{id}", 0, 0, jup_session_delete},
};
const size_t ck_jupyter_nroutes = sizeof ck_jupyter_routes / sizeof *ck_jupyter_routes;
