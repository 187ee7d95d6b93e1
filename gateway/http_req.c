// One request: from its head to the call of its handler. Decides 404, 405, 403, 413 and 426 itself; its
// body is http_body.c, what is written back http_reply.c.
#include "gateway/http_internal.h"

#include "common/ck_utf8.h"
#include "gateway/auth.h"
#include "gateway/auth_limit.h"
#include "gateway/http_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

struct http_req *req_new(struct http_conn *c, size_t head_len, struct ck_err *err)
{
    struct http_req *r = calloc(1, sizeof *r);
    if (r)
        r->head_text = malloc(head_len);
    if (!r || !r->head_text) {
        free(r);
        ck_fail(err, 503, "no_memory", "out of memory");
        return NULL;
    }
    memcpy(r->head_text, c->in.p, head_len);
    ck_buf_consume(&c->in, head_len);
    r->conn = c;
    r->srv = c->srv;
    r->started_ms = r->body_started = ck_mono_ms();
    r->length_left = -1;
    if (http_head_parse(r->head_text, head_len, &r->head, err)) {
        req_free(r);
        return NULL;
    }
    r->head_only = r->head.method == HTTP_HEAD;
    return r;
}

void req_free(struct http_req *r)
{
    if (!r)
        return;
    while (r->strings) {
        struct req_string *s = r->strings;
        r->strings = s->next;
        free(s);
    }
    json_decref(r->json);
    ck_buf_free(&r->body);
    ck_buf_free(&r->headers);
    free(r->path);
    free(r->head_text);
    free(r);
}

void req_gone(struct http_req *r)
{
    r->conn = NULL;
    if (!r->on_gone)
        return; // stays until its handler answers
    r->on_gone(r, r->user);
    req_free(r);
}

typedef int (*url_decoder)(const char *in, size_t n, bool plus_is_space, char *out);

// A decoded copy that lives as long as the request; NULL when it cannot be decoded.
static const char *keep(struct http_req *r, const char *raw, size_t n, bool plus, url_decoder decode)
{
    struct req_string *s = malloc(sizeof *s + n + 1);
    if (!s)
        return NULL;
    if (decode(raw, n, plus, s->text)) {
        free(s);
        return NULL;
    }
    s->next = r->strings;
    r->strings = s;
    return s->text;
}

static const char *keep_decoded(struct http_req *r, const char *raw, size_t n, bool plus)
{
    return keep(r, raw, n, plus, http_url_decode);
}

// The path below the base URL, or NULL.
static const char *below_base(const struct http_req *r)
{
    const char *path = r->head.path;
    size_t n = r->srv->base_len;
    if (strncmp(path, r->srv->opt.base_url, n))
        return NULL;
    return path[n] == '/' ? path + n : path[n] ? NULL : "/";
}

static bool body_expected(const struct http_req *r)
{
    return r->head.chunked || r->head.content_length > 0;
}

void req_call_handler(struct http_req *r)
{
    struct http_conn *c = r->conn;
    if (r->route->flags & HTTP_WEBSOCKET)
        c->deadline = ck_mono_ms() + HTTP_UPGRADE_MS;
    r->route->handle(r); // r may be gone now
}

void req_set_body_complete(struct http_req *r)
{
    r->body_complete = true;
    if (r->conn->state == CONN_BODY)
        r->conn->state = CONN_WAIT;
}

// Takes what came with the head, so that an early refusal need not close the connection.
static void swallow_ready_body(struct http_req *r)
{
    struct http_conn *c = r->conn;
    r->answer = ANSWER_DONE; // nothing is delivered
    while (!r->body_complete && c->in.n) {
        size_t used = req_body_feed(r, c->in.p, c->in.n);
        ck_buf_consume(&c->in, used);
        if (!used)
            break;
    }
    r->answer = ANSWER_NONE;
}

static void refuse(struct http_req *r, int status, const char *reason, const char *message)
{
    swallow_ready_body(r);
    http_reply_error(r, status, reason, "%s", message);
}

