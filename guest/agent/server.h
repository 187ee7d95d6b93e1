// The agent's ROUTER socket: receives signed requests, sends signed answers and pushes. Main thread.
#pragma once
#include "guest/agent/loop.h"
#include "guest/agent/wire.h"

#define AG_PORT 5560
#define AG_PEER_MAX 255
#define AG_OUT_QUEUE_MAX 256

struct ag_server;

struct ag_peer {
    uint8_t id[AG_PEER_MAX]; // the ROUTER's name for a connection
    size_t n;                // 0 = nobody
};

// A verified request. Owned by its handler, which ends it with exactly one of ag_answer,
// ag_answer_error (both free it).
struct ag_request {
    struct ag_server *server;
    struct ag_peer peer;
    json_t *header;
    struct ck_buf payload;
    void *agent; // the handler's world, as given to ag_server_open
};

typedef void ag_request_fn(struct ag_request *req);

// Binds tcp port AG_PORT on all addresses, only for the host's end of the virtual network.
struct ag_server *ag_server_open(struct ag_loop *loop, ag_request_fn *fn, void *agent, struct ck_err *err);
void ag_server_close(struct ag_server *s); // NULL is fine

struct ag_wire *ag_server_wire(struct ag_server *s); // the conversation's keys and numbers

// answer: fields besides "re" and "n"; consumed (NULL = {"ok":true}). payload is copied.
void ag_answer(struct ag_request *req, json_t *answer, struct ck_slice payload);
void ag_answer_error(struct ag_request *req, const struct ck_err *err);

// As ag_answer, and forgets what was waiting to be sent: after a change of key the old peer's
// queue is nobody's any more.
void ag_server_forget_queue(struct ag_server *s);

// An unsolicited message to the peer of the last verified request; dropped when there is none.
void ag_push(struct ag_server *s, json_t *event, struct ck_slice payload); // consumes event
bool ag_server_has_room(const struct ag_server *s); // false = producers should stop reading for now
