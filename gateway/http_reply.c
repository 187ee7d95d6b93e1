// Answers: the head with its CORS and connection headers, whole bodies, errors. Only ever appends to the
// connection's queue; the socket is http_conn.c's, streams are http_stream.c.
#include "gateway/http_internal.h"

#include "common/ck_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *status_text(int status)
{
    static const struct {
        int code;
        const char *text;
    } T[] = {{101, "Switching Protocols"}, {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"},
             {206, "Partial Content"}, {301, "Moved Permanently"}, {302, "Found"}, {304, "Not Modified"},
             {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"},
             {405, "Method Not Allowed"}, {406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"},
             {410, "Gone"}, {411, "Length Required"}, {412, "Precondition Failed"}, {413, "Content Too Large"},
             {414, "URI Too Long"}, {415, "Unsupported Media Type"}, {416, "Range Not Satisfiable"},
             {417, "Expectation Failed"}, {422, "Unprocessable Content"}, {426, "Upgrade Required"},
             {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"}, {500, "Internal Server Error"},
             {501, "Not Implemented"}, {502, "Bad Gateway"}, {503, "Service Unavailable"}, {504, "Gateway Timeout"},
             {505, "HTTP Version Not Supported"}, {507, "Insufficient Storage"}};
    for (size_t i = 0; i < sizeof T / sizeof T[0]; i++)
        if (T[i].code == status)
            return T[i].text;
    return status < 400 ? "OK" : "Error";
}

static bool has_no_body(int status)
{
    return status == 204 || status == 304 || status < 200;
}

// The configured origin for anybody; the caller's own one when a token proved that it may.
static void add_cors(const struct http_server *s, const struct http_req *r, struct ck_buf *b)
{
    const char *origin = r ? http_head_get(&r->head, "Origin") : NULL;
    const char *allow = r && origin && r->auth != HTTP_AUTH_NONE ? origin : s->opt.allow_origin;
    if (!allow)
        return;
    ck_buf_printf(b, "Access-Control-Allow-Origin: %s\r\n", allow);
    ck_buf_printf(b, "Access-Control-Expose-Headers: Location, ETag, Content-Range, Retry-After, Mcp-Session-Id\r\n");
    if (strcmp(allow, "*"))
        ck_buf_add_str(b, "Vary: Origin\r\n");
}

static void add_date(struct ck_buf *b)
{
    struct tm tm;
    char text[64];
    time_t now = (time_t)(ck_wall_us() / 1000000);
    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
    ck_buf_add_str(b, text);
}

// r is NULL for an answer to something that never became a request.
void reply_start_head(struct ck_buf *b, const struct http_server *s, const struct http_req *r, int status, const char *type)
{
    ck_buf_printf(b, "HTTP/1.1 %d %s\r\n", status, status_text(status));
    add_date(b);
    if (type)
        ck_buf_printf(b, "Content-Type: %s\r\n", type);
    ck_buf_add_str(b, "X-Content-Type-Options: nosniff\r\n");
    add_cors(s, r, b);
    if (r)
        ck_buf_add(b, r->headers.p, r->headers.n);
}

void reply_end_head(struct ck_buf *b, const struct http_req *r)
{
    if (!r->keep_alive)
        ck_buf_add_str(b, "Connection: close\r\n");
    else if (r->head.minor == 0)
        ck_buf_add_str(b, "Connection: keep-alive\r\n");
    ck_buf_add_str(b, "\r\n");
}

int http_header_add(struct http_req *r, const char *name, const char *value)
{
    if (strpbrk(value, "\r\n") || strpbrk(name, "\r\n: "))
        return -1;
    return ck_buf_printf(&r->headers, "%s: %s\r\n", name, value);
}

void reply_decide_keep_alive(struct http_req *r)
{
    r->keep_alive = r->head.keep_alive && r->body_complete && !r->srv->draining;
}

// True when there is still a client to answer; else the request is over.
static bool answerable(struct http_req *r)
{
    if (r->conn && !r->conn->killed)
        return r->answer == ANSWER_NONE;
    if (!r->conn)
        req_free(r);
    else
        r->answer = ANSWER_DONE; // freed with its connection
    return false;
}

static void finish(struct http_req *r)
{
    r->answer = ANSWER_DONE;
    conn_queue_check(r->conn);
    conn_answer_done(r->conn);
}

// Head of an answer of n bytes into the queue; false when there is nobody to answer.
static bool whole_head(struct http_req *r, int status, const char *type, size_t n)
{
    CK_CLEAN_BUF struct ck_buf head = CK_BUF_INIT;
    if (!answerable(r))
        return false;
    reply_decide_keep_alive(r);
    r->status = status;
    reply_start_head(&head, r->srv, r, status, has_no_body(status) ? NULL : type);
    if (!has_no_body(status))
        ck_buf_printf(&head, "Content-Length: %zu\r\n", n);
    reply_end_head(&head, r);
    if (out_copy(&r->conn->out, head.p, head.n))
        conn_kill(r->conn);
    return true;
}

void http_reply_buf(struct http_req *r, int status, const char *type, struct ck_buf *b)
{
    if (whole_head(r, status, type, b->n)) {
        bool body = !r->head_only && !has_no_body(status);
        int rc = !body ? 0 : b->n < HTTP_AHEAD_MAX ? out_copy(&r->conn->out, b->p, b->n) : out_buf(&r->conn->out, b);
        if (rc)
            conn_kill(r->conn);
        finish(r);
    }
    ck_buf_free(b);
}

void http_reply_bytes(struct http_req *r, int status, const char *type, const void *p, size_t n)
{
    if (!whole_head(r, status, type, n))
        return;
    if (!r->head_only && !has_no_body(status) && out_copy(&r->conn->out, p, n))
        conn_kill(r->conn);
    finish(r);
}

void http_reply_json(struct http_req *r, int status, json_t *body)
{
    struct ck_buf b = CK_BUF_INIT;
    int rc = body ? ck_json_dump(body, &b) : -1;
    json_decref(body);
    if (rc || ck_buf_add(&b, "\n", 1)) {
        ck_buf_free(&b);
        http_reply_error(r, 500, "no_memory", "the answer could not be built");
        return;
    }
    http_reply_buf(r, status, "application/json", &b);
}

void http_reply_empty(struct http_req *r, int status)
{
    http_reply_bytes(r, status, NULL, "", 0);
}

static void add_member(struct ck_buf *b, const char *before, const char *text)
{
    ck_buf_add_str(b, before);
    ck_buf_add_json_str(b, text, strlen(text));
}

static bool below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

// On the Jupyter door "reason" is the status in words, as Jupyter's servers have it, and ours is "code".
static void error_body(struct ck_buf *b, const struct http_req *r, int status, const struct ck_err *err)
{
    bool jupyter = r && r->path && (below(r->path, "/api") || below(r->path, "/kernelspecs"));
    add_member(b, "{\"message\":", err->text);
    add_member(b, ",\"reason\":", jupyter ? status_text(status) : err->reason);
    if (jupyter)
        add_member(b, ",\"code\":", err->reason);
    ck_buf_add_str(b, "}\n");
}

void http_reply_err(struct http_req *r, const struct ck_err *err)
{
    struct ck_buf b = CK_BUF_INIT;
    int status = err->status >= 400 && err->status <= 599 ? err->status : 500;
    error_body(&b, r, status, err);
    http_reply_buf(r, status, "application/json", &b);
}

void http_reply_error(struct http_req *r, int status, const char *reason, const char *fmt, ...)
{
    struct ck_err err = CK_ERR_INIT;
    va_list ap;
    err.status = status;
    snprintf(err.reason, sizeof err.reason, "%s", reason);
    va_start(ap, fmt);
    vsnprintf(err.text, sizeof err.text, fmt, ap);
    va_end(ap);
    http_reply_err(r, &err);
}

void reply_own_error(struct http_conn *c, const struct http_req *r, const struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_BUF struct ck_buf body = CK_BUF_INIT;
    if (c->req && c->req->answer != ANSWER_NONE) { // its bytes are out already
        conn_kill(c);
        return;
    }
    error_body(&body, r, err->status, err);
    reply_start_head(&b, c->srv, r, err->status, "application/json");
    ck_buf_printf(&b, "Content-Length: %zu\r\nConnection: close\r\n\r\n", body.n);
    if (!r || !r->head_only)
        ck_buf_add(&b, body.p, body.n);
    int rc = out_copy(&c->out, b.p, b.n);
    if (c->srv->opt.on_request)
        c->srv->opt.on_request(c->srv->opt.gateway, err->status);
    if (c->req) {
        struct http_req *gone = c->req;
        bool handed_out = gone->route && (gone->body_complete || gone->route->flags & HTTP_STREAM);
        c->req = NULL;
        if (handed_out)
            req_gone(gone); // a handler has it
        else
            req_free(gone);
    }
    conn_queue_check(c);
    conn_answer_done(c);
    if (rc)
        conn_kill(c);
}
