// libzmq and libuv together. ZMQ_FD is edge-triggered and says only "something may have changed":
// after every receive *and every send* it has to be received from until it is empty, or a message
// waits for the next one to come. A turn that stops early, at its budget, and every send re-arm an
// idle handle, which makes the loop come back after everybody else had a turn.
#include "kernel-bridge/zsock.h"

#include "kernel-bridge/tcpbytes.h"

#include <errno.h>
#include <stdlib.h>
#include <zmq.h>

#define DRAIN_TURNS 16
#define RECONNECT_MS 20
#define RECONNECT_MAX_MS 500

struct zs {
    void *sock;
    uv_poll_t poll;
    uv_idle_t again;
    bool poll_open, again_open, closed;
    unsigned handles;
    uint16_t port;
    int source; // libzmq's descriptor, over which the last message came; it may be gone. -1 = none yet
    size_t max_parts, room;
    zmq_msg_t *part;
    struct ck_slice *slice;
    zs_message_cb on_message;
    void *user;
};

static bool grow(struct zs *z, size_t want)
{
    if (want <= z->room)
        return true;
    size_t room = z->room ? z->room * 2 : 16;
    zmq_msg_t *part = malloc(room * sizeof *part);
    struct ck_slice *slice = malloc(room * sizeof *slice);
    if (!part || !slice) {
        free(part);
        free(slice);
        return false;
    }
    // A zmq_msg_t must not be copied as bytes; zmq_msg_move is what is allowed.
    for (size_t i = 0; i < z->room; i++) {
        zmq_msg_init(&part[i]);
        zmq_msg_move(&part[i], &z->part[i]);
        zmq_msg_close(&z->part[i]);
    }
    for (size_t i = z->room; i < room; i++)
        zmq_msg_init(&part[i]);
    free(z->part);
    free(z->slice);
    z->part = part;
    z->slice = slice;
    z->room = room;
    return true;
}

// Receives one whole message. Returns its number of parts, 0 = none there. Parts over the maximum
// are read and thrown away.
static size_t receive(struct zs *z, bool *truncated, size_t *bytes)
{
    size_t n = 0;
    int more = 1;
    *truncated = false;
    while (more) {
        zmq_msg_t spare; // an empty one owns nothing
        zmq_msg_init(&spare);
        bool keep = n < z->max_parts && grow(z, n + 1);
        zmq_msg_t *m = keep ? &z->part[n] : &spare;
        if (zmq_msg_recv(m, z->sock, ZMQ_DONTWAIT) < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        if (!n)
            z->source = zmq_msg_get(m, ZMQ_SRCFD);
        more = zmq_msg_more(m);
        *bytes += zmq_msg_size(m);
        if (keep) {
            z->slice[n] = ck_slice(zmq_msg_data(m), zmq_msg_size(m));
            n++;
        } else {
            *truncated = true;
            zmq_msg_close(m);
        }
    }
    return n;
}

static void release(struct zs *z, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        zmq_msg_close(&z->part[i]);
        zmq_msg_init(&z->part[i]);
    }
}

static void again(uv_idle_t *h);

static void turn(struct zs *z)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < ZS_TURN_MESSAGES && bytes < ZS_TURN_BYTES && !z->closed; i++) {
        bool truncated;
        size_t n = receive(z, &truncated, &bytes);
        if (!n && !truncated) { // a receive that finds nothing has looked at all that was signalled, as ZMQ_EVENTS does
            uv_idle_stop(&z->again);
            return;
        }
        if (n)
            z->on_message(z->user, z->slice, n, truncated);
        release(z, n);
    }
    if (!z->closed)
        uv_idle_start(&z->again, again);
}

static void again(uv_idle_t *h) { turn(h->data); }

void zs_drain(struct zs *z)
{
    for (int i = 0; z && i < DRAIN_TURNS && !z->closed; i++) {
        int events = 0;
        size_t len = sizeof events;
        if (zmq_getsockopt(z->sock, ZMQ_EVENTS, &events, &len) || !(events & ZMQ_POLLIN))
            return;
        turn(z);
    }
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    (void)status;
    (void)events;
    turn(h->data);
}

