// libzmq tells of a message when it is whole; the system knows how much of it has come. Must never
// read from the connection, nor believe a descriptor's number that may have passed to another one.
// A file of its own: libuv's header brings the C library's tcp_info, which is older than the counter.
#include "kernel-bridge/tcpbytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

uint64_t tcp_received(int fd, uint16_t port)
{
    struct sockaddr_in peer = {.sin_family = AF_UNSPEC};
    struct tcp_info info = {0};
    socklen_t peer_len = sizeof peer, len = sizeof info;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) || peer.sin_family != AF_INET ||
        ntohs(peer.sin_port) != port || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ||
        len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return 0;
    return info.tcpi_bytes_received;
}
