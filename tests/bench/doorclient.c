// A Jupyter client that costs next to nothing itself, to measure what stands between it and a kernel.
//   doorclient rtt|stream direct CONNECTION_FILE N [BYTES]
//   doorclient rtt|stream ws HOST PORT PATH N [BYTES]        PATH with its query: token, session_id
//   doorclient idle HOST PORT SECONDS N PATH...               N WebSockets, over the PATHs in turn
//
// rtt: N times an execute_request until its reply and its idle; prints p50 and p99 in microseconds.
// stream: one cell that prints N messages of BYTES; prints messages a second. idle: holds the
// connections and answers pings; prints "open N", then waits. Blocking, one thread.
#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "kernel-bridge/jscan.h"
#include "kernel-bridge/jwire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

static char session[CK_UUID_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "doorclient: %s (%s)\n", what, strerror(errno));
    exit(1);
}

// What every transport does: send an execute_request, hand out messages as (type, parent id, idle).
struct seen {
    char type[JW_TYPE_MAX], parent[JW_ID_MAX];
    bool idle;
};
struct door {
    void (*execute)(struct door *d, const char *id, const char *code);
    void (*next)(struct door *d, struct seen *out);
    void *ctx, *shell, *iopub; // direct
    char key[256];
    int fd; // ws
    struct ck_buf in;
    size_t at;
};

static void request_of(const char *id, const char *code, struct ck_buf *header, struct ck_buf *content)
{
    jw_make_header(header, id, session, "execute_request", ck_wall_us());
    ck_buf_printf(content, "{\"code\":\"%s\",\"silent\":false,\"store_history\":true,\"user_expressions\":{},"
                           "\"allow_stdin\":false,\"stop_on_error\":true}", code);
}

static void look(struct ck_slice header, struct ck_slice parent, struct ck_slice content, struct seen *out)
{
    struct jw_head h;
    jw_read_head(header, &h);
    memcpy(out->type, h.type, sizeof out->type);
    jw_read_head(parent, &h);
    memcpy(out->parent, h.msg_id, sizeof out->parent);
    char state[16];
    out->idle = !strcmp(out->type, "status") && jscan_field_str(content, "execution_state", state, sizeof state) &&
                !strcmp(state, "idle");
}

// --- straight to the kernel ------------------------------------------------------------------------

static void direct_execute(struct door *d, const char *id, const char *code)
{
    CK_CLEAN_BUF struct ck_buf header = CK_BUF_INIT, content = CK_BUF_INIT;
    char sig[JW_SIG_HEX];
    request_of(id, code, &header, &content);
    struct ck_slice part[4] = {ck_buf_slice(&header), ck_slice_str("{}"), ck_slice_str("{}"), ck_buf_slice(&content)};
    jw_sign(ck_slice_str(d->key), part, sig);
    zmq_send(d->shell, "<IDS|MSG>", 9, ZMQ_SNDMORE);
    zmq_send(d->shell, sig, strlen(sig), ZMQ_SNDMORE);
    for (int i = 0; i < 4; i++)
        zmq_send(d->shell, part[i].p, part[i].n, i < 3 ? ZMQ_SNDMORE : 0);
}

static bool direct_take(void *s, struct seen *out)
{
    zmq_msg_t part[16];
    struct ck_slice slice[16] = {0};
    size_t n = 0, delimiter = 0;
    do {
        zmq_msg_init(&part[n]);
        if (zmq_msg_recv(&part[n], s, ZMQ_DONTWAIT) < 0)
            return false;
        slice[n] = ck_slice(zmq_msg_data(&part[n]), zmq_msg_size(&part[n]));
        if (ck_slice_is(slice[n], "<IDS|MSG>"))
            delimiter = n;
    } while (zmq_msg_more(&part[n]) && n++ < 15);
    if (n < delimiter + 5)
        fail("the kernel's message is too short");
    look(slice[delimiter + 2], slice[delimiter + 3], slice[delimiter + 5], out);
    for (size_t i = 0; i <= n; i++)
        zmq_msg_close(&part[i]);
    return true;
}

static void direct_next(struct door *d, struct seen *out)
{
    zmq_pollitem_t item[2] = {{d->iopub, 0, ZMQ_POLLIN, 0}, {d->shell, 0, ZMQ_POLLIN, 0}};
    while (!direct_take(d->iopub, out) && !direct_take(d->shell, out))
        if (zmq_poll(item, 2, 30000) <= 0)
            fail("nothing from the kernel");
}

static void *direct_socket(struct door *d, int type, int64_t port)
{
    char where[64];
    int none = 0;
    void *s = zmq_socket(d->ctx, type);
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", (int)port);
    zmq_setsockopt(s, ZMQ_RCVHWM, &none, sizeof none);
    if (type == ZMQ_SUB)
        zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    if (zmq_connect(s, where))
        fail("cannot connect");
    return s;
}

