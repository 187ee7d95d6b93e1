// One TCP connection: reading, writing, deadlines and the end. libwebsockets carries the bytes (its
// raw role: sockets, TLS, readiness on our libuv loop); the HTTP and WebSocket grammar is ours.
//
// Why not lws' own HTTP role (4.1.6, lib/roles/http/server/server.c and h1/ops-h1.c): while an answer
// is pending (LRS_DOING_TRANSACTION) it neither reads nor stops polling the socket, so a client that
// leaves is not noticed and the loop spins; with input flow control on, it does not write either; it
// decodes and merges paths before we see them, knows no chunked requests, answers errors in HTML and
// refuses WebSocket clients that offer only subprotocols it does not know.
//
// One pitfall of the raw role is handled in conn_update_rx(): while lws keeps a part of our last
// write, it does not read, but would go on polling for input; so input is switched off for that time.
#include "gateway/http_internal.h"

#include "common/ck_log.h"

#include <sys/socket.h>

#define LOOKED_AT 64 // connections, for one that may go

static void after_write(struct http_conn *c);

void conn_kill(struct http_conn *c)
{
    if (c->killed)
        return;
    c->killed = true;
    shutdown(lws_get_socket_fd(c->wsi), SHUT_RDWR); // makes the socket ready, so that lws calls us and we say close
    conn_update_rx(c);
    lws_callback_on_writable(c->wsi);
}

// What is said in one turn of the loop goes out in one write at its end, straight to the socket, which
// takes it nearly always. One that does not, or that has more than one write's worth, is left to lws and
// its polling: that alone costs three system calls a write.
void conn_want_write(struct http_conn *c)
{
    struct http_server *s = c->srv;
    if (s->flushing || lws_partial_buffered(c->wsi)) {
        lws_callback_on_writable(c->wsi);
    } else if (!c->wants) {
        c->wants = true;
        c->wants_prev = NULL;
        c->wants_next = s->wants;
        if (s->wants)
            s->wants->wants_prev = c;
        s->wants = c;
    }
}

static void wants_no_more(struct http_conn *c)
{
    if (!c->wants)
        return;
    c->wants = false;
    if (c->wants_prev)
        c->wants_prev->wants_next = c->wants_next;
    else
        c->srv->wants = c->wants_next;
    if (c->wants_next)
        c->wants_next->wants_prev = c->wants_prev;
}

void conn_proved(struct http_conn *c)
{
    struct http_server *s = c->srv;
    if (!c->unproved)
        return;
    c->unproved = false;
    *(c->younger ? &c->younger->older : &s->youngest) = c->older;
    *(c->older ? &c->older->younger : &s->oldest) = c->younger;
}

// Whoever says nothing, or says it slowly, must not keep out those who have something to say: the one that
// has waited longest without showing a token goes, one between two requests before one that is answered.
bool conn_make_room(struct http_server *s)
{
    struct http_conn *c = s->oldest, *victim = c;
    for (int i = 0; c && i < LOOKED_AT; i++, c = c->younger)
        if (c->state == CONN_HEAD) {
            victim = c;
            break;
        }
    if (!victim)
        return false;
    s->evicted++;
    conn_proved(victim); // out of the list
    conn_kill(victim);
    return true;
}

void conn_update_rx(struct http_conn *c)
{
    bool keep_ahead = c->state == CONN_WAIT || c->state == CONN_FLUSH;
    bool off = !c->killed && (c->rx_paused || lws_partial_buffered(c->wsi) || (keep_ahead && c->in.n > HTTP_AHEAD_MAX));
    if (off == c->rx_off)
        return;
    c->rx_off = off;
    lws_rx_flow_control(c->wsi, off ? 0 : 1);
}

void conn_queue_check(struct http_conn *c)
{
    if (c->killed)
        return;
    if (c->out.bytes > HTTP_QUEUE_MAX) {
        ck_log(CK_LOG_WARN, "http", "queue_full bytes=%zu", c->out.bytes);
        conn_kill(c);
        return;
    }
    if (c->out.bytes > HTTP_HIGH_WATER)
        c->over_mark = true;
    if (!c->out.bytes)
        return;
    if (!c->write_deadline)
        c->write_deadline = ck_mono_ms() + HTTP_WRITE_MS;
    conn_want_write(c);
}

