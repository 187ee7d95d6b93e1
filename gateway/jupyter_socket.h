// One Jupyter WebSocket: /api/kernels/{id}/channels. Internal to jupyter_socket.c (its life),
// jupyter_deliver.c (events of the session to the client) and jupyter_submit.c (the client's
// messages to the bridge). Loop thread.
#pragma once
#include "gateway/bridge_link.h"
#include "gateway/http.h"
#include "gateway/jupyter_ack.h"
#include "gateway/jupyter_rate.h"
#include "gateway/jupyter_synth.h"
#include "gateway/life.h"
#include "gateway/serve.h"

#define JUP_CONSUMER_MAX 130
#define JUP_PARENT_MAX 4096 // a longer parent header is not repeated in our own messages
#define JUP_SENT_MAX 32

// What each phase may do:               client may send | events arrive | next
enum jup_phase {
    JUP_OPENING,   // handshake waits for the bridge      no |  no | LISTENING, LIVE, gone
    JUP_LISTENING, // accepted, not attached: the client   yes |  no | LIVE (its first message names it)
                   // has no session_id, its first message tells who it is
    JUP_LIVE,      // attached                             yes | yes | RETRYING, ENDING
    JUP_RETRYING,  // the bridge is out of reach          held |  no | LIVE, ENDING
    JUP_ASLEEP,    // the session is paused: a message     yes |  no | LIVE, LISTENING, ENDING
                   // of the client resumes it
    JUP_ENDING,    // the kernel is gone, the client knows  no |  no | gone
    JUP_LEAVING,   // the client is gone, its last ack goes out
};

// A request that was handed to the bridge, remembered in case the bridge refuses it.
struct jup_sent {
    int64_t rid; // 0 = free
    enum jup_channel channel;
    struct ck_buf header; // owned
};

struct jup_socket {
    struct jup_socket *prev, *next; // all sockets of this gateway
    struct gateway *g;
    struct session *session; // a reference
    struct session_watch watch;
    enum jup_phase phase;
    enum jup_dialect dialect;
    char consumer[JUP_CONSUMER_MAX]; // "" until known
    bool named;                      // by the client's session_id
    char speaks[JUP_CONSUMER_MAX];   // session of the first message of a client that is not named
    bool guessed;                    // it has not spoken yet: speaks is who it may be
    struct http_req *req;            // while OPENING
    struct ws_conn *ws;              // from LISTENING or LIVE on
    struct bridge_link *link;        // NULL while RETRYING waits
    int64_t attach_rid;
    uint64_t last_seq; // newest event handed to the socket
    uint64_t first_seq; // LISTENING: what a new consumer would see first
    int retries;
    struct jup_ack ack;
    uint64_t said; // place in the output after the last message
    int64_t acked_ms; // when the bridge was last told what is sure
    struct {
        uint64_t told;    // the last `sent` that the bridge was told
        uint64_t sample;  // written at sample_ms; while its arrival is not late, what is written counts as sent
        int64_t sample_ms, looked_ms;
        unsigned late;    // looks in a row that found it late
    } sent;
    uv_timer_t ack_timer, sent_timer, phase_timer;
    int open_timers;
    bool freed;
    // for messages of our own
    char kernel_session[JUP_ID_MAX];
    struct ck_buf parent; // of the newest iopub message
    uint64_t gap_count, gap_bytes;
    bool dead_said;
    struct jup_rate *rate; // owned; NULL until the settings' rate limit is first asked
    struct jup_sent asked[JUP_SENT_MAX];
    unsigned asked_at;
};

// jupyter_deliver.c
// One event frame of the bridge.
void jup_deliver(struct jup_socket *k, const json_t *header, const struct ck_frame *frame);
void jup_say(struct jup_socket *k, const struct jup_synth *s); // a message of our own
void jup_say_dead(struct jup_socket *k);                       // once
// Tells a client that its request was refused: error, reply and idle, so that no cell hangs.
void jup_say_refused(struct jup_socket *k, enum jup_channel ch, const struct jup_head *head, struct ck_slice header,
                     const char *ename, const char *evalue);

// jupyter_submit.c
void jup_submit(struct jup_socket *k, bool binary, struct ck_slice msg);
void jup_submit_too_large(struct jup_socket *k, bool binary, struct ck_slice start);
void jup_submit_failed(struct jup_socket *k, int64_t rid, const struct ck_err *err); // the bridge refused it
void jup_submit_forget(struct jup_socket *k); // a new link begins, and its numbers anew
void jup_submit_none_served(struct jup_socket *k, const struct ck_err *err); // what came since then is refused
void jup_submit_free(struct jup_socket *k);

// jupyter_position.c
void jup_position_init(struct jup_socket *k, uv_loop_t *loop);  // its two timers
void jup_position_given(struct jup_socket *k);     // an event was given to the socket
void jup_position_written(struct jup_socket *k);   // bytes went to the client's host
void jup_position_confirmed(struct jup_socket *k); // the client answered what it has
void jup_position_attached(struct jup_socket *k);  // to the bridge, anew
void jup_position_again(struct jup_socket *k);     // what is sure, to a bridge that may not have heard it
void jup_position_final(struct jup_socket *k);     // the client is gone, or is let go: before its link closes

// jupyter_socket.c
// A message of this session came. A socket that has no session_id says with it who it is.
void jup_socket_spoke(struct jup_socket *k, const char *session);
void jup_socket_wake(struct jup_socket *k); // from ASLEEP: what is sent now resumes the session
void jup_socket_end(struct jup_socket *k); // the kernel is gone for good
