// WebSockets on a connection: the upgrade, messages in and out, pings, closing. The grammar is
// ws_codec.c, the socket http_conn.c's.
#include "gateway/http_internal.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define SETTLE_MAX (256 * 1024) // most bytes read at the end of a connection
#define ASK_BYTES 8             // payload of a ping that asks: the place

static struct ws_conn *orphan(struct http_req *r, struct ws_conn *w)
{
    struct http_server *s = r->srv;
    w->next_orphan = s->orphans;
    s->orphans = w;
    uv_timer_start(&s->tick, s->tick.timer_cb, 0, s->draining ? 200 : 1000);
    req_free(r);
    return w;
}

static int write_101(struct http_req *r, const char *subprotocol)
{
    char key[29];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ws_accept_key(r->head.ws_key, key))
        return -1;
    int rc = ck_buf_printf(&b, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                               "Sec-WebSocket-Accept: %s\r\n", key);
    if (subprotocol)
        rc |= ck_buf_printf(&b, "Sec-WebSocket-Protocol: %s\r\n", subprotocol);
    rc |= ck_buf_add(&b, r->headers.p, r->headers.n);
    rc |= ck_buf_add_str(&b, "\r\n");
    return rc || out_copy(&r->conn->out, b.p, b.n);
}

struct ws_conn *http_ws_accept(struct http_req *r, const char *subprotocol, const struct ws_events *ev, void *user)
{
    struct http_conn *c = r->conn;
    struct ws_conn *w = calloc(1, sizeof *w);
    if (!w)
        abort(); // 200 bytes: nothing useful can go on
    w->srv = r->srv;
    w->gateway = r->srv->opt.gateway;
    w->ev = *ev;
    w->user = user;
    w->close_code = WS_ABNORMAL;
    ws_rx_init(&w->rx, WS_MESSAGE_DEFAULT);
    w->rx.keep_start = ev->on_too_large != NULL;
    w->srv->nws++;
    if (!c)
        return orphan(r, w);
    w->conn = c;
    w->last_heard = ck_mono_ms();
    w->next_ping = w->last_heard + WS_PING_MS;
    bool bad = write_101(r, subprotocol) != 0;
    c->ws = w;
    c->req = NULL;
    c->state = CONN_WS;
    c->deadline = 0;
    if (r->srv->opt.on_request)
        r->srv->opt.on_request(r->srv->opt.gateway, 101);
    req_free(r);
    if (bad)
        conn_kill(c);
    conn_queue_check(c);
    if (c->srv->draining)
        ws_close(w, WS_RESTART, "gateway restarts");
    return w;
}

void ws_closed(struct ws_conn *w)
{
    w->position = ws_position(w);
    w->conn = NULL;
    w->srv->nws--;
    w->ev.on_close(w, w->user, w->close_code);
    ws_rx_free(&w->rx);
    free(w);
}

static void send_control(struct ws_conn *w, enum ws_op op, const void *p, size_t n)
{
    uint8_t head[10];
    struct http_conn *c = w->conn;
    if (out_copy(&c->out, head, ws_frame_head(head, true, op, n)) || out_copy(&c->out, p, n))
        conn_kill(c);
    conn_queue_check(c);
}

static void send_close(struct ws_conn *w, int code, const char *text)
{
    uint8_t payload[125];
    size_t n = 0;
    if (w->close_sent)
        return;
    if (code != WS_NO_CODE) {
        n = strlen(text) > 123 ? 123 : strlen(text);
        payload[0] = (uint8_t)(code >> 8);
        payload[1] = (uint8_t)code;
        memcpy(payload + 2, text, n);
        n += 2;
    }
    w->close_sent = true;
    if (w->close_code == WS_ABNORMAL)
        w->close_code = code;
    w->conn->deadline = ck_mono_ms() + WS_CLOSE_MS;
    send_control(w, WS_CLOSE, payload, n);
}

static void on_close_frame(struct ws_conn *w, struct ck_slice payload)
{
    int code = ws_close_code(payload);
    w->close_received = true;
    w->close_code = code;
    send_close(w, code, "");
    conn_want_write(w->conn); // when ours went out before, the end follows from there
}

// The client has everything up to this place.
static void confirmed(struct ws_conn *w, uint64_t at)
{
    w->confirmed = at;
    if (w->confirm && !w->conn->killed)
        conn_want_write(w->conn);
    if (w->ev.on_confirmed)
        w->ev.on_confirmed(w, w->user);
}

static void on_pong(struct ws_conn *w, struct ck_slice payload)
{
    uint64_t at = 0;
    if (payload.n != ASK_BYTES)
        return;
    for (int i = ASK_BYTES - 1; i >= 0; i--)
        at = at << 8 | payload.p[i];
    if (ws_asks_answer(&w->asks, at))
        confirmed(w, at);
}

