// How much has come over a TCP connection that somebody else reads. Any thread.
#pragma once
#include <stdint.h>

// Bytes that fd's peer has sent so far. 0 when fd is no connection to that port (not any more, or its
// number is somebody else's by now), or the system does not tell.
uint64_t tcp_received(int fd, uint16_t port);
