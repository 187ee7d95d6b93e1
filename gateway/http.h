// The gateway's HTTP/1.1 and WebSocket server: one port, one libuv loop, any number of doors.
//
// A door exports a table of `struct http_route`. The server parses, limits, authenticates and
// routes a request and calls the route's handler on the loop thread. Everything here is called on
// the loop thread only; nothing blocks.
//
// Life of a request: the handler (or something it started) must answer exactly once, with one of
// http_reply_*(), or http_stream_begin() .. http_stream_end(), or http_ws_accept(). After the reply
// call, http_stream_end() or http_stream_abort() returns, the request must not be touched any more.
// A client that leaves first: when the handler has set http_on_gone(), that is called once and the
// request is gone when it returns. When it has not, the request stays valid and the answer, when it
// comes, is thrown away: so a handler that only waits for something short needs no on_gone.
//
// Errors are always JSON {"message","reason"}; the server itself answers 400, 403, 404, 405 (with
// Allow), 408, 411, 413, 414, 417, 431, 501, 503 and 505 that way. HEAD is served by GET routes,
// the body is dropped by the server. Replies may use any method below before or after the body came.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "common/ck_frame.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gateway; // gateway/serve.h
struct http_req;
struct ws_conn;

enum http_method { // bits, for route tables
    HTTP_GET = 1,
    HTTP_HEAD = 2, // implied by HTTP_GET in a route
    HTTP_PUT = 4,
    HTTP_POST = 8,
    HTTP_PATCH = 16,
    HTTP_DELETE = 32,
    HTTP_OPTIONS = 64,
};

enum http_route_flag {
    HTTP_OPEN = 1,      // no token needed; http_auth() says whether a right one was there
    HTTP_STREAM = 2,    // the handler is called when the headers are in and reads the body itself
    HTTP_WEBSOCKET = 4, // a GET that must be a WebSocket upgrade (426 JSON otherwise)
    HTTP_BEARER = 8,    // without a right token: 401 with WWW-Authenticate, as OAuth's clients expect
};

typedef void (*http_handler)(struct http_req *r);

#define HTTP_BODY_DEFAULT (1024 * 1024)

struct http_route {
    unsigned methods;    // HTTP_GET | HTTP_POST …
    const char *pattern; // "/api/kernels/{id}/interrupt"; {name} is one segment, a final {name...}
                         // the rest with its slashes (may be empty, then also without the slash)
    unsigned flags;
    size_t max_body;     // for collected bodies; 0 = HTTP_BODY_DEFAULT; 413 beyond
    http_handler handle;
};
// Routes of one pattern with different methods are separate entries. A literal segment wins over
// {name}, and {name} over {name...}, whatever the order. A trailing slash of the request is ignored.

// --- the request ---------------------------------------------------------------------------------
struct gateway *http_gateway(const struct http_req *r);
enum http_method http_method(const struct http_req *r); // HTTP_HEAD is reported as such
const char *http_path(const struct http_req *r);        // decoded, without base URL and query
const char *http_base_url(const struct http_req *r);    // "" or "/prefix", to build links and Location
// A {name} of the pattern, percent-decoded UTF-8, never NULL for a name that the pattern has. A final
// {name...} may hold any bytes but NUL: a path of files.
const char *http_param(const struct http_req *r, const char *name);
// First value of a query parameter, decoded ('+' is a space); NULL when absent. Unknown parameters
// and bare numbers are simply never asked for. Valid as long as the request.
const char *http_query(const struct http_req *r, const char *name);
// Value of a header, name case-insensitive; the first one when repeated; NULL when absent.
const char *http_header_in(const struct http_req *r, const char *name);
// True when the comma-separated header `name` holds `token` (case-insensitive, parameters ignored),
// e.g. http_header_has(r, "Accept", "text/event-stream").
bool http_header_has(const struct http_req *r, const char *name, const char *token);

enum http_auth { HTTP_AUTH_NONE, HTTP_AUTH_HEADER, HTTP_AUTH_QUERY };
enum http_auth http_auth(const struct http_req *r);
// Whose request it is: the id of a token, "" for the gateway's own. Valid as long as the request.
const char *http_owner(const struct http_req *r);

