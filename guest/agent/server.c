// The socket side of the agent protocol. Anyone in the guest can connect to the port, so: only the
// host's end of the virtual wire is accepted, frames are bounded by ZMQ before they are read, and
// nothing that fails wire.c's check reaches a handler. Sending never blocks: what the peer does not
// take waits in one bounded queue, in order, and producers ask ag_server_has_room before reading more.
#include "guest/agent/server.h"

#include "common/ck_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define RETRY_MS 15
#define BATCH 32
#define HOST_END "10.0.2.2/32"

struct out_msg {
    struct out_msg *next;
    struct ag_peer peer;
    uint8_t sig[AG_SIG_LEN];
    struct ck_buf header, payload;
};

struct ag_server {
    struct ag_loop *loop;
    void *context, *socket;
    struct ag_wire wire;
    ag_request_fn *fn;
    void *agent;
    struct ag_peer peer; // sender of the last verified request
    struct out_msg *first, **last;
    unsigned queued;
    struct ag_timer retry;
};

struct ag_wire *ag_server_wire(struct ag_server *s) { return &s->wire; }
bool ag_server_has_room(const struct ag_server *s) { return s->first == NULL; }

static void out_free(struct out_msg *m)
{
    ck_buf_free(&m->header);
    ck_buf_free(&m->payload);
    free(m);
}

void ag_server_forget_queue(struct ag_server *s)
{
    while (s->first) {
        struct out_msg *m = s->first;
        s->first = m->next;
        out_free(m);
    }
    s->last = &s->first;
    s->queued = 0;
    ag_loop_cancel(s->loop, &s->retry);
}

// 0 sent, 1 not now, -1 the peer is gone.
static int send_parts(struct ag_server *s, const struct out_msg *m)
{
    // with ROUTER_MANDATORY the first frame decides: a pipe with room takes the whole message
    if (zmq_send(s->socket, m->peer.id, m->peer.n, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return errno == EAGAIN ? 1 : -1;
    const struct ck_slice parts[] = {{m->sig, AG_SIG_LEN}, ck_buf_slice(&m->header), ck_buf_slice(&m->payload)};
    for (int i = 0; i < 3; i++)
        if (zmq_send(s->socket, parts[i].n ? parts[i].p : (const uint8_t *)"", parts[i].n,
                     ZMQ_DONTWAIT | (i < 2 ? ZMQ_SNDMORE : 0)) < 0)
            return -1;
    return 0;
}

static void flush_queue(void *ctx)
{
    struct ag_server *s = ctx;
    while (s->first) {
        struct out_msg *m = s->first;
        if (send_parts(s, m) == 1) {
            ag_loop_after(s->loop, &s->retry, RETRY_MS);
            return;
        }
        s->first = m->next;
        if (!s->first)
            s->last = &s->first;
        s->queued--;
        out_free(m);
    }
}

static void enqueue(struct ag_server *s, const struct ag_peer *peer, json_t *header, struct ck_slice payload)
{
    struct out_msg *m = calloc(1, sizeof *m);
    if (!m || !peer->n || s->queued >= AG_OUT_QUEUE_MAX || ck_buf_add(&m->payload, payload.p, payload.n) < 0 ||
        ag_wire_seal(&s->wire, header, payload, &m->header, m->sig) < 0) {
        if (m)
            out_free(m); // a peer that takes nothing gets nothing more; its requests time out there
        return;
    }
    m->peer = *peer;
    *s->last = m;
    s->last = &m->next;
    s->queued++;
    if (!s->retry.due)
        flush_queue(s);
}

static void request_free(struct ag_request *req)
{
    json_decref(req->header);
    ck_buf_free(&req->payload);
    free(req);
}

void ag_answer(struct ag_request *req, json_t *answer, struct ck_slice payload)
{
    if (!answer)
        answer = json_pack("{s:b}", "ok", 1);
    json_t *rid = json_object_get(req->header, "rid");
    if (answer && json_object_set(answer, "re", rid ? rid : json_null()) == 0)
        enqueue(req->server, &req->peer, answer, payload);
    json_decref(answer);
    request_free(req);
}

void ag_answer_error(struct ag_request *req, const struct ck_err *err)
{
    json_t *e = json_pack("{s:{s:i,s:s,s:s}}", "error", "status", err->status, "reason", err->reason, "message",
                          err->text);
    if (!e) // text that is not UTF-8, e.g. a path cut in the middle of a character
        e = json_pack("{s:{s:i,s:s,s:s}}", "error", "status", err->status, "reason", err->reason, "message",
                      err->reason);
    ag_answer(req, e, ck_slice(NULL, 0));
}

void ag_push(struct ag_server *s, json_t *event, struct ck_slice payload)
{
    if (event)
        enqueue(s, &s->peer, event, payload);
    json_decref(event);
}

struct incoming {
    zmq_msg_t part[4]; // peer, signature, header, payload
    int n;             // parts kept
    bool too_many;
};

static struct ck_slice part(struct incoming *in, int i)
{
    return i < in->n ? ck_slice(zmq_msg_data(&in->part[i]), zmq_msg_size(&in->part[i])) : ck_slice(NULL, 0);
}

// 0 a message, 1 nothing there, -1 the socket failed.
static int receive(struct ag_server *s, struct incoming *in)
{
    in->n = 0;
    in->too_many = false;
    for (bool more = true; more;) {
        zmq_msg_t m;
        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, s->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&m);
            return errno == EAGAIN || errno == EINTR ? 1 : -1;
        }
        more = zmq_msg_more(&m);
        if (in->n < 4) {
            in->part[in->n++] = m;
        } else {
            in->too_many = true;
            zmq_msg_close(&m);
        }
    }
    return 0;
}

