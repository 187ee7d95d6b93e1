// POST and DELETE /mcp: streamable HTTP of both eras. Reads a request, checks what its headers and its
// body must agree on, and answers it or hands it to mcp_call.c. There is no GET: this server never
// begins a conversation.
#include "gateway/mcp.h"
#include "gateway/routes.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "gateway/http_server.h"
#include "gateway/v1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LIST_TTL_MS 3600000 // of tools/list and server/discover: they change with the program alone

static struct mcp *mcp_of(struct http_req *r)
{
    struct gateway *gw = http_gateway(r);
    if (!gw->mcp && (gw->mcp = calloc(1, sizeof *gw->mcp)))
        gw->mcp->gw = gw;
    return gw->mcp;
}

void mcp_free(struct mcp *m)
{
    while (m && m->peers)
        mcp_peer_remove(m->peers, m);
    free(m);
}

// --- answers -------------------------------------------------------------------------------------------

static void refuse(struct http_req *r, int status, const json_t *id, enum mcp_error_code code, const char *message)
{
    http_reply_json(r, status, mcp_error(id, code, message, NULL));
}

static void reply(struct http_req *r, const struct mcp_message *m, json_t *result)
{
    http_reply_json(r, 200, mcp_answer(m->modern, m->id, result));
}

static json_t *server_info(void)
{
    return json_pack("{s:s,s:s,s:s}", "name", "cellkeep", "title", "cellkeep", "version", CK_VERSION);
}

static void cacheable(json_t *result, bool modern)
{
    if (!modern)
        return;
    json_object_set_new(result, "ttlMs", json_integer(LIST_TTL_MS));
    json_object_set_new(result, "cacheScope", json_string("private"));
}

static void list_tools(struct http_req *r, const struct mcp_message *m)
{
    json_t *result = json_pack("{s:o}", "tools", mcp_tools_list());
    cacheable(result, m->modern);
    reply(r, m, result);
}

static void discover(struct http_req *r, const struct mcp_message *m)
{
    json_t *result = json_pack("{s:[s],s:{s:{}},s:s}", "supportedVersions", MCP_MODERN, "capabilities", "tools",
                               "instructions", mcp_tools_instructions());
    cacheable(result, true);
    reply(r, m, result);
}

static void initialize(struct http_req *r, struct mcp *mcp, const struct mcp_message *m)
{
    const char *version = mcp_choose_version(ck_json_str(m->params, "protocolVersion", NULL, NULL));
    struct mcp_peer *p = mcp_peer_new(mcp, version, http_query(r, "session"), http_owner(r));
    if (!p) {
        refuse(r, 503, m->id, MCP_INTERNAL_ERROR, "the gateway has no room for another client: try again later");
        return;
    }
    http_header_add(r, "Mcp-Session-Id", p->id);
    reply(r, m, json_pack("{s:s,s:{s:{}},s:o,s:s}", "protocolVersion", version, "capabilities", "tools", "serverInfo",
                          server_info(), "instructions", mcp_tools_instructions()));
}

// --- the request ---------------------------------------------------------------------------------------

// A browser's page of another origin may not speak to this server unless it was allowed to.
static bool origin_allowed(struct http_req *r)
{
    const char *origin = http_header_in(r, "Origin"), *host = http_header_in(r, "Host");
    const char *allow = http_gateway(r)->config->allow_origin;
    if (!origin || (allow && (!strcmp(allow, "*") || !strcasecmp(allow, origin))))
        return true;
    const char *authority = strstr(origin, "://");
    return authority && host && !strcasecmp(authority + 3, host);
}

static bool accepts(struct http_req *r)
{
    bool all = http_header_has(r, "Accept", "*/*");
    return all ||
           (http_header_has(r, "Accept", "application/json") && http_header_has(r, "Accept", "text/event-stream"));
}

static bool is_json(struct http_req *r)
{
    const char *type = http_header_in(r, "Content-Type");
    size_t n = strlen("application/json");
    return type && !strncasecmp(type, "application/json", n) && (!type[n] || strchr("; \t", type[n]));
}

static bool check_http(struct http_req *r)
{
    if (!origin_allowed(r))
        refuse(r, 403, NULL, MCP_INVALID_REQUEST,
               "this Origin is not allowed: see the gateway's option --allow-origin");
    else if (!accepts(r))
        refuse(r, 406, NULL, MCP_INVALID_REQUEST, "the client must accept both application/json and text/event-stream");
    else if (!is_json(r))
        refuse(r, 415, NULL, MCP_INVALID_REQUEST, "the body must be application/json");
    else
        return true;
    return false;
}