// The handler's own pointer; not freed by the server.
void http_set_user(struct http_req *r, void *user);
void *http_user(const struct http_req *r);
// The client left, or the server shuts down. Not called after the answer is complete. The request
// is invalid when the callback returns: cancel what you started; do not answer.
void http_on_gone(struct http_req *r, void (*cb)(struct http_req *r, void *user));

// --- the body ------------------------------------------------------------------------------------
// Collected body (routes without HTTP_STREAM). Valid until the answer.
struct ck_slice http_body(const struct http_req *r);
// The body as a JSON object whatever its Content-Type; an empty body is {}. Owned by the request.
// NULL with err filled (400 "bad_json" with line and column) when it is not an object.
json_t *http_body_json(struct http_req *r, struct ck_err *err);

// Streamed body (HTTP_STREAM): call from the handler. Data arrives in pieces of at most 64 KiB.
// on_data must take all of the piece; call http_body_pause() to stop more from coming (what was
// read already, at most one piece, may still arrive later: it is held back until resume).
struct http_body_events {
    void (*on_data)(struct http_req *r, void *user, struct ck_slice piece);
    void (*on_end)(struct http_req *r, void *user); // whole body, checked against its length
};
// max = the most bytes to accept (413 and on_gone-like end beyond, see below); 0 = no limit.
// A malformed chunked body, or one over max: the server answers 400/413 itself and calls on_gone.
void http_body_read(struct http_req *r, const struct http_body_events *ev, uint64_t max);
int64_t http_body_length(const struct http_req *r); // Content-Length, -1 when chunked, 0 when none
void http_body_pause(struct http_req *r);
void http_body_resume(struct http_req *r);
// Answering before the body is complete is allowed: the rest is discarded (bounded), then closed.

// --- the answer ----------------------------------------------------------------------------------
// Adds a header to the answer; name and value are copied; a value with CR or LF is refused (-1).
// Content-Type, Content-Length, Transfer-Encoding, Connection and Date belong to the server.
int http_header_add(struct http_req *r, const char *name, const char *value);