static void refuse_method(struct http_req *r, unsigned allowed)
{
    char list[80];
    size_t n = 0;
    for (unsigned bit = HTTP_GET; bit <= HTTP_DELETE; bit <<= 1) {
        if (!(allowed & bit))
            continue;
        const char *name = http_method_name(bit);
        n += (size_t)snprintf(list + n, sizeof list - n, "%s, ", name); // all of them have room
    }
    snprintf(list + n, sizeof list - n, "OPTIONS");
    http_header_add(r, "Allow", list);
    refuse(r, 405, "method_not_allowed", "this URL does not know that method; the Allow header lists what it knows");
}

// CORS preflight: answered for every path, without a token, as browsers send none.
static void preflight(struct http_req *r)
{
    http_header_add(r, "Access-Control-Allow-Headers",
                    "accept, content-type, authorization, x-xsrftoken, last-event-id, mcp-session-id, "
                    "mcp-protocol-version, mcp-method, mcp-name");
    http_header_add(r, "Access-Control-Allow-Methods", "GET, PUT, POST, PATCH, DELETE, OPTIONS");
    http_header_add(r, "Access-Control-Max-Age", "600");
    swallow_ready_body(r);
    http_reply_empty(r, 204);
}

static uint64_t client_key(const struct http_conn *c)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof peer;
    getpeername(lws_get_socket_fd(c->wsi), (struct sockaddr *)&peer, &n);
    return auth_limit_key((const struct sockaddr *)&peer);
}

// A wrong token, of which there were too many from there. Its connection goes too: each further one costs a new one.
static void refuse_for_now(struct http_req *r)
{
    char after[16];
    snprintf(after, sizeof after, "%d", r->retry_s);
    http_header_add(r, "Retry-After", after);
    r->head.keep_alive = false;
    refuse(r, 429, "too_many_failures", "the token is wrong, and too many from this address were; try again later, with the right one");
}

static bool authorise(struct http_req *r)
{
    const char *raw = NULL, *token = NULL;
    size_t n = 0;
    if (http_url_query(r->head.query, "token", &raw, &n))
        token = keep_decoded(r, raw, n, true);
    const struct auth_token *who = NULL;
    if (!r->srv->opt.auth)
        r->auth = HTTP_AUTH_HEADER;
    else
        r->auth = auth_identify(r->srv->opt.auth, http_head_get(&r->head, "Authorization"), token, &who);
    if (r->auth == HTTP_AUTH_NONE && r->srv->opt.auth_limit && auth_tried(http_head_get(&r->head, "Authorization"), token))
        r->retry_s = auth_limit_failed(r->srv->opt.auth_limit, client_key(r->conn), r->started_ms);
    if (who)
        memcpy(r->owner, who->id, sizeof r->owner);
    memcpy(r->conn->owner, r->owner, sizeof r->owner);
    if (r->auth != HTTP_AUTH_NONE)
        conn_proved(r->conn);
    return r->auth != HTTP_AUTH_NONE;
}

static bool take_params(struct http_req *r, const struct router_match *m)
{
    for (size_t i = 0; i < m->nparams; i++) {
        r->params[i].name = m->params[i].name;
        r->params[i].value = keep(r, m->params[i].raw, m->params[i].len, false,
                                  m->params[i].rest ? http_url_bytes : http_url_decode);
        if (!r->params[i].value)
            return false;
    }
    r->nparams = m->nparams;
    return true;
}

static size_t collect_cap(const struct http_req *r)
{
    size_t cap = r->route->max_body ? r->route->max_body : HTTP_BODY_DEFAULT;
    return cap < r->srv->opt.max_body ? cap : r->srv->opt.max_body;
}

static void start_body(struct http_req *r)
{
    struct http_conn *c = r->conn;
    bool streamed = r->route->flags & HTTP_STREAM;
    const char *coding = http_head_get(&r->head, "Content-Encoding");
    if (!body_expected(r)) {
        req_set_body_complete(r);
        req_call_handler(r);
        return;
    }
    if (coding && *coding && strcasecmp(coding, "identity")) {
        http_header_add(r, "Accept-Encoding", "identity");
        refuse(r, 415, "unsupported_encoding", "a request body with a Content-Encoding is not taken: send it as it is");
        return;
    }
    if (!streamed && r->head.content_length > (int64_t)collect_cap(r)) {
        char said[80];
        snprintf(said, sizeof said, "the request body is over the limit of %zu bytes", collect_cap(r));
        refuse(r, 413, "body_too_large", said);
        return;
    }
    r->body_max = streamed ? 0 : collect_cap(r);
    r->body_reading = !streamed;
    if (r->head.expect_continue && !c->in.n) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        out_copy(&c->out, go_on, sizeof go_on - 1);
        conn_queue_check(c);
    }
    if (streamed)
        req_call_handler(r);
}

