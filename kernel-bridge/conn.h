// The inside of a connection; shared by service.c, conn.c and conn_log.c only.
#pragma once
#include "kernel-bridge/evlog.h"
#include "kernel-bridge/service.h"

#include <uv.h>

#define CONN_BATCH_MAX 64                // frames of one write
#define CONN_BATCH_BYTES (512 * 1024)    // events of one write, unless the first is larger
#define CONN_AT_ONCE 4                   // writes of one connection before the others have their turn
#define CONN_BACKFILLS_MAX 16

struct service {
    struct bridge *b;
    uv_pipe_t listener;
    uv_prepare_t prepare; // looks for news before the loop sleeps
    unsigned handles;
    bool news, closing, held;
    void (*flushed)(void *user); // NULL = nobody waits
    void *flush_user;
    unsigned count, room; // connections; slots used so far
    struct {
        struct conn *conn;
        uint32_t generation;
    } slot[SVC_CONNS_MAX];
};

struct backfill {
    char session[JW_ID_MAX];
    uint64_t next, end; // [next, end)
};

struct conn {
    struct service *s;
    uint32_t slot, generation;
    uv_pipe_t pipe;
    bool closing, reading, parsing;
    unsigned holds;

    struct ck_buf in;

    struct ck_blob **out; // ring of answers
    size_t out_room, out_at, out_n, out_bytes;
    uv_write_t write;
    bool writing;
    struct ck_blob *batch[CONN_BATCH_MAX];
    unsigned batch_n;

    bool attached;
    enum ev_mode mode;
    uint64_t cursor, sent;
    char cell[CK_UUID_MAX];
    bool cell_seen; // its `cell` event was delivered
    struct consumer *consumer;
    struct backfill backfill[CONN_BACKFILLS_MAX];
    unsigned backfills;

    struct job *jobs;
    unsigned njobs;
};

struct conn *conn_new(struct service *s); // the pipe is initialised
void conn_start(struct conn *c);
void conn_close(struct conn *c);
void conn_send(struct conn *c, struct ck_blob *frame); // takes the reference; NULL (no memory) closes
void conn_pump(struct conn *c);                        // writes what there is, unless a write is under way
void svc_release_slot(struct service *s, struct conn *c);

// conn_log.c: the next event for an attached connection as a frame (a new reference), NULL = none now
struct ck_blob *conn_next_event(struct conn *c);
void conn_detach(struct conn *c);
void conn_peer_gone(struct conn *c); // the gateway closed it, or died: before conn_close()