static bool take_head(struct http_conn *c)
{
    struct ck_err err = CK_ERR_INIT;
    while (c->in.n >= 2 && !memcmp(c->in.p, "\r\n", 2)) // RFC 9112 2.2: empty lines before a request
        ck_buf_consume(&c->in, 2);
    if (!c->in.n)
        return false;
    size_t n = http_head_length((const char *)c->in.p, c->in.n < HTTP_HEAD_MAX ? c->in.n : HTTP_HEAD_MAX);
    if (!n && c->in.n < HTTP_HEAD_MAX) {
        int64_t limit = ck_mono_ms() + HTTP_HEAD_MS; // runs from the first byte on
        if (!c->deadline || c->deadline > limit || c->served)
            c->deadline = limit;
        c->served = false;
        return false;
    }
    if (!n)
        ck_fail(&err, 431, "headers_too_large", "the request line and headers are over %d bytes", HTTP_HEAD_MAX);
    else
        c->req = req_new(c, n, &err);
    if (!c->req) {
        reply_own_error(c, NULL, &err);
        return false;
    }
    c->deadline = 0;
    req_dispatch(c->req);
    return true;
}

static bool take_body(struct http_conn *c)
{
    struct http_req *r = c->req;
    if (c->rx_paused || !c->in.n || (!r->body_reading && r->answer != ANSWER_DONE))
        return false;
    size_t used = req_body_feed(r, c->in.p, c->in.n);
    ck_buf_consume(&c->in, used);
    return used > 0;
}

// One step over c->in; false when there is nothing more to do now.
static bool step(struct http_conn *c)
{
    switch (c->state) {
    case CONN_HEAD:
        return take_head(c);
    case CONN_BODY:
        return take_body(c);
    case CONN_WS:
        ws_input(c);
        return false;
    case CONN_LINGER:
        c->discarded += c->in.n;
        ck_buf_free(&c->in);
        if (c->discarded > HTTP_LINGER_MAX)
            conn_kill(c);
        return false;
    case CONN_WAIT:
    case CONN_FLUSH:
        break;
    }
    return false;
}

// on_end of a streamed body is told from here, never from inside a handler's call.
static void tell_body_end(struct http_conn *c)
{
    struct http_req *r = c->req;
    if (c->state != CONN_WAIT || !r || !r->body_reading || !r->body_complete || c->rx_paused || !r->body_ev.on_end)
        return;
    void (*on_end)(struct http_req *, void *) = r->body_ev.on_end;
    r->body_ev.on_end = NULL;
    on_end(r, r->user);
}

void conn_process(struct http_conn *c)
{
    if (c->in_input) // called from a handler below us: the loop there goes on
        return;
    c->in_input = true;
    while (!c->killed && step(c))
        ;
    if (!c->killed)
        tell_body_end(c);
    c->in_input = false;
    if (!c->in.n)
        ck_buf_free(&c->in);
    conn_update_rx(c);
}

static int on_input(struct http_conn *c, const void *p, size_t n)
{
    if (c->killed)
        return -1;
    if (c->state == CONN_LINGER) {
        c->discarded += n;
        return c->discarded > HTTP_LINGER_MAX ? -1 : 0;
    }
    if (ck_buf_add(&c->in, p, n))
        return -1;
    conn_process(c);
    return 0;
}

static void access_log(const struct http_req *r, int status)
{
    int64_t ms = ck_mono_ms() - r->started_ms;
    ck_log(CK_LOG_INFO, "http", "request method=%s path=%.200s status=%d ms=%lld", http_method_name(r->head.method),
           r->path ? r->path : "-", status, (long long)ms); // never the query: it may hold the token
    if (r->srv->opt.on_request)
        r->srv->opt.on_request(r->srv->opt.gateway, status);
}

