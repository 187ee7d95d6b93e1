// The listening side: addresses, TLS context, accepting within limits, the one-second tick that all
// deadlines hang on, draining. What happens on a connection is http_conn.c.
#include "gateway/http_internal.h"

#include "common/ck_log.h"
#include "gateway/auth.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define BACKLOG 1024
#define ACCEPTS_A_TURN 64

static const struct lws_protocols PROTOCOLS[] = {
    {.name = "ck-http", .callback = conn_lws_callback, .per_session_data_size = sizeof(struct http_conn),
     .rx_buffer_size = 0, .tx_packet_size = HTTP_IO_CHUNK},
    {.name = NULL},
};

static void on_lws_log(int level, const char *line)
{
    int n = (int)strcspn(line, "\n");
    ck_log(level == LLL_ERR ? CK_LOG_WARN : CK_LOG_DEBUG, "lws", "%.*s", n, line);
}

static int make_context(struct http_server *s, struct ck_err *err)
{
    struct lws_context_creation_info info = {0};
    void *loops[1] = {s->loop};
    lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
    info.port = CONTEXT_PORT_NO_LISTEN_SERVER; // we accept ourselves: see on_acceptable
    info.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_DISABLE_IPV6;
    info.foreign_loops = loops;
    info.pcontext = &s->lws; // set to NULL when lws frees it by itself
    info.user = s;
    info.pt_serv_buf_size = 64 * 1024; // one read
    info.timeout_secs = 15;            // TLS handshake
    if (s->opt.tls_cert)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    s->lws = lws_create_context(&info);
    if (!s->lws)
        return ck_fail(err, 500, "http_start", "libwebsockets cannot start (is libwebsockets-evlib-uv installed?)");
    info.protocols = PROTOCOLS;
    info.vhost_name = "cellkeep";
    info.ssl_cert_filepath = s->opt.tls_cert;
    info.ssl_private_key_filepath = s->opt.tls_key;
    info.alpn = "http/1.1";
    info.ssl_options_set = SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1; // whatever the host's defaults are
    s->vhost = lws_create_vhost(s->lws, &info);
    if (!s->vhost)
        return ck_fail(err, 500, "http_start", s->opt.tls_cert
                       ? "cannot use the TLS certificate %s with the key %s" : "libwebsockets cannot start%s%s",
                       s->opt.tls_cert ? s->opt.tls_cert : "", s->opt.tls_key ? s->opt.tls_key : "");
    return 0;
}

// Too many connections: say so to a plain client, and close.
static void refuse(const struct http_server *s, int fd)
{
    static const char body[] = "{\"message\":\"too many open connections; close some or retry later\",\"reason\":\"busy\"}\n";
    char answer[512];
    int n = snprintf(answer, sizeof answer,
                     "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n"
                     "Connection: close\r\nContent-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    if (!s->opt.tls_cert)
        (void)!send(fd, answer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

static void adopt(struct http_server *s, int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    lws_sock_file_fd_type sock = {.sockfd = fd};
    lws_adoption_type type = LWS_ADOPT_SOCKET | (s->opt.tls_cert ? LWS_ADOPT_ALLOW_SSL : 0);
    if (!lws_adopt_descriptor_vhost(s->vhost, type, sock, "ck-http", NULL))
        ck_log(CK_LOG_WARN, "http", "adopt_failed"); // lws has closed it
}

static void on_acceptable(uv_poll_t *h, int status, int events)
{
    struct http_server *s = h->data;
    int listen_fd = -1;
    (void)events;
    if (status < 0 || uv_fileno((uv_handle_t *)h, &listen_fd))
        return;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                ck_log(CK_LOG_WARN, "http", "accept_paused error=\"%s\"", strerror(errno));
                uv_poll_stop(h); // the tick starts it again: polling on would spin
                s->accept_off = true;
            }
            return;
        }
        if (s->nconns >= (size_t)s->opt.max_connections && !conn_make_room(s))
            refuse(s, fd);
        else
            adopt(s, fd);
    }
}

static void start_accepting(struct http_server *s)
{
    s->accept_off = false;
    for (int i = 0; i < s->nlisteners; i++)
        uv_poll_start(&s->listeners[i], UV_READABLE, on_acceptable);
}

