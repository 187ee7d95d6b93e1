// One request: from its head to the call of its handler, and the way of its body. Decides 404, 405,
// 403, 413 and 426 itself; what is written back is http_reply.c.
#include "gateway/http_internal.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "gateway/auth.h"
#include "gateway/http_url.h"

#include <stdlib.h>
#include <strings.h>

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

// A decoded copy that lives as long as the request; NULL when it cannot be decoded.
static const char *keep_decoded(struct http_req *r, const char *raw, size_t n, bool plus)
{
    struct req_string *s = malloc(sizeof *s + n + 1);
    if (!s)
        return NULL;
    if (http_url_decode(raw, n, plus, s->text)) {
        free(s);
        return NULL;
    }
    s->next = r->strings;
    r->strings = s;
    return s->text;
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

static void call_handler(struct http_req *r)
{
    struct http_conn *c = r->conn;
    if (r->route->flags & HTTP_WEBSOCKET)
        c->deadline = ck_mono_ms() + HTTP_UPGRADE_MS;
    r->route->handle(r); // r may be gone now
}

static void set_body_complete(struct http_req *r)
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
    char list[80] = "";
    for (unsigned bit = HTTP_GET; bit <= HTTP_DELETE; bit <<= 1) {
        if (!(allowed & bit))
            continue;
        strcat(list, http_method_name(bit));
        strcat(list, ", ");
    }
    strcat(list, "OPTIONS");
    http_header_add(r, "Allow", list);
    refuse(r, 405, "method_not_allowed", "this URL does not know that method; the Allow header lists what it knows");
}

// CORS preflight: answered for every path, without a token, as browsers send none.
static void preflight(struct http_req *r)
{
    http_header_add(r, "Access-Control-Allow-Headers",
                    "accept, content-type, authorization, x-xsrftoken, last-event-id");
    http_header_add(r, "Access-Control-Allow-Methods", "GET, PUT, POST, PATCH, DELETE, OPTIONS");
    http_header_add(r, "Access-Control-Max-Age", "600");
    swallow_ready_body(r);
    http_reply_empty(r, 204);
}

static bool authorise(struct http_req *r)
{
    const char *raw = NULL, *token = NULL;
    size_t n = 0;
    if (http_url_query(r->head.query, "token", &raw, &n))
        token = keep_decoded(r, raw, n, true);
    if (!r->srv->opt.auth)
        r->auth = HTTP_AUTH_HEADER;
    else
        r->auth = auth_check(r->srv->opt.auth, http_head_get(&r->head, "Authorization"), token);
    return r->auth != HTTP_AUTH_NONE;
}