void conn_answer_done(struct http_conn *c)
{
    c->state = CONN_FLUSH;
    c->deadline = 0;
    c->rx_paused = false;
    conn_want_write(c);
}

// The last byte of an answer is with the kernel. Returns -1 to close now.
static int next_request(struct http_conn *c)
{
    bool body_complete = !c->req || c->req->body_complete, keep = c->req && c->req->keep_alive;
    if (c->req) {
        access_log(c->req, c->req->status);
        req_free(c->req);
        c->req = NULL;
    } else {
        body_complete = false; // an error of our own: who knows what follows
    }
    if (keep && body_complete && !c->srv->draining) {
        c->state = CONN_HEAD;
        c->served = true;
        c->deadline = ck_mono_ms() + HTTP_IDLE_MS;
        conn_process(c);
        return 0;
    }
    if (body_complete && !c->in.n)
        return -1;
    shutdown(lws_get_socket_fd(c->wsi), SHUT_WR);
    c->state = CONN_LINGER;
    c->deadline = ck_mono_ms() + HTTP_LINGER_MS;
    ck_buf_free(&c->in);
    return 0;
}

static void tell_drained(struct http_conn *c)
{
    if (!c->over_mark || c->out.bytes > HTTP_HIGH_WATER / 2)
        return;
    c->over_mark = false;
    if (c->ws) {
        if (c->ws->ev.on_drain && !c->ws->close_sent)
            c->ws->ev.on_drain(c->ws, c->ws->user);
    } else if (c->req && c->req->answer == ANSWER_STREAM && c->req->on_drain) {
        c->req->on_drain(c->req, c->req->user);
    }
}

static int on_writable(struct http_conn *c)
{
    if (c->killed)
        return -1;
    c->flushed = c->out.consumed; // lws calls back when it holds nothing of the last piece any more
    if (c->ws)
        ws_before_write(c->ws);
    struct ck_slice s = out_peek(&c->out, c->srv->scratch + LWS_PRE, HTTP_IO_CHUNK);
    if (s.n) {
        if (lws_write(c->wsi, (unsigned char *)(uintptr_t)s.p, s.n, LWS_WRITE_RAW) < 0)
            return -1;
        out_consume(&c->out, s.n); // lws keeps a copy of what the kernel did not take
        c->write_deadline = ck_mono_ms() + HTTP_WRITE_MS;
    }
    if (c->ws && c->ws->ev.on_written && !c->ws->close_sent)
        c->ws->ev.on_written(c->ws, c->ws->user);
    after_write(c);
    if (c->killed)
        return 0;
    bool empty = !c->out.bytes && !lws_partial_buffered(c->wsi);
    if (empty)
        c->write_deadline = 0;
    if (empty && c->state == CONN_FLUSH)
        return next_request(c);
    if (empty && c->ws && c->ws->close_sent && c->ws->close_received) {
        shutdown(lws_get_socket_fd(c->wsi), SHUT_WR);
        c->state = CONN_LINGER;
        c->deadline = ck_mono_ms() + HTTP_LINGER_MS;
    }
    return 0;
}

// The client is gone; what it said before is still there to be read.
static void conn_broken(struct http_conn *c)
{
    if (c->ws)
        ws_settle(c->ws);
    conn_kill(c);
}

void conn_flush_all(struct http_server *s)
{
    s->flushing = true;
    while (s->wants) {
        struct http_conn *c = s->wants;
        wants_no_more(c);
        if (lws_partial_buffered(c->wsi))
            lws_callback_on_writable(c->wsi);
        else if (!c->killed && on_writable(c) < 0)
            conn_broken(c);
    }
    s->flushing = false;
}

static void after_write(struct http_conn *c)
{
    conn_update_rx(c);
    tell_drained(c);
    if (c->killed)
        return;
    if (c->out.bytes)
        conn_want_write(c);
    conn_process(c); // input that was held back while paused
}

