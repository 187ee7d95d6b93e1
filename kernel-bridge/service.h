// The bridge's unix socket: connections of the gateway, each with its own read position in the event
// log. One thread. An event is handed to a connection only when its previous write has gone out, so
// a slow reader costs a place in the log and no memory.
#pragma once
#include "common/ck_error.h"
#include "common/ck_frame.h"
#include "kernel-bridge/bops.h"
#include "kernel-bridge/consumers.h"

#include <stdint.h>

#define SVC_CONNS_MAX 4096
#define SVC_FRAME_MAX (112u * 1024 * 1024) // of what the gateway sends
#define SVC_JOBS_MAX 64                   // of one connection
#define SVC_QUEUE_MAX (160u * 1024 * 1024) // bytes of answers waiting for one connection; more closes it
#define SVC_QUEUE_HIGH (1024 * 1024)      // jobs stop producing above it, until `drained`

struct bridge;
struct service;
struct conn;

// Where an answer goes. Stays harmless when its connection has closed meanwhile.
struct reply_to {
    uint32_t slot, generation;
    int64_t rid;
};

// Something that lives as long as its connection at most: a file transfer, a command. Embedded as the
// first member of the owner's struct.
struct job;
struct job_ops {
    void (*conn_closed)(struct job *j);                     // its connection is gone: clean up and free
    void (*drained)(struct job *j);                         // NULL = not interested
    void (*data)(struct job *j, const struct bop *op);      // data, data_end, data_abort with its rid
};
struct job {
    struct job *next;
    const struct job_ops *ops;
    struct conn *conn;
    int64_t rid;
};

struct service *svc_new(struct bridge *b, int listen_fd, struct ck_err *err); // takes the descriptor over
void svc_close(struct service *s); // closes everything; NULL is fine. The loop frees it
void svc_wake(struct service *s);  // there is news in the log
bool svc_tell(struct service *s);  // now, before an answer that follows from it; true = not all of it is written yet
// Calls done, once and from the loop, when every connection has been handed all that there is for it.
void svc_flush(struct service *s, void (*done)(void *user), void *user);
unsigned svc_connections(const struct service *s);
// Whether no connection has part of a frame, a transfer, a command, or is not being read.
bool svc_quiet(const struct service *s);
// Positions become what they would be if the gateway died now.
void svc_presume(struct service *s);
void svc_hold(struct service *s, bool on); // nothing is read of any connection, new ones either

// Answers. fields: what follows "re" in the header, e.g. `"ok":true`; parts may be NULL.
void svc_reply(struct service *s, struct reply_to to, struct ck_slice fields, const struct ck_slice *parts, uint32_t n);
void svc_reply_ok(struct service *s, struct reply_to to);
void svc_reply_error(struct service *s, struct reply_to to, const struct ck_err *err);
struct reply_to conn_reply_to(const struct conn *c, int64_t rid);
struct service *conn_service(const struct conn *c);

// Attaches the connection to the log; answers op itself when it succeeds.
int conn_attach(struct conn *c, const struct bop *op, struct ck_err *err);
// The same to one cell from seq on, for whom the answer says it: answers go before events.
void conn_follow_cell(struct conn *c, const char *cell, uint64_t seq);
// sent: what was given to the client's host beyond seq; it counts if the gateway dies without a word.
void conn_ack(struct conn *c, uint64_t seq, uint64_t sent);
struct consumer *conn_consumer(const struct conn *c); // NULL = not attached as a Jupyter consumer
// Shell, control and stdin messages of this session above `from` that this connection has passed by
// are delivered now.
void conn_backfill(struct conn *c, const char *session, uint64_t from);

int conn_job_add(struct conn *c, struct job *j, int64_t rid, const struct job_ops *ops, struct ck_err *err);
void conn_job_remove(struct job *j); // does not free
struct job *conn_job(const struct conn *c, int64_t rid);
size_t conn_queued(const struct conn *c); // bytes of answers not yet written
// While something else must happen first the connection is not read; calls nest.
void conn_hold(struct conn *c);
void conn_release(struct conn *c);
