// Read positions of Jupyter consumers and which sessions (header.session of their requests) are
// theirs, kept over their connections. Pure; one thread.
#pragma once
#include "kernel-bridge/jwire.h"

#define CONS_MAX 1024          // the longest unused goes first, attached ones never
#define CONS_SESSIONS_MAX 4096 // of all consumers; the longest unused goes first
#define CONS_NAME_MAX 200

struct consumers;
struct consumer;
struct consumers *cons_new(void);
void cons_free(struct consumers *t);

// Finds or makes. *is_new tells. NULL: no memory, or all of CONS_MAX are attached.
struct consumer *cons_get(struct consumers *t, const char *name, bool *is_new);
uint64_t cons_acked(const struct consumer *c);
void cons_ack(struct consumers *t, struct consumer *c, uint64_t seq); // never backwards
// The connection that serves it (opaque here); attached consumers are not forgotten.
void *cons_holder(const struct consumer *c);
void cons_set_holder(struct consumers *t, struct consumer *c, void *holder, uint64_t now_seq);
unsigned cons_attached(const struct consumers *t);

// A request of this consumer carried this session. Outcomes: 0 = nothing to deliver in addition;
// 1 = it is new to this consumer, and replies above *from that its last owner did not acknowledge
// must be delivered; negative = no memory.
int cons_learn(struct consumers *t, struct consumer *c, const char *session, uint64_t *from);
bool cons_owns(const struct consumer *c, const char *session);
bool cons_owns_any(const void *consumer, const char *session); // for ev_filter.owns

// For positions that outlive the process (history.h). Consumers in any order, sessions from the
// longest unused to the newest: restored in that order they are what they were, attached to nobody.
struct cons_seen {
    const char *name;    // of a consumer, or id of a session; the table's
    uint64_t acked, used;
    int owner;           // of a session: index of its consumer, -1 = forgotten
};
unsigned cons_count(const struct consumers *t);
void cons_at(const struct consumers *t, unsigned i, struct cons_seen *out);
unsigned cons_sessions(const struct consumers *t);
typedef int (*cons_session_fn)(void *user, const struct cons_seen *session); // nonzero ends the walk
int cons_each_session(const struct consumers *t, cons_session_fn fn, void *user);
// Into a table that lacks it; -1 = known already, too long, no such owner, or full.
int cons_restore(struct consumers *t, const struct cons_seen *consumer);
int cons_restore_session(struct consumers *t, const struct cons_seen *session);