// For the log, and for whoever asks for the whole path: what is not UTF-8 becomes "?".
static void make_printable(char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0, len; i < n; i += len ? len : 1)
        if (!(len = ck_utf8_char((const uint8_t *)path + i, n - i)))
            path[i] = '?';
}

void req_dispatch(struct http_req *r)
{
    struct router_match m;
    r->conn->state = CONN_BODY;
    if (!body_expected(r))
        req_set_body_complete(r);
    size_t path_len = strlen(r->head.path);
    r->path = malloc(path_len + 1);
    if (!r->path || http_url_bytes(r->head.path, path_len, false, r->path)) {
        free(r->path);
        r->path = NULL;
        refuse(r, 400, "bad_url", "the URL has a broken %-escape or a NUL");
        return;
    }
    make_printable(r->path);
    if (r->head.method == HTTP_OPTIONS) {
        preflight(r);
        return;
    }
    bool authorised = authorise(r);
    const char *raw = below_base(r);
    if (raw)
        memmove(r->path, r->path + r->srv->base_len, strlen(r->path + r->srv->base_len) + 1);
    router_match(r->srv->router, r->head.method, raw ? raw : "", &m);
    r->route = m.route;
    if (!raw || !m.allowed)
        refuse(r, 404, "not_found", "there is nothing at this URL");
    else if (!m.route)
        refuse_method(r, m.allowed);
    else if (!authorised && r->retry_s && !(m.route->flags & HTTP_OPEN))
        refuse_for_now(r);
    else if (!authorised && m.route->flags & HTTP_BEARER) {
        http_header_add(r, "WWW-Authenticate", "Bearer");
        refuse(r, 401, "unauthorized", "the token is missing or wrong: Authorization: Bearer T");
    } else if (!authorised && !(m.route->flags & HTTP_OPEN))
        refuse(r, 403, "forbidden", "Forbidden");
    else if (m.route->flags & HTTP_WEBSOCKET && !r->head.websocket) {
        http_header_add(r, "Upgrade", "websocket");
        refuse(r, 426, "upgrade_required", "this URL is a WebSocket; connect with one");
    } else if (!take_params(r, &m))
        refuse(r, 400, "bad_url", "the URL has a broken %-escape, a NUL, or is not UTF-8");
    else
        start_body(r);
}

// --- what a handler asks -------------------------------------------------------------------------------

struct gateway *http_gateway(const struct http_req *r)
{
    return r->srv->opt.gateway;
}

enum http_method http_method(const struct http_req *r)
{
    return r->head.method;
}

const char *http_path(const struct http_req *r)
{
    return r->path;
}

const char *http_base_url(const struct http_req *r)
{
    return r->srv->opt.base_url;
}

const char *http_param(const struct http_req *r, const char *name)
{
    for (size_t i = 0; i < r->nparams; i++)
        if (!strcmp(r->params[i].name, name))
            return r->params[i].value;
    return NULL;
}

const char *http_query(const struct http_req *r, const char *name)
{
    const char *raw;
    size_t n;
    if (!http_url_query(r->head.query, name, &raw, &n))
        return NULL;
    return keep_decoded((struct http_req *)(uintptr_t)r, raw, n, true);
}

const char *http_header_in(const struct http_req *r, const char *name)
{
    return http_head_get(&r->head, name);
}

bool http_header_has(const struct http_req *r, const char *name, const char *token)
{
    return http_head_list_has(&r->head, name, token);
}

enum http_auth http_auth(const struct http_req *r)
{
    return r->auth;
}

const char *http_owner(const struct http_req *r)
{
    return r->owner;
}

void http_set_user(struct http_req *r, void *user)
{
    r->user = user;
}

void *http_user(const struct http_req *r)
{
    return r->user;
}

void http_on_gone(struct http_req *r, void (*cb)(struct http_req *r, void *user))
{
    r->on_gone = cb;
}

bool http_ws_offered(const struct http_req *r, const char *subprotocol)
{
    return http_head_list_has(&r->head, "Sec-WebSocket-Protocol", subprotocol);
}
