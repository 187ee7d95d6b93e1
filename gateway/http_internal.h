// Shared by http_server.c, http_conn.c, http_req.c, http_body.c, http_reply.c, http_stream.c and
// http_ws.c only.
//
// One struct http_conn per TCP connection. Its states, and what may happen in each:
//   HEAD    reading a request head            -> BODY, WAIT, FLUSH (error), dead
//   BODY    request dispatched or collecting  -> WAIT, FLUSH
//   WAIT    body complete, answer pending     -> FLUSH, WS
//   FLUSH   answer complete in the queue      -> HEAD (keep-alive), LINGER, dead
//   LINGER  answer sent, write side shut, input discarded so that the client can read the answer -> dead
//   WS      WebSocket                         -> dead
// A streamed answer may begin in BODY or WAIT; the state says what is read, `req->answer` what is
// written.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_crypto.h"
#include "common/ck_time.h"
#include "gateway/http.h"
#include "gateway/http_chunked.h"
#include "gateway/http_head.h"
#include "gateway/http_out.h"
#include "gateway/http_server.h"
#include "gateway/router.h"
#include "gateway/ws_asks.h"
#include "gateway/ws_codec.h"

#include <libwebsockets.h>

#define HTTP_IO_CHUNK (128 * 1024)          // most bytes of one lws_write
#define HTTP_AHEAD_MAX (64 * 1024)          // pipelined input kept while an answer is pending
#define HTTP_LINGER_MAX (64ull * 1024 * 1024) // input discarded after an early answer

#define HTTP_FRESH_MS 20000     // first byte of the first request
#define HTTP_HEAD_MS 20000      // a whole head after its first byte
#define HTTP_IDLE_MS 75000      // between requests
#define HTTP_BODY_MS 60000      // plus a second for each HTTP_BODY_MIN_RATE bytes received
#define HTTP_BODY_MIN_RATE 1024
#define HTTP_WRITE_MS 60000     // without any progress of a full output queue
#define HTTP_LINGER_MS 5000
#define HTTP_UPGRADE_MS 30000   // a handler that decides about a WebSocket
#define HTTP_SSE_COMMENT_MS 15000
#define WS_PING_MS 30000
#define WS_REAP_MS 90000
#define WS_CLOSE_MS 5000
#define WS_FRAGMENT (1024 * 1024)

enum conn_state { CONN_HEAD, CONN_BODY, CONN_WAIT, CONN_FLUSH, CONN_LINGER, CONN_WS };

struct http_conn {
    struct http_conn *next, *prev;
    struct http_conn *wants_next, *wants_prev; // in the server's list of those that want to write
    bool wants;
    struct http_conn *younger, *older; // in the server's list of those that came with no right token yet
    bool unproved;
    struct http_server *srv;
    struct lws *wsi;
    enum conn_state state;
    bool killed;       // shut down; only its close callback may still come
    bool in_input;     // conn_process is on the stack
    bool rx_off;       // POLLIN is switched off
    bool rx_paused;    // by the application
    bool over_mark;    // the queue was over HTTP_HIGH_WATER, on_drain is owed
    bool served;       // at least one request was answered
    int64_t deadline;  // ck_mono_ms() value at which the current wait has failed; 0 = none
    int64_t write_deadline;
    uint64_t discarded; // in LINGER
    uint64_t flushed;   // bytes of the output that left lws for certain, when it holds some back
    struct ck_buf in;  // input not yet consumed
    struct out_queue out;
    struct http_req *req; // in BODY, WAIT, FLUSH; NULL when the answer was the server's own
    struct ws_conn *ws;   // in WS
    char owner[CK_UUID_MAX]; // of the latest request
};

enum req_answer { ANSWER_NONE, ANSWER_STREAM, ANSWER_DONE };

struct req_string {
    struct req_string *next;
    char text[];
};