static void on_adopt(struct http_conn *c, struct lws *wsi)
{
    struct http_server *s = lws_context_user(lws_get_context(wsi));
    c->srv = s;
    c->wsi = wsi;
    c->state = CONN_HEAD;
    c->in.cap = HTTP_HEAD_MAX + HTTP_AHEAD_MAX + 2 * HTTP_IO_CHUNK;
    c->deadline = ck_mono_ms() + HTTP_FRESH_MS;
    c->next = s->conns;
    if (s->conns)
        s->conns->prev = c;
    s->conns = c;
    s->nconns++;
    c->unproved = true;
    c->older = s->youngest;
    *(c->older ? &c->older->younger : &s->oldest) = c;
    s->youngest = c;
}

static void on_closed(struct http_conn *c)
{
    struct http_server *s = c->srv;
    if (!s)
        return; // never adopted
    if (c->prev)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->nconns--;
    conn_proved(c); // out of the list
    wants_no_more(c);
    if (c->ws)
        ws_settle(c->ws); // a reset leaves the client's last words in the socket
    c->killed = true;
    ck_buf_free(&c->in);
    if (c->ws)
        ws_closed(c->ws);
    out_clear(&c->out);
    if (c->req && c->req->answer == ANSWER_DONE) {
        access_log(c->req, 0);
        req_free(c->req);
    } else if (c->req) {
        access_log(c->req, 0);
        req_gone(c->req);
    }
    wants_no_more(c);
    c->req = NULL;
    c->srv = NULL;
    if (s->draining && !s->nconns)
        uv_timer_start(&s->tick, s->tick.timer_cb, 0, 1000); // "drained" is told from the loop
}

int conn_lws_callback(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len)
{
    struct http_conn *c = user;
    switch (why) {
    case LWS_CALLBACK_RAW_ADOPT:
        on_adopt(c, wsi);
        return 0;
    case LWS_CALLBACK_RAW_RX:
        return on_input(c, in, len);
    case LWS_CALLBACK_RAW_WRITEABLE:
        return on_writable(c);
    case LWS_CALLBACK_RAW_CLOSE:
        if (c)
            on_closed(c);
        return 0;
    default:
        return 0;
    }
}

static void timed_out(struct http_conn *c)
{
    struct ck_err err = CK_ERR_INIT;
    if (c->state == CONN_HEAD && c->in.n)
        ck_fail(&err, 408, "timeout", "the request head did not arrive within %d s", HTTP_HEAD_MS / 1000);
    else if (c->state == CONN_BODY)
        ck_fail(&err, 408, "timeout", "the request body arrives too slowly");
    else if (c->state == CONN_WAIT && c->req && c->req->answer == ANSWER_NONE)
        ck_fail(&err, 503, "timeout", "the session did not answer in time; try again");
    c->deadline = 0;
    if (err.status)
        reply_own_error(c, c->req, &err);
    else
        conn_kill(c);
}

static bool body_too_slow(struct http_conn *c, int64_t now)
{
    struct http_req *r = c->req;
    if (c->rx_paused || !r->body_reading) { // not the client's fault
        r->body_started += 1000;
        return false;
    }
    return now > r->body_started + HTTP_BODY_MS + (int64_t)(r->body_received / HTTP_BODY_MIN_RATE) * 1000;
}

void conn_tick(struct http_conn *c, int64_t now)
{
    if (c->killed)
        return;
    if (c->write_deadline && now > c->write_deadline)
        conn_kill(c);
    else if (c->deadline && now > c->deadline)
        timed_out(c);
    else if (c->state == CONN_BODY && c->req && body_too_slow(c, now))
        timed_out(c);
    else if (c->ws && c->state == CONN_WS)
        ws_tick(c->ws, now);
    else if (c->req && c->req->sse && c->req->answer == ANSWER_STREAM && now >= c->req->sse_next)
        reply_sse_comment(c->req);
}

void conn_drain(struct http_conn *c)
{
    if (c->ws)
        ws_close(c->ws, WS_RESTART, "gateway restarts");
    else if ((c->state == CONN_HEAD && !c->in.n) || c->state == CONN_LINGER ||
             (c->req && c->req->sse && !c->srv->streams_end))
        conn_kill(c);
}