static void direct_open(struct door *d, const char *file)
{
    CK_CLEAN_JSON json_t *j = json_load_file(file, 0, NULL);
    if (!j)
        fail("cannot read the connection file");
    d->ctx = zmq_ctx_new();
    snprintf(d->key, sizeof d->key, "%s", ck_json_str(j, "key", "", NULL));
    d->iopub = direct_socket(d, ZMQ_SUB, ck_json_int(j, "iopub_port", 0, NULL));
    d->shell = direct_socket(d, ZMQ_DEALER, ck_json_int(j, "shell_port", 0, NULL));
    d->execute = direct_execute;
    d->next = direct_next;
    usleep(300000); // a subscription takes a moment
}

// --- through a WebSocket, v1 -----------------------------------------------------------------------

static void ws_write(int fd, uint8_t op, struct ck_slice payload)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    uint8_t head[8] = {(uint8_t)(0x80 | op), (uint8_t)(0x80 | (payload.n < 126 ? payload.n : 126))};
    size_t n = 2;
    if (payload.n >= 126) { // requests are short; a mask of zero is a mask
        head[n++] = (uint8_t)(payload.n >> 8);
        head[n++] = (uint8_t)payload.n;
    }
    ck_buf_add(&b, head, n);
    ck_buf_add(&b, "\0\0\0\0", 4);
    ck_buf_add(&b, payload.p, payload.n);
    if (write(fd, b.p, b.n) != (ssize_t)b.n)
        fail("cannot write");
}

static int ws_connect(const char *host, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, host, &a.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a))
        fail("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int ws_open(const char *host, int port, const char *path)
{
    char text[2048], c = 0;
    size_t n = 0;
    int fd = ws_connect(host, port);
    int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                       "Sec-WebSocket-Protocol: v1.kernel.websocket.jupyter.org\r\n\r\n", path, host, port);
    if (write(fd, text, (size_t)len) != len)
        fail("cannot write");
    while (n < 4 || memcmp(text + n - 4, "\r\n\r\n", 4) != 0) {
        if (n == sizeof text || read(fd, &c, 1) != 1)
            fail("no answer to the handshake");
        text[n++] = c;
    }
    if (memcmp(text, "HTTP/1.1 101", 12) != 0) {
        fprintf(stderr, "doorclient: %.*s\n", (int)strcspn(text, "\r"), text);
        exit(1);
    }
    return fd;
}

static uint64_t le64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static void ws_execute(struct door *d, const char *id, const char *code)
{
    CK_CLEAN_BUF struct ck_buf header = CK_BUF_INIT, content = CK_BUF_INIT, frame = CK_BUF_INIT;
    request_of(id, code, &header, &content);
    size_t part[5] = {5, header.n, 2, 2, content.n};
    uint64_t word = 6, at = 8 * 7;
    ck_buf_add(&frame, &word, 8);
    ck_buf_add(&frame, &at, 8);
    for (int i = 0; i < 5; i++) {
        at += part[i];
        ck_buf_add(&frame, &at, 8);
    }
    ck_buf_add_str(&frame, "shell");
    ck_buf_add(&frame, header.p, header.n);
    ck_buf_add_str(&frame, "{}{}");
    ck_buf_add(&frame, content.p, content.n);
    ws_write(d->fd, 2, ck_buf_slice(&frame));
}

// One frame in d->in from d->at on: 1, or 0 = more bytes are needed.
static int ws_frame(struct door *d, uint8_t *op, struct ck_slice *payload)
{
    const uint8_t *p = d->in.p + d->at;
    size_t have = d->in.n - d->at, head = 2;
    if (have < 2)
        return 0;
    uint64_t n = p[1] & 0x7f;
    if (n >= 126) {
        size_t wide = n == 126 ? 2 : 8;
        if (have < 2 + wide)
            return 0;
        n = 0;
        for (size_t i = 0; i < wide; i++)
            n = n << 8 | p[2 + i];
        head += wide;
    }
    if (have < head + n)
        return 0;
    *op = p[0] & 15;
    *payload = ck_slice(p + head, (size_t)n);
    d->at += head + (size_t)n;
    return 1;
}

static void ws_fill(struct door *d)
{
    ck_buf_consume(&d->in, d->at);
    d->at = 0;
    if (ck_buf_reserve(&d->in, 1 << 20))
        fail("no memory");
    ssize_t n = read(d->fd, d->in.p + d->in.n, d->in.room - d->in.n);
    if (n <= 0)
        fail("the connection ended");
    d->in.n += (size_t)n;
}

