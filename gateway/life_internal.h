// Shared by life*.c and registry*.c only: what the registry keeps about the life of one session.
#pragma once
#include "gateway/launcher.h"
#include "gateway/layer_files.h"
#include "gateway/life.h"
#include "gateway/life_state.h"

struct entry;
struct registry;
struct slink;

struct life_waiter { // somebody who is told how the operation under way ends
    struct life_waiter *next;
    life_done done;
    void *user;
};

struct life {
    enum life_op op; // under way
    int64_t began_ms;
    void (*start)(struct entry *e); // of op, held back until the folder has been tidied
    struct life_waiter *waiters;  // told how op ends
    struct life_waiter *resumers; // who want the session to run: told when it does, or that it will not
    struct slink *kept;              // of these, one that nobody uses; or NULL
    struct slink *links;             // open links and calls, and those that wait for a resume
    struct session_watch *watches;
    struct checkpoint *checkpoints;  // oldest first, owned
    size_t ncheckpoints;
    char layer[CK_UUID_MAX]; // of a paused session; of the operation that makes one
    char base[CK_UUID_MAX];  // whose disk the running machine's lies on
    bool base_known;
    bool tidy_wanted, tidying;
    struct launch *launch;   // of a resume
    void *job;               // of op, its own
    int64_t idle_us;         // of a pause
    bool pause_tried;        // by the drain
    int64_t look_after_us;   // not before is it looked at again whether it is idle
};

struct life_count { // of one operation, since the start
    size_t ended, failed;
    int64_t ms;
};

// life.c: one operation at a time
// As life_judge(); LIFE_GO takes the operation and calls start(e), now or from the loop; with it and with
// LIFE_JOIN done is told how it ends (NULL = nobody waits). e stays until life_end(), which every
// operation calls once, from the loop, never from inside start.
enum life_verdict life_begin(struct entry *e, enum life_op op, void (*start)(struct entry *e), life_done done, void *user,
                             struct ck_err *err);
void life_end(struct entry *e, const struct ck_err *err); // tells who waits; resumes for those who want it
int life_want(struct entry *e, life_done done, void *user, struct ck_err *err); // as session_resume
void life_tell(struct entry *e, enum session_event what);
// An operation on a layer to the bridge, which may have its hands full with it for a long time.
void life_call(struct entry *e, const char *op, const char *layer, int timeout_ms, bridge_call_done done, void *user);
void life_abort(struct entry *e); // the session is being deleted: what runs ends soon, and badly

// life_link.c
void links_go(struct entry *e);                              // the session runs: those who wait connect
void links_fail(struct entry *e, const struct ck_err *err);  // it will not: those who wait are told
void links_expire(struct entry *e, int64_t now_ms); // those that wait, and the kept one
void links_let_go(struct entry *e); // of the kept one
bool links_waiting(const struct entry *e);
bool links_at_rest(const struct entry *e); // no request is under way, nothing is on its way to the bridge

// life_pause.c
// As session_pause; not when there was activity within the last idle_us.
int life_pause(struct entry *e, int64_t idle_us, life_done done, void *user, struct ck_err *err);
int life_begin_resume(struct entry *e, struct ck_err *err); // nothing must be under way; 0 or -1
bool life_found_paused(struct entry *e); // the bridge has ended: did it pause? reads a small file

// life_tidy.c: work on the folder, off the loop
struct life_work;
typedef void (*life_work_fn)(struct life_work *w); // on the thread pool
struct life_work {
    uv_work_t work;
    struct entry *e; // a reference is held
    char dir[PATH_MAX], layer[CK_UUID_MAX];
    uid_t owner;     // of what the bridge makes
    int64_t bytes, number;
    struct ck_err err;
    life_work_fn run;
    void (*done)(struct life_work *w); // on the loop; w is freed when it returns
    void *user;
};
struct life_work *life_work_new(struct entry *e, const char *layer, life_work_fn run, void (*done)(struct life_work *w));
void life_work_go(struct life_work *w);
void life_seal(struct entry *e, const char *layer, void *user, void (*done)(struct life_work *w));
void life_tidy(struct entry *e); // when it is wanted and nothing else runs

// life_checkpoint.c
int checkpoint_unknown(struct ck_err *err); // 404 no_such_checkpoint
void checkpoint_add(struct entry *e, const char *id, const char *name, int64_t created_us, int64_t bytes, const char *layer);
void checkpoints_free(struct entry *e);

// life_idle.c
void life_idle_start(struct registry *r);
void life_idle_stop(struct registry *r);