static void dispatch(struct ag_server *s, struct incoming *in)
{
    struct ck_slice id = part(in, 0), payload = part(in, 3);
    if (in->n < 3 || in->too_many || id.n == 0 || id.n > AG_PEER_MAX) {
        s->wire.dropped++;
        return;
    }
    json_t *header;
    if (ag_wire_open(&s->wire, part(in, 1), part(in, 2), payload, &header) != 0)
        return;
    struct ag_request *req = calloc(1, sizeof *req);
    if (!req || ck_buf_add(&req->payload, payload.p, payload.n) < 0) {
        json_decref(header);
        free(req);
        return;
    }
    memcpy(s->peer.id, id.p, id.n);
    s->peer.n = id.n;
    req->server = s;
    req->peer = s->peer;
    req->header = header;
    req->agent = s->agent;
    s->fn(req);
}

static void on_readable(void *ctx, int fd, short revents)
{
    (void)fd, (void)revents;
    struct ag_server *s = ctx;
    struct incoming in;
    for (int i = 0; i < BATCH; i++) {
        int rc = receive(s, &in);
        if (rc == 0)
            dispatch(s, &in);
        for (int k = 0; k < in.n; k++)
            zmq_msg_close(&in.part[k]);
        if (rc != 0)
            return;
    }
}

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int open_socket(struct ag_server *s, struct ck_err *err)
{
    int64_t max = AG_PAYLOAD_MAX;
    char endpoint[32];
    snprintf(endpoint, sizeof endpoint, "tcp://*:%d", AG_PORT);
    s->context = zmq_ctx_new();
    s->socket = s->context ? zmq_socket(s->context, ZMQ_ROUTER) : NULL;
    if (!s->socket || zmq_setsockopt(s->socket, ZMQ_MAXMSGSIZE, &max, sizeof max) < 0 ||
        zmq_setsockopt(s->socket, ZMQ_TCP_ACCEPT_FILTER, HOST_END, strlen(HOST_END)) < 0 ||
        set_int(s->socket, ZMQ_ROUTER_MANDATORY, 1) < 0 || set_int(s->socket, ZMQ_ROUTER_HANDOVER, 1) < 0 ||
        set_int(s->socket, ZMQ_LINGER, 0) < 0 || set_int(s->socket, ZMQ_SNDHWM, 64) < 0 ||
        set_int(s->socket, ZMQ_RCVHWM, 64) < 0 || zmq_bind(s->socket, endpoint) < 0)
        return ck_fail(err, 500, "no_socket", "agent socket: %s", zmq_strerror(zmq_errno()));
    return 0;
}

struct ag_server *ag_server_open(struct ag_loop *loop, ag_request_fn *fn, void *agent, struct ck_err *err)
{
    struct ag_server *s = calloc(1, sizeof *s);
    if (!s) {
        ck_fail(err, 500, "no_memory", "out of memory");
        return NULL;
    }
    s->loop = loop;
    s->fn = fn;
    s->agent = agent;
    s->last = &s->first;
    s->retry = (struct ag_timer){.fn = flush_queue, .ctx = s};
    if (open_socket(s, err) < 0 || ag_loop_watch_zmq(loop, s->socket, on_readable, s) < 0) {
        ag_server_close(s);
        return NULL;
    }
    return s;
}

void ag_server_close(struct ag_server *s)
{
    if (!s)
        return;
    ag_server_forget_queue(s);
    if (s->socket)
        zmq_close(s->socket);
    if (s->context)
        zmq_ctx_term(s->context);
    free(s);
}