struct http_req {
    struct http_conn *conn; // NULL when the client left
    struct http_server *srv;
    const struct http_route *route;
    struct http_head head;
    char *head_text;   // what head points into
    char *path;        // decoded, without the base URL
    struct req_string *strings; // decoded parameters and query values
    size_t nparams;
    struct {
        const char *name, *value;
    } params[ROUTER_PARAMS_MAX];
    enum http_auth auth;
    char owner[CK_UUID_MAX]; // id of the token, "" = the gateway's own
    int retry_s;             // came with a wrong token, as too many from its address did: 429; 0 = not so
    int64_t started_ms;
    // body
    bool body_complete;
    bool body_reading; // http_body_read was called
    bool keep_alive;
    uint64_t body_received, body_max;
    int64_t body_started;
    struct http_chunked chunked;
    struct ck_buf body;
    json_t *json;
    struct http_body_events body_ev;
    // answer
    enum req_answer answer;
    int status;
    bool head_only;     // HEAD: the body is dropped
    bool chunked_out;
    bool sse;
    int64_t sse_next;   // when the next comment is due
    int64_t length_left; // of a Content-Length answer; -1 = not counted
    struct ck_buf headers; // added by the handler
    // handler
    void *user;
    void (*on_gone)(struct http_req *r, void *user);
    void (*on_drain)(struct http_req *r, void *user);
};

struct ws_conn {
    struct http_conn *conn; // NULL for an orphan
    struct http_server *srv;
    struct ws_conn *next_orphan;
    struct gateway *gateway;
    struct ws_events ev;
    void *user;
    struct ws_rx rx;
    int64_t next_ping, last_heard;
    int close_code;    // received or sent, 1006 = none
    bool close_sent, close_received;
    uint64_t position;  // as ws_position() says, once conn is NULL
    bool confirm;       // a question goes out with the next write at which one may be asked
    struct ws_asks asks;
    uint64_t confirmed; // the place of the last answer
    uint64_t dropped;  // bytes that were not even queued, because the connection was ending
};

struct http_server {
    uv_loop_t *loop;
    struct http_server_options opt;
    size_t base_len;
    struct lws_context *lws;
    struct lws_vhost *vhost;
    struct router *router;
    uv_poll_t listeners[8];
    int listen_fds[8];
    int nlisteners;
    bool accept_off; // out of descriptors: try again at the next tick
    uv_timer_t tick;
    bool ticking; // the uv handles are live
    bool closing;
    struct http_conn *conns;
    struct http_conn *youngest, *oldest; // of those that came with no right token yet
    uint64_t evicted;
    struct http_conn *wants; // written to before the loop sleeps
    uv_prepare_t flush;
    bool flushing;
    struct ws_conn *orphans; // accepted after their client had left
    size_t nconns, nws;
    int port;
    bool draining, streams_end;
    int64_t drain_deadline;
    void (*drained)(void *user);
    void *drained_user;
    uint8_t scratch[LWS_PRE + HTTP_IO_CHUNK];
};

// http_conn.c
int conn_lws_callback(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len);
void conn_kill(struct http_conn *c);        // cut; the close callback does the rest
void conn_want_write(struct http_conn *c);  // soon, from the loop
void conn_flush_all(struct http_server *s);
void conn_update_rx(struct http_conn *c);   // POLLIN on or off, by the flags
void conn_process(struct http_conn *c);     // what is in c->in, by the state
void conn_queue_check(struct http_conn *c); // after appending to c->out: write, cap
void conn_tick(struct http_conn *c, int64_t now);
void conn_answer_done(struct http_conn *c); // the whole answer is queued
void conn_drain(struct http_conn *c);
void conn_proved(struct http_conn *c);       // it came with a right token
bool conn_make_room(struct http_server *s);  // cuts one that did not; false: there is none

// http_req.c
struct http_req *req_new(struct http_conn *c, size_t head_len, struct ck_err *err); // takes the head from c->in
void req_free(struct http_req *r);
void req_dispatch(struct http_req *r);                 // route, authorise, call or collect
void req_gone(struct http_req *r);                     // the client left
void req_call_handler(struct http_req *r);             // r may be gone afterwards
void req_set_body_complete(struct http_req *r);

// http_body.c
size_t req_body_feed(struct http_req *r, const uint8_t *p, size_t n); // returns bytes used; may end the request

// http_reply.c
// The parts of an answer's head; r is NULL for an answer to something that never became a request.
void reply_start_head(struct ck_buf *b, const struct http_server *s, const struct http_req *r, int status, const char *type);
void reply_end_head(struct ck_buf *b, const struct http_req *r);
void reply_decide_keep_alive(struct http_req *r);
void reply_own_error(struct http_conn *c, const struct http_req *r, const struct ck_err *err); // the server's own answer, on the connection

// http_stream.c
void reply_sse_comment(struct http_req *r);

// http_ws.c
void ws_input(struct http_conn *c);
void ws_tick(struct ws_conn *w, int64_t now);
void ws_before_write(struct ws_conn *w);
void ws_closed(struct ws_conn *w); // the connection is gone: on_close, free
