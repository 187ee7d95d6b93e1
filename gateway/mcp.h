// The MCP door: what its files share. Loop thread only.
//
// mcp_http.c reads requests, mcp_peer.c knows the clients that began with `initialize`, mcp_call.c runs
// one call of a tool from its arguments to its answer, mcp_session.c finds or starts the session that a
// call is about, mcp_python.c, mcp_command.c and mcp_files.c do what the tools say.
#pragma once
#include "gateway/bridge_link.h"
#include "gateway/cell_run.h"
#include "gateway/http.h"
#include "gateway/life.h"
#include "gateway/mcp_content.h"
#include "gateway/mcp_message.h"
#include "gateway/mcp_tools.h"
#include "gateway/v1_text.h"

#define MCP_BODY_MAX (32u * 1024 * 1024)
#define MCP_PEERS_MAX 4096
#define MCP_BASE_MAX 300

struct mcp_call;
struct mcp_start;

// One client of the legacy era, from initialize to DELETE. The longest unused one goes when there are
// too many; a client that is not known (any more) begins anew, and finds its session again by the
// session's metadata.
struct mcp_peer {
    struct mcp_peer *next, *prev; // most recently used first
    char id[CK_UUID_MAX];
    char version[16];
    char owner[CK_UUID_MAX];   // http_owner() of who began it: nobody else's requests are its
    char session[CK_UUID_MAX]; // its default session, "" = none yet
    char *named;               // owned: ?session= of its URL; that session is not ours to delete. NULL = none
    struct mcp_start *start;   // its session is being started
};

struct mcp { // one a gateway
    struct gateway *gw;
    struct mcp_peer *peers;
    size_t npeers;
    struct mcp_call *calls;
};

struct mcp_peer *mcp_peer_new(struct mcp *m, const char *version, const char *named,
                              const char *owner);                                 // NULL = out of memory
struct mcp_peer *mcp_peer_find(struct mcp *m, const char *id, const char *owner); // and marks it as used
void mcp_peer_remove(struct mcp_peer *p, struct mcp *m);                               // its calls are cancelled

// One call of a tool. It lives until it has been answered; a client of the legacy era that leaves does
// not end it, one of the modern era does.
struct mcp_call {
    struct mcp_call *next, *prev;
    struct mcp *m;
    struct http_req *r;      // NULL when the client has left
    struct mcp_peer *peer;   // NULL: modern era, or removed meanwhile
    json_t *params;          // owned: what args point into
    json_t *id, *progress;   // owned; progress may be NULL
    char owner[CK_UUID_MAX];
    int owner_max;
    char base[MCP_BASE_MAX]; // "http://host:port" of links
    bool modern, links, streaming, cancelled, converting;
    struct mcp_call_args args;
    uv_timer_t timer; // its close frees the call
    int64_t started_ms, told_ms;

    struct mcp_start *start; // waits for this
    struct mcp_call *next_waiting;
    struct session *s;       // ref, once known
    bool fresh;              // s was made for this call: its handle is told
    bool lost;               // the peer's earlier session has ended

    struct cell_run *run;    // run_python
    struct cell_view *view;  // of its end
    json_t *made;            // what that becomes
    struct picture_shrink *shrink; // of read_file
    struct pictures *pictures;     // owned
    struct bridge_link *link; // the others
    struct bridge_call *op;
    struct v1_text text[2];
    int64_t rid;
    struct ck_buf data;
    char mime[160];
    uint64_t size;
};

// Takes r, which is answered in the end, and the references of params, id and progress.
void mcp_call_begin(struct mcp *m, struct http_req *r, struct mcp_peer *peer, const struct mcp_message *msg,
                    const char *base, bool links);
void mcp_call_cancel(struct mcp_call *c);
struct mcp_call *mcp_call_find(struct mcp *m, const struct mcp_peer *peer, const json_t *id);
void mcp_call_finish(struct mcp_call *c, json_t *result); // takes the reference (NULL = out of memory); c is gone
void mcp_call_fail(struct mcp_call *c, const struct ck_err *err); // as a result with isError; c is gone
void mcp_call_tell(struct mcp_call *c, const char *text, size_t n); // progress, when it is time for one

// Makes c->s, then calls mcp_call_go(); or ends c.
void mcp_session_need(struct mcp_call *c);
void mcp_session_forget(struct mcp_call *c); // it does not wait any more
void mcp_call_go(struct mcp_call *c);
void mcp_session_close(struct mcp_call *c); // the tool close_session
struct session *mcp_session_find(struct mcp_call *c, const char *handle); // id or name; NULL = none

void mcp_python(struct mcp_call *c);
void mcp_command(struct mcp_call *c);
void mcp_read_file(struct mcp_call *c);
void mcp_write_file(struct mcp_call *c);
void mcp_list_files(struct mcp_call *c);

// The object of an answer in the shape of its era; takes result.
json_t *mcp_answer(bool modern, const json_t *id, json_t *result);
