// The way of a request's body: framing taken off, bounded, then collected for the handler or handed to
// it piece by piece. Also answers the handler's questions about it.
#include "gateway/http_internal.h"

#include "common/ck_json.h"

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
    req_set_body_complete(r);
    if (collected)
        req_call_handler(r);
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