static void ws_next(struct door *d, struct seen *out)
{
    uint8_t op;
    struct ck_slice f;
    for (;;) {
        while (!ws_frame(d, &op, &f))
            ws_fill(d);
        if (op == 9)
            ws_write(d->fd, 10, f);
        if (op == 8)
            fail("closed by the server");
        if (op == 2)
            break;
    }
    uint64_t off[6];
    for (int i = 0; i < 6; i++)
        off[i] = le64(f.p + 8 + 8 * i);
    look(ck_slice(f.p + off[1], off[2] - off[1]), ck_slice(f.p + off[2], off[3] - off[2]),
         ck_slice(f.p + off[4], off[5] - off[4]), out);
}

// --- measuring -------------------------------------------------------------------------------------

// Runs a cell to its end; returns how many stream messages came.
static long run(struct door *d, const char *code)
{
    char id[CK_UUID_MAX];
    bool reply = false, idle = false;
    long streams = 0;
    ck_uuid4(id);
    d->execute(d, id, code);
    while (!reply || !idle) {
        struct seen s;
        d->next(d, &s);
        if (strcmp(s.parent, id) != 0)
            continue;
        reply |= !strcmp(s.type, "execute_reply");
        idle |= s.idle;
        streams += !strcmp(s.type, "stream");
    }
    return streams;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int measure_rtt(struct door *d, long n)
{
    int64_t *us = calloc((size_t)n, sizeof *us);
    for (long i = 0; i < 50; i++)
        run(d, "1+1");
    for (long i = 0; us && i < n; i++) {
        int64_t begun = ck_mono_us();
        run(d, "1+1");
        us[i] = ck_mono_us() - begun;
    }
    if (!us)
        fail("no memory");
    qsort(us, (size_t)n, sizeof *us, by_value);
    printf("{\"p50_us\":%lld,\"p99_us\":%lld}\n", (long long)us[n / 2], (long long)us[n * 99 / 100]);
    free(us);
    return 0;
}

static int measure_stream(struct door *d, long n, long bytes)
{
    char code[64];
    run(d, "stream:100:10");
    snprintf(code, sizeof code, "stream:%ld:%ld", n, bytes);
    int64_t begun = ck_mono_us();
    long got = run(d, code);
    double seconds = (double)(ck_mono_us() - begun) / 1e6;
    printf("{\"got\":%ld,\"per_second\":%.0f}\n", got, (double)got / seconds);
    return got == n ? 0 : 1;
}

static void answer_pings(int ep, int wait_ms)
{
    struct epoll_event ev[64];
    int ready = epoll_wait(ep, ev, 64, wait_ms);
    for (int i = 0; i < ready; i++) { // only pings come, each alone: short and whole
        uint8_t b[4096];
        ssize_t got = read(ev[i].data.fd, b, sizeof b);
        if (got <= 0)
            fail("the server ended an idle connection");
        if ((b[0] & 15) == 9)
            ws_write(ev[i].data.fd, 10, ck_slice(b + 2, b[1] & 0x7f));
    }
}

static int hold(int argc, char **argv)
{
    int port = atoi(argv[3]), n = atoi(argv[5]), ep = epoll_create1(0);
    int64_t end = atoi(argv[4]) * 1000LL;
    struct rlimit rl = {(rlim_t)n + 100, (rlim_t)n + 100};
    setrlimit(RLIMIT_NOFILE, &rl);
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s&session_id=idle-%d", argv[6 + i % (argc - 6)], i);
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = ws_open(argv[2], port, path)};
        if (epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev))
            fail("epoll");
        answer_pings(ep, 0); // opening them can take longer than a server waits for an answer
    }
    printf("open %d\n", n);
    fflush(stdout);
    for (end += ck_mono_ms(); ck_mono_ms() < end;)
        answer_pings(ep, 100);
    return 0;
}

int main(int argc, char **argv)
{
    struct door d = {.execute = ws_execute, .next = ws_next};
    ck_uuid4(session);
    if (argc >= 7 && !strcmp(argv[1], "idle"))
        return hold(argc, argv);
    bool direct = argc >= 5 && !strcmp(argv[2], "direct");
    if (!direct && !(argc >= 7 && !strcmp(argv[2], "ws"))) {
        fprintf(stderr, "usage: see the head of doorclient.c\n");
        return 2;
    }
    char **rest = argv + (direct ? 4 : 6);
    if (direct)
        direct_open(&d, argv[3]);
    else
        d.fd = ws_open(argv[3], atoi(argv[4]), argv[5]);
    if (!strcmp(argv[1], "rtt"))
        return measure_rtt(&d, atol(rest[0]));
    return measure_stream(&d, atol(rest[0]), rest[1] ? atol(rest[1]) : 1);
}
