// A client of the cell API that costs next to nothing itself, to measure what stands between it and a
// kernel. Prints p50 and p99 in microseconds as JSON.
//   apiclient json|sse|ws HOST PORT TOKEN SESSION N    N times the cell 1+1, to its end
//   apiclient get HOST PORT TOKEN PATH N               N times a GET, on one connection
//   apiclient agent PORT N                             N times `changes` of fastagent, which has template's key
// Blocking, one thread.
#include "common/ck_clean.h"
#include "common/ck_time.h"
#include "kernel-bridge/agentwire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

struct client {
    int fd;
    struct ck_buf request; // the same each time
    struct ck_buf in;
    void *zmq;
    int64_t n;
    void (*once)(struct client *c);
};

static void fail(const char *what)
{
    fprintf(stderr, "apiclient: %s (%s)\n", what, strerror(errno));
    exit(1);
}

static int open_socket(const char *host, const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, host, &a.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a))
        fail("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(struct client *c, struct ck_slice s)
{
    if (write(c->fd, s.p, s.n) != (ssize_t)s.n)
        fail("cannot write");
}

static void fill(struct client *c)
{
    if (ck_buf_reserve(&c->in, 1 << 16))
        fail("no memory");
    ssize_t n = read(c->fd, c->in.p + c->in.n, c->in.room - c->in.n);
    if (n <= 0)
        fail("the connection ended");
    c->in.n += (size_t)n;
}

// Where text ends in what has come, from `from` on; reads until it is there.
static size_t until(struct client *c, size_t from, const char *text)
{
    for (;;) {
        const uint8_t *p = c->in.n > from ? memmem(c->in.p + from, c->in.n - from, text, strlen(text)) : NULL;
        if (p)
            return (size_t)(p - c->in.p) + strlen(text);
        fill(c);
    }
}

// One request over HTTP, whose answer has a length or comes in chunks.
static void http_once(struct client *c)
{
    c->in.n = 0;
    send_all(c, ck_buf_slice(&c->request));
    size_t body = until(c, 0, "\r\n\r\n");
    if (memcmp(c->in.p, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "apiclient: %.*s\n", (int)c->in.n, (const char *)c->in.p);
        exit(1);
    }
    c->in.p[body - 1] = 0;
    const char *length = strcasestr((const char *)c->in.p, "content-length:");
    size_t n = length ? strtoul(length + 15, NULL, 10) : 0;
    while (length && c->in.n < body + n)
        fill(c);
    if (!length)
        until(c, body, "\r\n0\r\n\r\n");
}

static void http_open(struct client *c, char **argv, bool sse)
{
    static const char cell[] = "{\"code\":\"1+1\"}";
    bool get = !strcmp(argv[1], "get");
    c->fd = open_socket(argv[2], argv[3]);
    if (get)
        ck_buf_printf(&c->request, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", argv[5], argv[4]);
    else
        ck_buf_printf(&c->request,
                      "POST /v1/sessions/%s/cells HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%sContent-Length: "
                      "%zu\r\n\r\n%s",
                      argv[5], argv[4], sse ? "Accept: text/event-stream\r\n" : "", strlen(cell), cell);
    c->once = http_once;
}

// Over the stream of the session: the message goes out, events come until the cell's end.
static void ws_once(struct client *c)
{
    c->in.n = 0;
    send_all(c, ck_buf_slice(&c->request));
    until(c, until(c, 0, "\"type\":\"done\""), "\"truncated\":{");
    until(c, 0, "}}}"); // of truncated, finished and the event
}

static void ws_open(struct client *c, char **argv)
{
    static const char cell[] = "{\"type\":\"execute\",\"code\":\"1+1\"}";
    CK_CLEAN_BUF struct ck_buf hello = CK_BUF_INIT;
    uint8_t head[6] = {0x81, 0x80 | (sizeof cell - 1), 0, 0, 0, 0}; // a mask of zero is a mask
    c->fd = open_socket(argv[2], argv[3]);
    ck_buf_printf(&hello,
                  "GET /v1/sessions/%s/stream?from=now HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: "
                  "Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                  "AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
                  argv[5], argv[4]);
    send_all(c, ck_buf_slice(&hello));
    until(c, 0, "\r\n\r\n");
    if (memcmp(c->in.p, "HTTP/1.1 101", 12) != 0)
        fail("no WebSocket");
    ck_buf_add(&c->request, head, sizeof head);
    ck_buf_add(&c->request, cell, sizeof cell - 1);
    c->once = ws_once;
}

static void agent_once(struct client *c)
{
    static const uint8_t key[AW_KEY_LEN];
    uint8_t sig[CK_SHA256_LEN], got[4096];
    CK_CLEAN_BUF struct ck_buf header = CK_BUF_INIT;
    int more = 1;
    size_t room = sizeof more;
    ck_buf_printf(&header, "{\"op\":\"changes\",\"rid\":%" PRId64 ",\"n\":%" PRId64 "}", c->n, c->n);
    c->n++;
    aw_sign(key, ck_buf_slice(&header), ck_slice("", 0), sig);
    zmq_send(c->zmq, sig, sizeof sig, ZMQ_SNDMORE);
    zmq_send(c->zmq, header.p, header.n, ZMQ_SNDMORE);
    zmq_send(c->zmq, "", 0, 0);
    while (more) {
        if (zmq_recv(c->zmq, got, sizeof got, 0) < 0)
            fail("nothing from the agent");
        zmq_getsockopt(c->zmq, ZMQ_RCVMORE, &more, &room);
    }
}

static void agent_open(struct client *c, const char *port)
{
    char where[64];
    int wait = 10000;
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", atoi(port));
    c->zmq = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    zmq_setsockopt(c->zmq, ZMQ_RCVTIMEO, &wait, sizeof wait);
    if (zmq_connect(c->zmq, where))
        fail("cannot connect");
    c->n = 1;
    c->once = agent_once;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int measure(struct client *c, size_t n)
{
    int64_t *us = calloc(n ? n : 1, sizeof *us);
    for (int i = 0; i < 50; i++)
        c->once(c);
    for (size_t i = 0; us && i < n; i++) {
        int64_t begun = ck_mono_us();
        c->once(c);
        us[i] = ck_mono_us() - begun;
    }
    if (!us || !n)
        fail("nothing to measure");
    qsort(us, n, sizeof *us, by_value);
    printf("{\"p50_us\":%" PRId64 ",\"p99_us\":%" PRId64 "}\n", us[n / 2], us[n * 99 / 100]);
    free(us);
    return 0;
}

int main(int argc, char **argv)
{
    struct client c = {.fd = -1};
    if (argc == 4 && !strcmp(argv[1], "agent")) {
        agent_open(&c, argv[2]);
    } else if (argc == 7 && !strcmp(argv[1], "ws")) {
        ws_open(&c, argv);
    } else if (argc == 7 && (!strcmp(argv[1], "json") || !strcmp(argv[1], "sse") || !strcmp(argv[1], "get"))) {
        http_open(&c, argv, !strcmp(argv[1], "sse"));
    } else {
        fprintf(stderr, "usage: see the head of apiclient.c\n");
        return 2;
    }
    return measure(&c, (size_t)atol(argv[argc - 1]));
}