static void on_event(struct ws_conn *w, const struct ws_event *ev)
{
    switch (ev->op) {
    case WS_TEXT:
    case WS_BINARY:
        if (!w->close_sent && ev->too_big)
            w->ev.on_too_large(w, w->user, ev->op == WS_BINARY, ev->data);
        else if (!w->close_sent)
            w->ev.on_message(w, w->user, ev->op == WS_BINARY, ev->data);
        break;
    case WS_PING: // a flood of pings is not answered into a queue that nobody reads
        if (!w->close_sent && w->conn->out.bytes < HTTP_HIGH_WATER)
            send_control(w, WS_PONG, ev->data.p, ev->data.n);
        break;
    case WS_CLOSE:
        if (!w->close_received)
            on_close_frame(w, ev->data);
        break;
    case WS_PONG:
        on_pong(w, ev->data);
        break;
    default:
        break;
    }
}

void ws_input(struct http_conn *c)
{
    struct ws_conn *w = c->ws;
    size_t at = 0;
    if (c->in.n) // also called when there is nothing, to deliver what was held back
        w->last_heard = ck_mono_ms();
    while (at < c->in.n && !c->rx_paused && !c->killed && !w->close_received) {
        struct ws_event ev;
        size_t used = 0;
        int rc = ws_rx_feed(&w->rx, c->in.p + at, c->in.n - at, &used, &ev);
        at += used;
        if (rc == 1) {
            on_event(w, &ev);
            ws_rx_release(&w->rx);
        } else if (rc < 0) {
            send_close(w, -rc, rc == -WS_TOO_BIG ? "message too big" : "protocol error");
            w->close_received = true; // nothing more is read
            conn_want_write(c);
        } else {
            break;
        }
    }
    ck_buf_consume(&c->in, w->close_received ? c->in.n : at);
}

void ws_tick(struct ws_conn *w, int64_t now)
{
    if (w->conn->rx_paused)
        w->last_heard = now; // its pongs wait behind what we do not read
    if (now - w->last_heard > WS_REAP_MS) {
        conn_kill(w->conn);
    } else if (now >= w->next_ping && !w->close_sent) {
        w->next_ping = now + WS_PING_MS;
        send_control(w, WS_PING, "", 0);
    }
}

// --- the doors' side -----------------------------------------------------------------------------------

void ws_set_user(struct ws_conn *w, void *user)
{
    w->user = user;
}

void *ws_user(const struct ws_conn *w)
{
    return w->user;
}

struct gateway *ws_gateway(const struct ws_conn *w)
{
    return w->gateway;
}

void ws_set_max_message(struct ws_conn *w, size_t max)
{
    w->rx.max_message = max;
}

// Bytes of one message into the queue, in fragments; blob NULL = copy from p.
static int queue_message(struct ws_conn *w, enum ws_op op, struct ck_blob *blob, const uint8_t *p, size_t n)
{
    struct out_queue *q = &w->conn->out;
    size_t at = 0;
    do {
        size_t piece = n - at < WS_FRAGMENT ? n - at : WS_FRAGMENT;
        uint8_t head[10];
        size_t nhead = ws_frame_head(head, at + piece == n, at ? WS_CONTINUATION : op, piece);
        bool share = blob && piece > 4096; // a small one is cheaper to copy than to keep
        if (out_copy(q, head, nhead) ||
            (share ? out_blob(q, blob, (size_t)(p - blob->p) + at, piece) : out_copy(q, p + at, piece)))
            return -1;
        at += piece;
    } while (at < n);
    return 0;
}

static int send_message(struct ws_conn *w, bool binary, struct ck_blob *blob, const uint8_t *p, size_t n)
{
    struct http_conn *c = w->conn;
    if (!c || c->killed || w->close_sent) {
        w->dropped += n;
        w->position += n; // for an orphan
        return 0;
    }
    if (queue_message(w, binary ? WS_BINARY : WS_TEXT, blob, p, n))
        conn_kill(c);
    conn_queue_check(c);
    return c->over_mark;
}

int ws_send(struct ws_conn *w, bool binary, const void *p, size_t n)
{
    return send_message(w, binary, NULL, p, n);
}

int ws_send_blob(struct ws_conn *w, bool binary, struct ck_blob *b, size_t off, size_t n)
{
    return send_message(w, binary, b, b->p + off, n);
}

size_t ws_queued(const struct ws_conn *w)
{
    return w->conn ? w->conn->out.bytes : 0;
}

uint64_t ws_position(const struct ws_conn *w)
{
    return w->conn ? w->conn->out.consumed + w->conn->out.bytes + w->dropped : w->position;
}

