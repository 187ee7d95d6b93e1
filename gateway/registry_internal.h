// Shared by registry*.c and session.c only.
#pragma once
#include "gateway/bridge_link.h"
#include "gateway/launcher.h"
#include "gateway/life_internal.h"
#include "gateway/registry.h"
#include "gateway/registry_run.h"
#include "gateway/store.h"

#include <uv.h>

struct pool;

struct deletion_waiter {
    struct deletion_waiter *next;
    registry_done done;
    void *user;
};

// Sessions that a token is getting just now; with none it is not in the list.
struct getting {
    struct getting *next;
    char owner[CK_UUID_MAX];
    size_t n;
};

#define REGISTRY_BUCKETS 1024

extern const char *const registry_endings[REGISTRY_ENDINGS];

// What the registry keeps about a session beside what everybody sees. `pub` is first.
struct entry {
    struct session pub;
    struct registry *reg;
    struct entry *next, *prev; // in the list, by creation
    struct entry *same;        // the next of its bucket
    int refs;                  // the list holds one
    struct bridge_proc *proc;  // NULL once its process is known to be gone and its folder removed
    struct bridge_link *follow;
    uv_timer_t retry;          // of the follow link
    bool retry_open;           // the handle is live
    int follow_tries;
    bool closing;              // being deleted
    struct life life;
    struct deletion_waiter *waiters;
    struct registry_used used; // as last told
    bool used_known;
    int64_t asked_ms;          // when a busy one was last asked what it has used
};

struct js_entry {
    struct jsession pub;
    struct js_entry *next, *prev;
};

struct registry {
    uv_loop_t *loop;
    struct store *store;
    struct pool *pool;
    struct launcher *launcher;
    const struct config *config;
    char template_dir[PATH_MAX], sessions_dir[PATH_MAX], accelerator[8], qemu[128];
    int memory_mb;
    struct entry *first, *last;
    struct entry *bucket[REGISTRY_BUCKETS]; // of the same entries, by id
    struct js_entry *js_first, *js_last;
    size_t nlive;     // in the list and not dead
    size_t ncreating;
    struct getting *getting;
    size_t nending;   // being deleted
    size_t created, failed, died; // since the start
    struct registry_used used;    // by all, likewise
    bool draining;
    uv_timer_t life_timer;
    bool life_open;   // the timer is live
    bool pausing;     // the drain pauses everything: no resumes
    size_t nlife;     // operations on the lives of sessions under way
    struct life_count life_counts[LIFE_OPS];
    void (*quiet)(void *user); // when nothing is being created or ended any more
    void *quiet_user;
};

// session.c
struct entry *entry_new(struct registry *r, const char *id); // one reference; metadata and timeouts are {}
void entry_set_state(struct entry *e, enum session_state state, const char *reason); // keeps nlive; stores a death
struct entry **entry_bucket(struct registry *r, const char *id); // upper and lower case are the same
void entry_link(struct entry *e);
void entry_unlink(struct entry *e);

// registry_follow.c: learns the state of a session from its bridge
void follow_start(struct entry *e);
void follow_stop(struct entry *e);
void follow_ask(struct entry *e);    // for its info
void follow_let_go(struct entry *e); // closes the link; follow_start() may come again

// registry_owner.c
int owner_admit(const struct registry *r, const char *owner, int max, size_t more, struct ck_err *err); // 429
void owner_getting(struct registry *r, const char *owner, int n); // +n: as many are made now; -n: no more

// registry_js.c
void registry_js_restore(struct registry *r, const struct store_jsession *row);

// registry.c
void registry_maybe_quiet(struct registry *r);
void registry_end(struct entry *e); // ends and removes what is left of a deleted session
int64_t entry_limit_s(const struct entry *e, const char *key, int64_t gateways); // of its timeouts
void entry_dir(const struct entry *e, char dir[PATH_MAX]);

// session.c, used by registry_recover.c and life*.c too
void entry_paused(struct entry *e, const char *layer, int64_t since_us); // its bridge is gone, its layer is there
