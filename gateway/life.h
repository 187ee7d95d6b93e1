// The life of a session for the doors: pause, resume, checkpoint, rollback, fork, and how to reach a
// session that may be paused. What is allowed when is life_state.h's. Loop thread only.
#pragma once
#include "gateway/bridge_link.h"
#include "gateway/registry.h"

// --- reaching a session ------------------------------------------------------------------------------
// A paused session is resumed by whoever wants something of it, transparently: the link or call waits
// (operations sent meanwhile wait with it) and then goes on as any other. What merely looks uses
// bridge_link_open and bridge_call on s->socket and does without an answer when s is paused.
enum session_link {
    SESSION_LINK_REQUEST, // something is under way while it is open: the session is not at rest
    SESSION_LINK_FEED,    // only listens, or says so itself: its owner watches the session (below)
};
#define SESSION_RESUME_MS 40000 // at most so long does anybody wait for a resume

// As bridge_link_open. A resume that fails closes the link: 503 "resume_failed" or "resume_timeout".
struct bridge_link *session_link_open(struct session *s, enum session_link kind, const struct bridge_link_events *ev,
                                      void *user, struct ck_err *err);
// The same for a request, on the link that an earlier one has left (session_link_give()), if there is one:
// it is connected already.
struct bridge_link *session_link_take(struct session *s, const struct bridge_link_events *ev, void *user,
                                      struct ck_err *err);
// Instead of bridge_link_close(), when the bridge has nothing more to send to l but answers that nobody
// waits for. From any callback of l. One link of a session is kept, for a while; others are closed.
void session_link_give(struct bridge_link *l);
// As bridge_call; timeout_ms counts from when the session can be reached.
struct bridge_call *session_call(struct session *s, json_t *op, int timeout_ms, bridge_call_done done, void *user);
int64_t session_wait_ms(const struct session *s); // 0, or SESSION_RESUME_MS while it cannot be reached at once

// --- being told --------------------------------------------------------------------------------------
// For owners of SESSION_LINK_FEED links, which stay when the session pauses and let go of the bridge.
enum session_event {
    SESSION_SETTLES, // it is being paused: send it nothing more
    SESSION_GOES_ON, // it is not, after all
    SESSION_SLEEPS,  // it is paused: close the link, the next session_link_open() resumes
    SESSION_RUNS,    // it runs again: those who have no link may open one
    SESSION_ENDED,   // it was deleted while paused
};
struct session_watch { // embedded in its owner; zeroed = not watching
    struct session_watch *next, *prev;
    struct session *s;
    void (*on)(struct session_watch *w, enum session_event what); // may unwatch w, not others
};
void session_watch(struct session *s, struct session_watch *w,
                   void (*on)(struct session_watch *w, enum session_event what));
void session_unwatch(struct session_watch *w); // fine when not watching
bool session_settling(const struct session *s);

// --- operations --------------------------------------------------------------------------------------
// Outcomes: 0 = done will be called, once, from the loop; 1 = it is so already, done is not called;
// -1 = refused with err, done is not called. s in done is valid during the call, NULL when it was
// deleted meanwhile (err is set then).
typedef void (*life_done)(void *user, struct session *s, const struct ck_err *err);
int session_pause(struct session *s, life_done done, void *user, struct ck_err *err);
int session_resume(struct session *s, life_done done, void *user, struct ck_err *err);

struct checkpoint { // read-only; valid until the callback that got it returns
    struct checkpoint *next; // oldest first
    char id[CK_UUID_MAX];
    char *name;
    int64_t created_us, bytes;
    char layer[CK_UUID_MAX];
};
#define CHECKPOINTS_MAX 100 // of a session
// name NULL = one is made up. done gets it, or err.
typedef void (*checkpoint_done)(void *user, const struct checkpoint *c, const struct ck_err *err);
int session_checkpoint(struct session *s, const char *name, checkpoint_done done, void *user, struct ck_err *err);
const struct checkpoint *session_checkpoints(const struct session *s);
const struct checkpoint *session_find_checkpoint(const struct session *s, const char *id_or_name); // NULL = unknown
int session_forget_checkpoint(struct session *s, const char *id_or_name, struct ck_err *err); // 0 or -1
int session_rollback(struct session *s, const char *id_or_name, life_done done, void *user, struct ck_err *err);

#define FORKS_MAX 1000
struct fork;
struct fork_events {
    void (*on_progress)(void *user, int ready, int count); // optional
    // Once, from the loop; f is gone when it returns. err NULL: all of them exist, in order. Else none.
    void (*on_done)(void *user, struct session *const *forks, int count, const struct ck_err *err);
};
struct fork_wish {
    int count;
    const char *checkpoint; // id or name of the one to begin from; NULL = from the session as it is now
    int owner_max;          // sessions that the token of s may have, 0 = any number
};
// NULL = refused with err.
struct fork *session_fork(struct session *s, const struct fork_wish *wish, const struct fork_events *ev, void *user,
                          struct ck_err *err);
void fork_cancel(struct fork *f); // on_done will not be called; what was made is removed