void ws_confirm(struct ws_conn *w)
{
    if (!w->conn || w->conn->killed || w->close_sent || w->confirm)
        return;
    w->confirm = true;
    conn_want_write(w->conn);
}

// The question joins the messages it is about: whoever has taken it has taken them, and a program that
// takes both at once answers before it can do anything else, so that nothing it was handed is in doubt when it
// closes or dies.
void ws_before_write(struct ws_conn *w)
{
    uint64_t at = ws_position(w);
    uint8_t payload[ASK_BYTES];
    int64_t now = ck_mono_ms();
    if (!w->confirm || !ws_asks_may(&w->asks, now))
        return;
    w->confirm = false;
    if (w->close_sent || at == w->asks.last)
        return;
    for (int i = 0; i < ASK_BYTES; i++)
        payload[i] = (uint8_t)(at >> (8 * i));
    ws_asks_add(&w->asks, at, now);
    uint8_t head[10];
    size_t n = ws_frame_head(head, true, WS_PING, sizeof payload);
    if (out_copy(&w->conn->out, head, n) || out_copy(&w->conn->out, payload, sizeof payload))
        conn_kill(w->conn);
}

uint64_t ws_asked(const struct ws_conn *w)
{
    return w->asks.last;
}

uint64_t ws_confirmed(const struct ws_conn *w)
{
    return w->confirmed;
}

// What was given to the kernel, less what it still holds by this count (SIOCOUTQ: not acknowledged,
// SIOCOUTQNSD: not sent). Under TLS the kernel counts more bytes than we do, so the answer is lower.
static uint64_t given_less(const struct http_conn *c, unsigned long request)
{
    int held = 0;
    if (ioctl(lws_get_socket_fd(c->wsi), request, &held) || held < 0)
        return 0;
    uint64_t out = lws_partial_buffered(c->wsi) ? c->flushed : c->out.consumed;
    return out > (uint64_t)held ? out - (uint64_t)held : 0;
}

static uint64_t known(const struct ws_conn *w, unsigned long request)
{
    uint64_t at = w->conn ? given_less(w->conn, request) : 0, sure = ws_asks_second(&w->asks);
    return at < sure ? at : sure;
}

uint64_t ws_written(const struct ws_conn *w) { return known(w, SIOCOUTQNSD); }
uint64_t ws_arrived(const struct ws_conn *w) { return known(w, SIOCOUTQ); }

// The beginning of a pong with our payload's length.
static bool pong_begun(const struct ws_rx *rx)
{
    if (rx->in_payload)
        return rx->op == WS_PONG && rx->left + rx->ncontrol == ASK_BYTES;
    return rx->nhead >= 2 && (rx->head[0] & 0x0f) == WS_PONG && (rx->head[1] & 0x7f) == ASK_BYTES;
}

uint64_t ws_settle(struct ws_conn *w)
{
    struct http_conn *c = w->conn;
    uint8_t piece[16 * 1024];
    ssize_t n = 0;
    size_t all = 0;
    if (!c || c->killed || c->in_input || lws_is_ssl(c->wsi)) // under TLS the bytes are not ours to read
        return w->confirmed;
    int fd = lws_get_socket_fd(c->wsi);
    bool paused = c->rx_paused;
    c->rx_paused = false; // also when input is off: lws has read nothing then that we do not have
    c->in_input = true;
    ws_input(c);
    while (all < SETTLE_MAX && (n = recv(fd, piece, sizeof piece, MSG_DONTWAIT)) > 0) {
        all += (size_t)n;
        if (ck_buf_add(&c->in, piece, (size_t)n))
            break;
        ws_input(c);
    }
    c->in_input = false;
    c->rx_paused = paused;
    uint64_t oldest = ws_asks_oldest(&w->asks);
    if (oldest && pong_begun(&w->rx) && ws_asks_answer(&w->asks, oldest))
        confirmed(w, oldest);
    return w->confirmed;
}

void ws_pause(struct ws_conn *w)
{
    if (!w->conn)
        return;
    w->conn->rx_paused = true;
    conn_update_rx(w->conn);
}

void ws_resume(struct ws_conn *w)
{
    if (!w->conn || !w->conn->rx_paused)
        return;
    w->conn->rx_paused = false;
    conn_update_rx(w->conn);
    conn_want_write(w->conn); // delivers what was held back
}

void ws_close(struct ws_conn *w, int code, const char *text)
{
    if (!w->conn || w->conn->killed)
        return;
    if (w->conn->rx_paused)
        ws_resume(w); // its close frame must be read
    send_close(w, code, text ? text : "");
}

void ws_terminate(struct ws_conn *w)
{
    if (w->conn)
        conn_kill(w->conn);
}
