// RFC 6455 frame codec. By hand although libwebsockets has one: its 4.1 server refuses a client that
// offers a subprotocol it does not know, and its HTTP role, the only way to its WebSockets, does not
// notice clients that leave during a long answer (see http_conn.c).
#include "gateway/ws_codec.h"

#include <openssl/evp.h>
#include <string.h>

void ws_rx_init(struct ws_rx *rx, size_t max_message)
{
    memset(rx, 0, sizeof *rx);
    rx->max_message = max_message;
}

void ws_rx_free(struct ws_rx *rx)
{
    ck_buf_free(&rx->message);
}

void ws_rx_release(struct ws_rx *rx)
{
    if (!rx->message_op)
        ck_buf_free(&rx->message);
}

static size_t head_length(const uint8_t *h)
{
    uint8_t len7 = h[1] & 0x7f;
    return 2 + (len7 == 126 ? 2 : len7 == 127 ? 8 : 0) + 4;
}

static bool op_allowed(const struct ws_rx *rx)
{
    switch (rx->op) {
    case WS_CONTINUATION:
        return rx->message_op != 0;
    case WS_TEXT:
    case WS_BINARY:
        return rx->message_op == 0;
    case WS_CLOSE:
    case WS_PING:
    case WS_PONG:
        return rx->fin && rx->left <= sizeof rx->control;
    default:
        return false;
    }
}

static int start_frame(struct ws_rx *rx)
{
    const uint8_t *h = rx->head;
    size_t n = head_length(h), len_bytes = n - 6;
    rx->fin = h[0] & 0x80;
    rx->op = h[0] & 0x0f;
    rx->left = h[1] & 0x7f;
    if (len_bytes) {
        rx->left = 0;
        for (size_t i = 0; i < len_bytes; i++)
            rx->left = rx->left << 8 | h[2 + i];
    }
    memcpy(rx->mask, h + n - 4, 4);
    rx->pos = 0;
    rx->nhead = 0;
    rx->ncontrol = 0;
    rx->in_payload = true;
    if (h[0] & 0x70 || !(h[1] & 0x80) || !op_allowed(rx) || rx->left >> 63)
        return -WS_PROTOCOL_ERROR;
    if (rx->op == WS_TEXT || rx->op == WS_BINARY) {
        rx->message_op = rx->op;
        rx->message.n = 0;
        rx->too_big = false;
    }
    if (rx->op < WS_CLOSE && (rx->left > rx->max_message || rx->message.n > rx->max_message - rx->left)) {
        if (!rx->keep_start)
            return -WS_TOO_BIG;
        rx->too_big = true;
    }
    return 0;
}

// Appends to the open message, or keeps its start when it is too big. -1 = no memory.
static int store(struct ws_rx *rx, const uint8_t *p, size_t n)
{
    if (!rx->too_big)
        return ck_buf_add(&rx->message, p, n);
    if (rx->message.n >= WS_START_MAX) {
        rx->message.n = WS_START_MAX;
        return 0;
    }
    size_t room = WS_START_MAX - rx->message.n;
    return ck_buf_add(&rx->message, p, n < room ? n : room);
}

static void unmask(struct ws_rx *rx, uint8_t *p, size_t n)
{
    size_t i = 0;
    for (; i < n && (rx->pos & 3); i++)
        p[i] ^= rx->mask[rx->pos++ & 3];
    uint64_t wide;
    memcpy(&wide, rx->mask, 4);
    memcpy((uint8_t *)&wide + 4, rx->mask, 4);
    for (; n - i >= 8; i += 8) {
        uint64_t v;
        memcpy(&v, p + i, 8);
        v ^= wide;
        memcpy(p + i, &v, 8);
    }
    for (; i < n; i++)
        p[i] ^= rx->mask[rx->pos++ & 3];
}

// The current frame is complete; last points at its final piece, not yet stored anywhere.
static int end_data(struct ws_rx *rx, uint8_t *last, size_t n, struct ws_event *ev)
{
    rx->in_payload = false;
    bool whole = rx->fin && !rx->message.n && !rx->too_big;
    if (!whole && store(rx, last, n))
        return -WS_TOO_BIG;
    if (!rx->fin)
        return 0;
    ev->op = rx->message_op;
    ev->too_big = rx->too_big;
    ev->data = whole ? ck_slice(last, n) : ck_buf_slice(&rx->message);
    rx->message_op = 0;
    return 1;
}

static int take_payload(struct ws_rx *rx, uint8_t *p, size_t n, struct ws_event *ev)
{
    unmask(rx, p, n);
    rx->left -= n;
    if (rx->op >= WS_CLOSE) {
        memcpy(rx->control + rx->ncontrol, p, n);
        rx->ncontrol += (uint8_t)n;
        if (rx->left)
            return 0;
        rx->in_payload = false;
        ev->op = rx->op;
        ev->too_big = false;
        ev->data = ck_slice(rx->control, rx->ncontrol);
        return 1;
    }
    if (!rx->left)
        return end_data(rx, p, n, ev);
    return store(rx, p, n) ? -WS_TOO_BIG : 0;
}

int ws_rx_feed(struct ws_rx *rx, uint8_t *p, size_t n, size_t *used, struct ws_event *ev)
{
    size_t i = 0;
    int rc = 0;
    ws_rx_release(rx);
    while (!rc) {
        if (rx->in_payload) {
            size_t take = n - i < rx->left ? n - i : (size_t)rx->left;
            if (!take && rx->left)
                break;
            rc = take_payload(rx, p + i, take, ev);
            i += take;
        } else {
            if (i == n)
                break;
            rx->head[rx->nhead++] = p[i++];
            if (rx->nhead >= 2 && !(rx->head[1] & 0x80))
                rc = -WS_PROTOCOL_ERROR; // clients must mask
            else if (rx->nhead >= 6 && rx->nhead == head_length(rx->head))
                rc = start_frame(rx);
        }
    }
    *used = i;
    return rc;
}

int ws_close_code(struct ck_slice payload)
{
    if (!payload.n)
        return WS_NO_CODE;
    if (payload.n < 2)
        return WS_PROTOCOL_ERROR;
    int code = payload.p[0] << 8 | payload.p[1];
    bool known = (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
                 (code >= 3000 && code <= 4999);
    return known ? code : WS_PROTOCOL_ERROR;
}

size_t ws_frame_head(uint8_t out[10], bool fin, enum ws_op op, uint64_t len)
{
    out[0] = (uint8_t)((fin ? 0x80 : 0) | op);
    size_t bytes = len < 126 ? 0 : len <= 0xffff ? 2 : 8;
    out[1] = (uint8_t)(bytes == 0 ? len : bytes == 2 ? 126 : 127);
    for (size_t i = 0; i < bytes; i++)
        out[2 + i] = (uint8_t)(len >> 8 * (bytes - 1 - i));
    return 2 + bytes;
}

int ws_accept_key(const char *key, char out[29])
{
    char text[24 + 36 + 1];
    uint8_t raw[18], sha[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (strlen(key) != 24 || EVP_DecodeBlock(raw, (const uint8_t *)key, 24) != 18 || strcmp(key + 22, "=="))
        return -1;
    memcpy(text, key, 24);
    memcpy(text + 24, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 37);
    if (!EVP_Digest(text, 60, sha, &n, EVP_sha1(), NULL) || n != 20)
        return -1;
    EVP_EncodeBlock((uint8_t *)out, sha, 20);
    return 0;
}