static int listen_on(struct http_server *s, const struct addrinfo *a)
{
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_storage addr;
    if (fd < 0)
        return -1;
    memcpy(&addr, a->ai_addr, a->ai_addrlen);
    if (s->port && addr.ss_family == AF_INET) // "port 0" means one port for every address
        ((struct sockaddr_in *)&addr)->sin_port = htons((uint16_t)s->port);
    else if (s->port)
        ((struct sockaddr_in6 *)&addr)->sin6_port = htons((uint16_t)s->port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (addr.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    socklen_t len = sizeof addr;
    if (bind(fd, (struct sockaddr *)&addr, a->ai_addrlen) || listen(fd, BACKLOG) ||
        getsockname(fd, (struct sockaddr *)&addr, &len)) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    s->port = ntohs(addr.ss_family == AF_INET ? ((struct sockaddr_in *)&addr)->sin_port
                                              : ((struct sockaddr_in6 *)&addr)->sin6_port);
    return fd;
}

static int open_listeners(struct http_server *s, struct ck_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    char port[8];
    snprintf(port, sizeof port, "%d", s->opt.port);
    s->port = s->opt.port;
    int rc = getaddrinfo(s->opt.host, port, &hints, &list);
    if (rc)
        return ck_fail(err, 500, "bad_host", "cannot listen on host \"%s\": %s", s->opt.host, gai_strerror(rc));
    int error = 0;
    for (struct addrinfo *a = list; a && s->nlisteners < 8; a = a->ai_next) {
        int fd = listen_on(s, a);
        if (fd >= 0)
            s->listen_fds[s->nlisteners++] = fd;
        else if (!error || errno == EADDRINUSE)
            error = errno;
    }
    freeaddrinfo(list);
    if (error == EADDRINUSE)
        return ck_fail(err, 500, "port_in_use", "port %d on %s is in use; stop the other program or choose another --port",
                       s->opt.port, s->opt.host);
    if (!s->nlisteners)
        return ck_fail_errno(err, error, 500, "cannot_listen", "cannot listen on %s port %d", s->opt.host, s->opt.port);
    return 0;
}

static void on_tick(uv_timer_t *t)
{
    struct http_server *s = t->data;
    int64_t now = ck_mono_ms();
    struct http_conn *next;
    for (struct http_conn *c = s->conns; c; c = next) {
        next = c->next; // a connection never leaves the list inside its tick: killing is finished by the loop
        conn_tick(c, now);
    }
    while (s->orphans) {
        struct ws_conn *w = s->orphans;
        s->orphans = w->next_orphan;
        ws_closed(w);
    }
    if (s->accept_off && !s->draining)
        start_accepting(s);
    if (s->draining && now >= s->drain_deadline)
        http_server_cut(s);
    if (s->draining && !s->nconns && s->drained) {
        void (*done)(void *) = s->drained;
        s->drained = NULL;
        done(s->drained_user);
    }
}

static void on_prepare(uv_prepare_t *h) { conn_flush_all(h->data); }

static void raise_descriptor_limit(void)
{
    struct rlimit rl;
    if (!getrlimit(RLIMIT_NOFILE, &rl) && rl.rlim_cur < rl.rlim_max) {
        rl.rlim_cur = rl.rlim_max < 1048576 ? rl.rlim_max : 1048576;
        setrlimit(RLIMIT_NOFILE, &rl);
    }
}

// lws closes connections that pass the process' limit of descriptors without a word: stay below it.
static void bound_connections(struct http_server *s)
{
    struct rlimit rl;
    raise_descriptor_limit();
    if (!getrlimit(RLIMIT_NOFILE, &rl) && (uint64_t)s->opt.max_connections + 256 > rl.rlim_cur)
        s->opt.max_connections = rl.rlim_cur > 512 ? (int)(rl.rlim_cur - 256) : 256;
}

int http_server_start(uv_loop_t *loop, const struct http_server_options *opt, struct http_server **out,
                      struct ck_err *err)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (!s || !(s->router = router_new())) {
        free(s);
        return ck_fail(err, 500, "no_memory", "out of memory");
    }
    s->loop = loop;
    s->opt = *opt;
    s->base_len = strlen(opt->base_url);
    bound_connections(s);
    if (open_listeners(s, err) || make_context(s, err)) {
        http_server_free(s);
        return -1;
    }
    for (int i = 0; i < s->nlisteners; i++) {
        uv_poll_init(loop, &s->listeners[i], s->listen_fds[i]);
        s->listeners[i].data = s;
    }
    start_accepting(s);
    uv_timer_init(loop, &s->tick);
    s->tick.data = s;
    uv_timer_start(&s->tick, on_tick, 1000, 1000);
    uv_prepare_init(loop, &s->flush);
    s->flush.data = s;
    uv_prepare_start(&s->flush, on_prepare);
    uv_unref((uv_handle_t *)&s->flush);
    s->ticking = true;
    *out = s;
    return 0;
}

int http_server_add_routes(struct http_server *s, const struct http_route *routes, size_t n)
{
    return router_add(s->router, routes, n);
}

int http_server_port(const struct http_server *s)
{
    return s->port;
}

size_t http_server_websockets(const struct http_server *s)
{
    return s->nws;
}

size_t http_server_connections(const struct http_server *s)
{
    return s->nconns;
}

uint64_t http_server_evicted(const struct http_server *s)
{
    return s->evicted;
}

static void close_listeners(struct http_server *s)
{
    for (int i = 0; i < s->nlisteners; i++) {
        if (s->ticking)
            uv_close((uv_handle_t *)&s->listeners[i], NULL);
        close(s->listen_fds[i]);
    }
    s->nlisteners = 0;
}

void http_server_drain(struct http_server *s, int grace_ms, bool streams_end, void (*done)(void *user), void *user)
{
    s->draining = true;
    s->streams_end = streams_end;
    s->drained = done;
    s->drained_user = user;
    s->drain_deadline = ck_mono_ms() + grace_ms;
    close_listeners(s);
    struct http_conn *next;
    for (struct http_conn *c = s->conns; c; c = next) {
        next = c->next;
        conn_drain(c);
    }
    uv_timer_start(&s->tick, on_tick, 0, 200);
}

void http_server_cut_owner(struct http_server *s, const char *owner)
{
    struct http_conn *next;
    for (struct http_conn *c = s->conns; c; c = next) {
        next = c->next;
        if (*owner && !strcmp(c->owner, owner))
            conn_kill(c);
    }
}

void http_server_cut(struct http_server *s)
{
    struct http_conn *next;
    for (struct http_conn *c = s->conns; c; c = next) {
        next = c->next;
        conn_kill(c);
    }
}

void http_server_close(struct http_server *s)
{
    if (!s)
        return;
    close_listeners(s);
    if (s->ticking) {
        uv_close((uv_handle_t *)&s->tick, NULL);
        uv_close((uv_handle_t *)&s->flush, NULL);
    }
    s->ticking = false;
    if (s->lws && !s->closing)
        lws_context_destroy(s->lws); // its libuv handles close as the loop turns
    s->closing = true;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    http_server_close(s);
    if (s->lws)
        lws_context_destroy(s->lws); // on a foreign loop the second call is the one that frees
    router_free(s->router);
    free(s);
}