// "http://host:port" as the client sees this server. A name that could not be in a URL is not repeated.
static void base_of(struct http_req *r, char out[MCP_BASE_MAX])
{
    const struct gateway *gw = http_gateway(r);
    const char *host = http_header_in(r, "Host"), *scheme = gw->config->tls_cert ? "https" : "http";
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
    if (host && *host && strlen(host) < MCP_BASE_MAX - 16 && !host[strspn(host, allowed)])
        snprintf(out, MCP_BASE_MAX, "%s://%s", scheme, host);
    else
        snprintf(out, MCP_BASE_MAX, "%s://127.0.0.1:%d", scheme, http_server_port(gw->http));
}

static void call_tool(struct http_req *r, struct mcp *mcp, struct mcp_peer *p, const struct mcp_message *m)
{
    char base[MCP_BASE_MAX];
    base_of(r, base);
    mcp_call_begin(mcp, r, p, m, base, m->modern || strcmp(p->version, MCP_LINKS_SINCE) >= 0);
}

// --- the modern era --------------------------------------------------------------------------------------

static void unsupported(struct http_req *r, const struct mcp_message *m, const char *requested)
{
    json_t *data = json_pack("{s:[s],s:s}", "supported", MCP_MODERN, "requested", requested);
    http_reply_json(r, 400, mcp_error(m->id, MCP_UNSUPPORTED_VERSION, "this protocol version is not supported", data));
}

// The headers by which proxies route must say what the body says.
static bool check_mirrors(struct http_req *r, const struct mcp_message *m)
{
    const char *version = http_header_in(r, "MCP-Protocol-Version"), *method = http_header_in(r, "Mcp-Method");
    const char *name = http_header_in(r, "Mcp-Name"), *tool = ck_json_str(m->params, "name", NULL, NULL);
    const char *wrong = NULL;
    bool named = !strcmp(m->method, "tools/call") && tool;
    if (!version || strcmp(version, m->version))
        wrong = "the header MCP-Protocol-Version must be the version in params._meta";
    else if (!method || strcmp(method, m->method))
        wrong = "the header Mcp-Method must be the method of the body";
    else if (named && (!name || !mcp_header_says(name, tool)))
        wrong = "the header Mcp-Name must be params.name";
    if (wrong)
        refuse(r, 400, m->id, MCP_HEADER_MISMATCH, wrong);
    return !wrong;
}

static void modern_request(struct http_req *r, struct mcp *mcp, const struct mcp_message *m)
{
    const char *id = http_header_in(r, "Mcp-Session-Id");
    if (!m->version)
        refuse(r, 400, m->id, MCP_INVALID_PARAMS, "params._meta must name the protocol version");
    else if (strcmp(m->version, MCP_MODERN))
        unsupported(r, m, m->version);
    else if (!check_mirrors(r, m))
        return;
    else if (!strcmp(m->method, "server/discover"))
        discover(r, m);
    else if (!strcmp(m->method, "tools/list"))
        list_tools(r, m);
    else if (!strcmp(m->method, "tools/call")) // with the id of an initialize: `cellkeep mcp`, which has one client
        call_tool(r, mcp, id ? mcp_peer_find(mcp, id, http_owner(r)) : NULL, m);
    else
        refuse(r, 404, m->id, MCP_METHOD_NOT_FOUND, "there is no such method");
}

// --- the legacy era --------------------------------------------------------------------------------------

static void legacy_notification(struct http_req *r, struct mcp *mcp, struct mcp_peer *p, const struct mcp_message *m)
{
    const json_t *id = json_object_get(m->params, "requestId");
    if (m->method && !strcmp(m->method, "notifications/cancelled") && id) {
        struct mcp_call *c = mcp_call_find(mcp, p, id);
        if (c)
            mcp_call_cancel(c);
    }
    http_reply_empty(r, 202);
}

static void legacy_request(struct http_req *r, struct mcp *mcp, struct mcp_peer *p, const struct mcp_message *m)
{
    if (!strcmp(m->method, "ping"))
        reply(r, m, json_object());
    else if (!strcmp(m->method, "tools/list"))
        list_tools(r, m);
    else if (!strcmp(m->method, "tools/call"))
        call_tool(r, mcp, p, m);
    else
        refuse(r, 200, m->id, MCP_METHOD_NOT_FOUND, "there is no such method");
}