void http_reply_json(struct http_req *r, int status, json_t *body); // takes the reference; NULL = 500
void http_reply_bytes(struct http_req *r, int status, const char *type, const void *p, size_t n); // copies
void http_reply_buf(struct http_req *r, int status, const char *type, struct ck_buf *b); // takes b's memory, leaves b empty
void http_reply_empty(struct http_req *r, int status); // 204, 202, 304 … without body
void http_reply_err(struct http_req *r, const struct ck_err *err); // status 500 when err has none
void http_reply_error(struct http_req *r, int status, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// Streamed answer. length >= 0 sends Content-Length (write exactly that much; a short end aborts the
// connection), -1 sends chunked (or until close, to an HTTP/1.0 client).
// http_stream_write copies. It returns 0, or 1 when more than HTTP_HIGH_WATER bytes are waiting:
// stop your source until on_drain. It never fails; what exceeds HTTP_QUEUE_MAX aborts the
// connection and on_gone follows (later, from the loop). on_drain is called from the loop, never
// from inside a write.
#define HTTP_HIGH_WATER (512 * 1024)
#define HTTP_QUEUE_MAX (256u * 1024 * 1024)
void http_stream_begin(struct http_req *r, int status, const char *type, int64_t length);
int http_stream_write(struct http_req *r, const void *p, size_t n);
int http_stream_write_blob(struct http_req *r, struct ck_blob *b, size_t off, size_t n); // no copy, takes a reference of its own
void http_on_drain(struct http_req *r, void (*cb)(struct http_req *r, void *user));
size_t http_stream_queued(const struct http_req *r);
void http_stream_end(struct http_req *r);
void http_stream_abort(struct http_req *r); // cuts the connection so that the client sees the break
// Server-sent events: begin = 200 text/event-stream, no-cache, X-Accel-Buffering: no. One event;
// event may be NULL, id < 0 = none; data may hold newlines. Returns as http_stream_write.
// A comment line goes out every 15 s while nothing else does.
void http_sse_begin(struct http_req *r);
int http_sse_send(struct http_req *r, const char *event, int64_t id, const void *data, size_t n);

// --- WebSockets ----------------------------------------------------------------------------------
// A HTTP_WEBSOCKET handler decides with http_ws_accept() (101) or with any http_reply_error() before
// the upgrade; either at once or later (the upgrade waits, at most 30 s).
struct ws_events {
    // One whole message, at most max_message bytes (1009 and close beyond). Valid during the call.
    // Text is not checked for UTF-8: clients of jupyter-server send binary as text.
    void (*on_message)(struct ws_conn *w, void *user, bool binary, struct ck_slice msg);
    // Optional: called instead of closing when a message was beyond max_message, with its first bytes
    // (at most 64 KiB); the rest was dropped, the connection lives on.
    void (*on_too_large)(struct ws_conn *w, void *user, bool binary, struct ck_slice start);
    void (*on_drain)(struct ws_conn *w, void *user); // optional: queue is below the mark again
    void (*on_confirmed)(struct ws_conn *w, void *user); // optional: ws_confirmed() went up
    void (*on_written)(struct ws_conn *w, void *user);   // optional: more was given to the kernel; see ws_written()
    // Exactly once, whoever closed; w is gone when it returns. code = the close code that was
    // received or sent, 1006 when there was none.
    void (*on_close)(struct ws_conn *w, void *user, int code);
};
#define WS_MESSAGE_DEFAULT (128u * 1024 * 1024)
// subprotocol: one that the client offered, echoed in the 101; NULL = none. r is gone afterwards.
// Never fails: a client that is gone gets its on_close from the loop.
struct ws_conn *http_ws_accept(struct http_req *r, const char *subprotocol, const struct ws_events *ev, void *user);
// True when the client offered this subprotocol.
bool http_ws_offered(const struct http_req *r, const char *subprotocol);

void ws_set_user(struct ws_conn *w, void *user);
void *ws_user(const struct ws_conn *w);
struct gateway *ws_gateway(const struct ws_conn *w);
void ws_set_max_message(struct ws_conn *w, size_t max);
// Queues one message. Return values as http_stream_write: 0, or 1 = over HTTP_HIGH_WATER, pause
// your source until on_drain. Over HTTP_QUEUE_MAX the connection is cut (on_close from the loop).
// Messages over 1 MiB go out in fragments.
int ws_send(struct ws_conn *w, bool binary, const void *p, size_t n);               // copies
int ws_send_blob(struct ws_conn *w, bool binary, struct ck_blob *b, size_t off, size_t n); // takes a reference of its own
size_t ws_queued(const struct ws_conn *w);
// Delivery, as places in the output. ws_position: right after what was given to ws_send() so far.
// ws_confirm: asks the client, by a ping in the same write as what was given so far, whether it has it;
// cheap, and a client that does not answer is not asked again. ws_confirmed: up to where its pongs say that its library has taken
// it. What TCP acknowledged says nothing of that: a proxy may stand between, or the program not read.
// ws_settle: for the end of a connection, in on_close or before a ws_close(): takes what the client has
// said and was not read yet (on_message and on_confirmed may come from inside), then as ws_confirmed; a
// pong that was cut off counts. Never more than the client has.
// ws_written: up to where the output has left this host: it will arrive, even when this process is
// killed, unless the network or the client's host is gone. ws_arrived: up to where the client's host
// has acknowledged it (whether its program will read it is not known). Both end at the second question that
// is not answered: with its answer a client may find the connection broken and read no further. While the
// socket is open.
uint64_t ws_position(const struct ws_conn *w);
void ws_confirm(struct ws_conn *w);
uint64_t ws_asked(const struct ws_conn *w); // the place of the last question, answered or not
uint64_t ws_confirmed(const struct ws_conn *w);
uint64_t ws_settle(struct ws_conn *w);
uint64_t ws_written(const struct ws_conn *w);
uint64_t ws_arrived(const struct ws_conn *w);
void ws_pause(struct ws_conn *w);  // stop reading from the client (pings are still answered from what came)
void ws_resume(struct ws_conn *w);
// Closing handshake, then TCP close (at once after 5 s); what is queued goes out first. Never use
// 1000 or 1001 unless the kernel is gone for good: Jupyter clients then give up. on_close follows.
void ws_close(struct ws_conn *w, int code, const char *text);
// Cuts the TCP connection without a close frame. on_close follows from the loop.
void ws_terminate(struct ws_conn *w);
