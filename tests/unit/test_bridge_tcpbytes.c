// How much of a message has come that libzmq does not hand out yet: over real sockets.
#include "kernel-bridge/tcpbytes.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static int listener(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void bytes_count_before_anybody_reads_them(void **state)
{
    (void)state;
    static const char data[3000];
    char got[sizeof data];
    uint16_t port;
    int door = listener(&port), here = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    assert_int_equal(connect(here, (struct sockaddr *)&a, sizeof a), 0);
    int there = accept(door, NULL, NULL);
    assert_int_equal(tcp_received(here, port), 0);
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(send(there, data, sizeof data, 0), sizeof data);
        assert_int_equal(recv(here, got, sizeof got, MSG_PEEK | MSG_WAITALL), sizeof got); // it has come
        assert_int_equal(tcp_received(here, port), i * sizeof data);
        assert_int_equal(recv(here, got, sizeof got, MSG_WAITALL), sizeof got);
    }
    assert_int_equal(tcp_received(here, (uint16_t)(port + 1)), 0); // a number that passed to somebody else
    assert_int_equal(tcp_received(door, port), 0);
    close(here);
    assert_int_equal(tcp_received(here, port), 0);
    close(there);
    close(door);
}

static void libzmq_tells_over_which_connection_a_message_came(void **state)
{
    (void)state;
    char endpoint[64] = "", text[5000] = "x";
    size_t len = sizeof endpoint;
    unsigned port = 0;
    int linger = 0;
    void *ctx = zmq_ctx_new(), *from = zmq_socket(ctx, ZMQ_PUSH), *to = zmq_socket(ctx, ZMQ_PULL);
    zmq_setsockopt(from, ZMQ_LINGER, &linger, sizeof linger);
    assert_int_equal(zmq_bind(from, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(from, ZMQ_LAST_ENDPOINT, endpoint, &len), 0);
    assert_int_equal(sscanf(endpoint, "tcp://127.0.0.1:%u", &port), 1);
    assert_int_equal(zmq_connect(to, endpoint), 0);
    assert_int_equal(zmq_send(from, text, sizeof text, 0), sizeof text);
    zmq_msg_t m;
    zmq_msg_init(&m);
    assert_int_equal(zmq_msg_recv(&m, to, 0), sizeof text);
    assert_true(tcp_received(zmq_msg_get(&m, ZMQ_SRCFD), (uint16_t)port) >= sizeof text);
    zmq_msg_close(&m);
    zmq_close(from);
    zmq_close(to);
    zmq_ctx_term(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_count_before_anybody_reads_them),
        cmocka_unit_test(libzmq_tells_over_which_connection_a_message_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