// The client that the header names; NULL after having answered.
static struct mcp_peer *peer_of(struct http_req *r, struct mcp *mcp, const json_t *id)
{
    const char *session = http_header_in(r, "Mcp-Session-Id");
    struct mcp_peer *p = session ? mcp_peer_find(mcp, session, http_owner(r)) : NULL;
    if (!session)
        refuse(r, 400, id, MCP_INVALID_REQUEST, "the header Mcp-Session-Id is missing: begin with initialize");
    else if (!p)
        refuse(r, 404, id, MCP_INVALID_REQUEST, "there is no such session any more: begin again with initialize");
    return p;
}

static void legacy(struct http_req *r, struct mcp *mcp, const struct mcp_message *m)
{
    const char *version = http_header_in(r, "MCP-Protocol-Version");
    if (version && !strcmp(version, MCP_MODERN)) {
        refuse(r, 400, m->id, MCP_INVALID_PARAMS, "params._meta must name the protocol version");
        return;
    }
    if (version && !mcp_legacy_version(version)) {
        refuse(r, 400, m->id, MCP_INVALID_REQUEST,
               "the header MCP-Protocol-Version names a version that is not supported");
        return;
    }
    if (m->kind == MCP_REQUEST && !strcmp(m->method, "initialize")) {
        initialize(r, mcp, m);
        return;
    }
    struct mcp_peer *p = peer_of(r, mcp, m->id);
    if (p && version)
        snprintf(p->version, sizeof p->version, "%s", version);
    if (p && m->kind == MCP_REQUEST)
        legacy_request(r, mcp, p, m);
    else if (p)
        legacy_notification(r, mcp, p, m);
}

// --- routes ----------------------------------------------------------------------------------------------

struct post {
    struct mcp_message m;
    enum mcp_error_code code;
};

static int parse(struct ck_slice body, void *user, struct ck_err *err)
{
    struct post *p = user;
    return mcp_message_parse(body, &p->m, &p->code, err);
}

static void parsed(struct http_req *r, void *user, int rc, const struct ck_err *err)
{
    struct post *p = user;
    struct mcp *mcp = mcp_of(r);
    if (rc || !mcp)
        refuse(r, rc ? 400 : 503, NULL, rc ? p->code : MCP_INTERNAL_ERROR,
               rc ? err->text : "the gateway is out of memory");
    else if (!p->m.modern)
        legacy(r, mcp, &p->m);
    else if (p->m.kind == MCP_REQUEST)
        modern_request(r, mcp, &p->m);
    else
        http_reply_empty(r, 202);
    mcp_message_free(&p->m);
    free(p);
}

static void post(struct http_req *r)
{
    if (!check_http(r))
        return;
    struct post *p = calloc(1, sizeof *p);
    if (p)
        v1_parse_body(r, parse, parsed, p);
    else
        refuse(r, 503, NULL, MCP_INTERNAL_ERROR, "the gateway is out of memory");
}

static void deleted(void *user, const struct ck_err *err)
{
    (void)err; // its session is gone all the same, or will be when its time is over
    http_reply_empty(user, 204);
}

static void delete(struct http_req *r)
{
    struct mcp *mcp = mcp_of(r);
    struct mcp_peer *p = mcp && origin_allowed(r) ? peer_of(r, mcp, NULL) : NULL;
    if (!mcp || !origin_allowed(r)) {
        refuse(r, 403, NULL, MCP_INVALID_REQUEST,
               "this Origin is not allowed: see the gateway's option --allow-origin");
        return;
    }
    if (!p)
        return;
    struct session *s = *p->session && !p->named ? registry_find(mcp->gw->registry, p->session) : NULL;
    mcp_peer_remove(p, mcp);
    if (s)
        registry_delete(mcp->gw->registry, s, deleted, r);
    else
        http_reply_empty(r, 204);
}

const struct http_route ck_mcp_routes[] = {
    {HTTP_POST, "/mcp", HTTP_BEARER, MCP_BODY_MAX, post},
    {HTTP_DELETE, "/mcp", HTTP_BEARER, 0, delete},
};
const size_t ck_mcp_nroutes = sizeof ck_mcp_routes / sizeof *ck_mcp_routes;