static bool take_params(struct http_req *r, const struct router_match *m)
{
    for (size_t i = 0; i < m->nparams; i++) {
        r->params[i].name = m->params[i].name;
        r->params[i].value = keep_decoded(r, m->params[i].raw, m->params[i].len, false);
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
    if (!body_expected(r)) {
        set_body_complete(r);
        call_handler(r);
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
        call_handler(r);
}

void req_dispatch(struct http_req *r)
{
    struct router_match m;
    r->conn->state = CONN_BODY;
    if (!body_expected(r))
        set_body_complete(r);
    size_t path_len = strlen(r->head.path);
    r->path = malloc(path_len + 1);
    if (!r->path || http_url_decode(r->head.path, path_len, false, r->path)) {
        free(r->path);
        r->path = NULL;
        refuse(r, 400, "bad_url", "the URL has a broken %-escape, a NUL, or is not UTF-8");
        return;
    }
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
    else if (!authorised && !(m.route->flags & HTTP_OPEN))
        refuse(r, 403, "forbidden", "Forbidden");
    else if (m.route->flags & HTTP_WEBSOCKET && !r->head.websocket) {
        http_header_add(r, "Upgrade", "websocket");
        refuse(r, 426, "upgrade_required", "this URL is a WebSocket; connect with one");
    } else if (!take_params(r, &m))
        refuse(r, 400, "bad_url", "the URL has a broken %-escape, a NUL, or is not UTF-8");
    else
        start_body(r);
}

// --- body ------------------------------------------------------------------------------------------

static void body_error(struct http_req *r, const struct ck_err *err)
{
    if (r->answer == ANSWER_NONE)
        reply_own_error(r->conn, r, err);
    else
        conn_kill(r->conn); // the answer is on its way: cutting is all that is left
}

// One piece of decoded body. -1 when the request ended because of it.
static int deliver(struct http_req *r, struct ck_slice piece)
{
    struct ck_err err = CK_ERR_INIT;
    r->body_received += piece.n;
    if (r->answer == ANSWER_DONE || !piece.n)
        return 0;
    if (r->body_max && r->body_received > r->body_max) {
        ck_fail(&err, 413, "body_too_large", "the request body is over the limit of %llu bytes",
                (unsigned long long)r->body_max);
        body_error(r, &err);
        return -1;
    }
    if (r->route->flags & HTTP_STREAM) {
        r->body_ev.on_data(r, r->user, piece);
        return 0;
    }
    if (ck_buf_add(&r->body, piece.p, piece.n)) {
        ck_fail(&err, 503, "no_memory", "out of memory");
        body_error(r, &err);
        return -1;
    }
    return 0;
}

static void body_ended(struct http_req *r)
{
    bool collected = r->answer == ANSWER_NONE && r->route && !(r->route->flags & HTTP_STREAM);
    set_body_complete(r);
    if (collected)
        call_handler(r);
}

size_t req_body_feed(struct http_req *r, const uint8_t *p, size_t n)
{
    struct ck_slice piece = ck_slice(p, 0);
    struct ck_err err = CK_ERR_INIT;
    size_t used = 0;
    int rc = 1;
    if (n > HTTP_AHEAD_MAX)
        n = HTTP_AHEAD_MAX; // the promised size of a piece
    const bool chunked = r->head.chunked;
    if (chunked) {
        rc = http_chunked_feed(&r->chunked, p, n, &used, &piece, &err);
    } else {
        uint64_t left = (uint64_t)r->head.content_length - r->body_received;
        piece.n = used = n < left ? n : (size_t)left;
    }
    if (rc < 0) {
        body_error(r, &err);
        return n; // whatever follows cannot be understood
    }
    if (deliver(r, piece))
        return used;
    bool ended = rc == 2 || (!chunked && r->body_received == (uint64_t)r->head.content_length);
    if (ended)
        body_ended(r); // r may be gone now
    return used;
}

void http_body_read(struct http_req *r, const struct http_body_events *ev, uint64_t max)
{
    r->body_ev = *ev;
    r->body_max = max;
    r->body_reading = true;
    r->body_started = ck_mono_ms();
    if (r->conn)
        conn_want_write(r->conn); // the loop comes back to us: nothing is delivered from inside this call
}

int64_t http_body_length(const struct http_req *r)
{
    return r->head.chunked ? -1 : r->head.content_length > 0 ? r->head.content_length : 0;
}

void http_body_pause(struct http_req *r)
{
    if (!r->conn || r->conn->state == CONN_FLUSH)
        return;
    r->conn->rx_paused = true;
    conn_update_rx(r->conn);
}

void http_body_resume(struct http_req *r)
{
    if (!r->conn || !r->conn->rx_paused)
        return;
    r->conn->rx_paused = false;
    conn_update_rx(r->conn);
    conn_want_write(r->conn); // delivers what was held back
}

struct ck_slice http_body(const struct http_req *r)
{
    return ck_buf_slice(&r->body);
}

json_t *http_body_json(struct http_req *r, struct ck_err *err)
{
    if (!r->json)
        r->json = ck_json_parse_object(r->body.p, r->body.n, true, err);
    return r->json;
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
