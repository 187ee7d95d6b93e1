// Streamed answers and server-sent events. Appends to the connection's queue and says when the source
// should wait; never blocks, never drops a byte of a connection that goes on.
#include "gateway/http_internal.h"

#include <stdio.h>

static void begin(struct http_req *r, int status, const char *type, int64_t length)
{
    CK_CLEAN_BUF struct ck_buf head = CK_BUF_INIT;
    r->status = status;
    r->answer = ANSWER_STREAM;
    r->chunked_out = length < 0 && r->head.minor == 1;
    r->length_left = length;
    if (!r->conn)
        return;
    reply_decide_keep_alive(r);
    if (length < 0 && !r->chunked_out)
        r->keep_alive = false; // ends with the connection
    reply_start_head(&head, r->srv, r, status, type);
    if (length >= 0)
        ck_buf_printf(&head, "Content-Length: %lld\r\n", (long long)length);
    else if (r->chunked_out)
        ck_buf_add_str(&head, "Transfer-Encoding: chunked\r\n");
    reply_end_head(&head, r);
    if (out_copy(&r->conn->out, head.p, head.n))
        conn_kill(r->conn);
    conn_queue_check(r->conn);
}

void http_stream_begin(struct http_req *r, int status, const char *type, int64_t length)
{
    if (r->answer == ANSWER_NONE)
        begin(r, status, type, length);
}

// Shared front of the two writes. False = drop the bytes.
static bool writable(struct http_req *r, size_t n)
{
    if (!r->conn || r->conn->killed || r->answer != ANSWER_STREAM || r->head_only || !n)
        return false;
    if (r->length_left < 0)
        return true;
    if ((uint64_t)r->length_left < n) { // more than was promised: the client must not take it for whole
        conn_kill(r->conn);
        return false;
    }
    r->length_left -= (int64_t)n;
    return true;
}

static int after_write(struct http_req *r, int rc)
{
    struct http_conn *c = r->conn;
    if (rc)
        conn_kill(c);
    r->sse_next = ck_mono_ms() + HTTP_SSE_COMMENT_MS;
    conn_queue_check(c);
    return c->over_mark;
}

int http_stream_write(struct http_req *r, const void *p, size_t n)
{
    if (!writable(r, n))
        return 0;
    struct out_queue *q = &r->conn->out;
    char size[24];
    int rc = 0;
    if (r->chunked_out)
        rc = out_copy(q, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n));
    rc = rc || out_copy(q, p, n);
    if (r->chunked_out)
        rc = rc || out_copy(q, "\r\n", 2);
    return after_write(r, rc);
}

int http_stream_write_blob(struct http_req *r, struct ck_blob *b, size_t off, size_t n)
{
    if (!writable(r, n))
        return 0;
    struct out_queue *q = &r->conn->out;
    char size[24];
    int rc = 0;
    if (r->chunked_out)
        rc = out_copy(q, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n));
    rc = rc || out_blob(q, b, off, n);
    if (r->chunked_out)
        rc = rc || out_copy(q, "\r\n", 2);
    return after_write(r, rc);
}

void http_on_drain(struct http_req *r, void (*cb)(struct http_req *r, void *user))
{
    r->on_drain = cb;
}

size_t http_stream_queued(const struct http_req *r)
{
    return r->conn ? r->conn->out.bytes : 0;
}

void http_stream_end(struct http_req *r)
{
    struct http_conn *c = r->conn;
    if (!c) {
        req_free(r);
        return;
    }
    if (r->answer != ANSWER_STREAM)
        return;
    bool short_end = r->length_left > 0 && !r->head_only;
    if (r->chunked_out && !r->head_only && out_copy(&c->out, "0\r\n\r\n", 5))
        short_end = true;
    r->answer = ANSWER_DONE;
    if (short_end) {
        conn_kill(c);
        return;
    }
    conn_queue_check(c);
    conn_answer_done(c);
}

void http_stream_abort(struct http_req *r)
{
    if (!r->conn) {
        req_free(r);
        return;
    }
    r->answer = ANSWER_DONE;
    conn_kill(r->conn);
}

// --- server-sent events ------------------------------------------------------------------------------

void http_sse_begin(struct http_req *r)
{
    http_header_add(r, "Cache-Control", "no-cache");
    http_header_add(r, "X-Accel-Buffering", "no");
    if (r->answer != ANSWER_NONE)
        return;
    begin(r, 200, "text/event-stream", -1);
    r->sse = true;
    r->sse_next = ck_mono_ms() + HTTP_SSE_COMMENT_MS;
}

void reply_sse_comment(struct http_req *r)
{
    if (!r->conn->out.bytes)
        http_stream_write(r, ": keepalive\n\n", 13);
    r->sse_next = ck_mono_ms() + HTTP_SSE_COMMENT_MS;
}

int http_sse_send(struct http_req *r, const char *event, int64_t id, const void *data, size_t n)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    const char *p = data, *end = p + n;
    int rc = 0;
    if (id >= 0)
        rc |= ck_buf_printf(&b, "id: %lld\n", (long long)id);
    if (event)
        rc |= ck_buf_printf(&b, "event: %s\n", event);
    do { // a line end of any kind inside the data would end the field
        const char *eol = p;
        while (eol < end && *eol != '\n' && *eol != '\r')
            eol++;
        rc |= ck_buf_add_str(&b, "data: ");
        rc |= ck_buf_add(&b, p, (size_t)(eol - p));
        rc |= ck_buf_add(&b, "\n", 1);
        if (eol == end)
            break;
        p = eol + (*eol == '\r' && eol + 1 < end && eol[1] == '\n' ? 2 : 1);
    } while (true);
    rc |= ck_buf_add(&b, "\n", 1);
    if (rc) {
        if (r->conn)
            conn_kill(r->conn);
        return 1;
    }
    return http_stream_write(r, b.p, b.n);
}