static void on_closed(uv_handle_t *h)
{
    struct zs *z = h->data;
    if (--z->handles)
        return;
    for (size_t i = 0; i < z->room; i++)
        zmq_msg_close(&z->part[i]);
    free(z->part);
    free(z->slice);
    free(z);
}

void zs_close(struct zs *z)
{
    if (!z || z->closed)
        return;
    z->closed = true;
    z->handles = z->poll_open + z->again_open;
    if (z->poll_open)
        uv_poll_stop(&z->poll); // before the descriptor goes
    if (z->sock)
        zmq_close(z->sock);
    z->sock = NULL;
    if (z->poll_open)
        uv_close((uv_handle_t *)&z->poll, on_closed);
    if (z->again_open)
        uv_close((uv_handle_t *)&z->again, on_closed);
    if (!z->poll_open && !z->again_open)
        free(z);
}

uint64_t zs_received(const struct zs *z) { return z && z->source >= 0 ? tcp_received(z->source, z->port) : 0; }

static int set_int(void *sock, int option, int value) { return zmq_setsockopt(sock, option, &value, sizeof value); }

static int set_options(void *sock, const struct zs_opts *o)
{
    int64_t max = ZS_MESSAGE_MAX;
    int bad = set_int(sock, ZMQ_LINGER, 0) | set_int(sock, ZMQ_RCVHWM, o->receive_hwm) |
              set_int(sock, ZMQ_SNDHWM, o->send_hwm) | set_int(sock, ZMQ_RECONNECT_IVL, RECONNECT_MS) |
              set_int(sock, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS) |
              zmq_setsockopt(sock, ZMQ_MAXMSGSIZE, &max, sizeof max);
    if (o->identity)
        bad |= zmq_setsockopt(sock, ZMQ_ROUTING_ID, o->identity, strlen(o->identity));
    if (o->type == ZMQ_SUB)
        bad |= zmq_setsockopt(sock, ZMQ_SUBSCRIBE, "", 0);
    if (o->type == ZMQ_SUB && o->topic)
        bad |= zmq_setsockopt(sock, ZMQ_SUBSCRIBE, o->topic, strlen(o->topic));
    return bad;
}

static int watch(struct zs *z, uv_loop_t *loop)
{
    int fd = -1;
    size_t len = sizeof fd;
    z->poll.data = z->again.data = z;
    if (uv_idle_init(loop, &z->again))
        return -1;
    z->again_open = true;
    if (zmq_getsockopt(z->sock, ZMQ_FD, &fd, &len) || uv_poll_init(loop, &z->poll, fd))
        return -1;
    z->poll_open = true;
    return uv_poll_start(&z->poll, UV_READABLE, on_poll) || uv_idle_start(&z->again, again) ? -1 : 0;
}

struct zs *zs_open(const struct zs_opts *o, struct ck_err *err)
{
    char endpoint[40];
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", o->port);
    struct zs *z = calloc(1, sizeof *z);
    if (!z) {
        ck_fail(err, 500, "no_memory", "no memory for a socket");
        return NULL;
    }
    z->port = o->port;
    z->source = -1;
    z->max_parts = o->max_parts;
    z->on_message = o->on_message;
    z->user = o->user;
    z->sock = zmq_socket(o->zctx, o->type);
    if (!z->sock || set_options(z->sock, o) || zmq_connect(z->sock, endpoint) || watch(z, o->loop)) {
        ck_fail_errno(err, errno, 500, "zmq_failed", "cannot open a ZeroMQ socket to %s", endpoint);
        zs_close(z);
        return NULL;
    }
    return z;
}

int zs_send(struct zs *z, const struct ck_slice *parts, size_t nparts, struct ck_err *err)
{
    if (!z || z->closed)
        return ck_fail(err, 503, "kernel_gone", "the connection into the VM is closed");
    for (size_t i = 0; i < nparts; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < nparts ? ZMQ_SNDMORE : 0);
        int rc;
        while ((rc = zmq_send(z->sock, parts[i].n ? (const void *)parts[i].p : "", parts[i].n, flags)) < 0 &&
               errno == EINTR)
            ;
        if (rc < 0)
            return ck_fail_errno(err, errno, 503, "kernel_busy", "the VM does not take more messages now");
    }
    uv_idle_start(&z->again, again); // the send may have eaten the edge of a receive
    return 0;
}
