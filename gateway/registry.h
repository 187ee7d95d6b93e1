// The sessions this gateway knows: created from the pool, persisted, found again after a restart.
// A Jupyter kernel *is* a session: same id. Loop thread only.
//
// A `struct session *` is valid until the callback that got it returns. To keep it longer, keep its
// id and look it up again, or take session_ref() (then check s->deleted before use).
#pragma once
#include "common/ck_buf.h"
#include "common/ck_crypto.h"
#include "common/ck_error.h"
#include "common/ck_proc.h"
#include "gateway/caps.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct registry;

enum session_state {
    SESSION_STARTING, // asked for, or its kernel is being restarted
    SESSION_IDLE,
    SESSION_BUSY,
    SESSION_PAUSED,
    SESSION_DEAD, // stays in the list until it is deleted
};
const char *session_state_name(enum session_state s); // as in the API

struct session { // read-only for everyone but registry*.c
    char id[CK_UUID_MAX];
    char *name;          // never NULL; not unique
    enum session_state state;
    char *reason;        // why it is dead; NULL otherwise
    char *template_name; // of the session, as the API shows it
    char accelerator[8]; // "kvm" or "tcg"
    int memory_mb;
    int64_t created_us;       // wall clock, microseconds
    int64_t last_activity_us;
    int64_t execution_count;  // last one known, 0 at first
    json_t *metadata;    // object, never NULL
    json_t *timeouts;    // object {cell_s, idle_s, delete_s} as given
    struct caps caps;    // what it may use
    int connections;     // Jupyter WebSockets, counted by that door: session_connected()
    bool deleted;        // only seen through a ref
    json_t *usage;       // last one known, of a paused session; NULL = none
    char owner[CK_UUID_MAX]; // id of the token that made it, "" = the gateway's own: see owner.h
    int64_t paused_us;   // since when it is paused, 0 = it is not
    char socket[108];    // path of bridge.sock, for bridge_link_open()
};

struct session_spec { // every pointer is borrowed during the call; NULL = default
    const char *name;
    const char *template_name; // NULL or "default", or one that was built with a name (template_names.h)
    int memory_mb;             // 0 = as the template has; of those with the name one that has it, or refused (409)
    const json_t *env;         // {NAME: text} for the kernel; checked by the caller's door, bounded here
    const json_t *timeouts;    // {cell_s, idle_s, delete_s}
    const json_t *limits;      // see caps.h; not checked yet
    const json_t *artifact_ignore; // patterns (common/ck_ignore.h); NULL = the gateway's
    const json_t *metadata;    // at most 64 KiB as text
    const char *cwd;           // NULL = /home/user
    const char *owner;         // id of a token; NULL or "" = the gateway's own
    int owner_max;             // sessions that it may have, 0 = any number
};

// s is NULL exactly when err is not. Errors: 400 bad_field, 400 no_such_template, 409 template_not_built, 503
// template_building, 429 too_many_sessions (the Jupyter door
// turns it into 403), 503 no_capacity (retry later), 500 session_failed. Called once, from the loop,
// never from inside the call. A caller that is gone meanwhile sets its own user data accordingly.
typedef void (*registry_created)(void *user, struct session *s, const struct ck_err *err);
void registry_create(struct registry *r, const struct session_spec *spec, registry_created done, void *user);
struct template_ask; // template_names.h
// An ask of this gateway's for any template. Its texts live as long as the registry.
struct template_ask registry_templates(const struct registry *r);

// Ends kernel, VM and bridge and removes the folder; then done(err NULL). The session leaves the
// list at once. A session that is already being deleted: done follows with the first one's.
typedef void (*registry_done)(void *user, const struct ck_err *err);
void registry_delete(struct registry *r, struct session *s, registry_done done, void *user);

struct session *registry_find(struct registry *r, const char *id); // NULL when unknown
struct session *registry_next(struct registry *r, const struct session *after); // NULL = the first; by creation
size_t registry_count(const struct registry *r); // sessions that are not dead
int registry_set_name(struct registry *r, struct session *s, const char *name, struct ck_err *err);
int registry_set_metadata(struct registry *r, struct session *s, const json_t *metadata, struct ck_err *err);
int registry_set_timeouts(struct registry *r, struct session *s, const json_t *timeouts, struct ck_err *err);

struct session *session_ref(struct session *s);
void session_unref(struct session *s); // NULL is fine
void session_connected(struct session *s, int delta); // Jupyter WebSockets: +1, -1
void session_touch(struct session *s);                // last_activity = now (a request ran, not a poll)

// What a cell gets that asks for asked_ms (0 = nothing): the session's own time as it is now, whatever its bridge
// was told when it began. 0 = the session has none of its own.
int64_t session_cell_ms(const struct session *s, int64_t asked_ms);

// The session as the cell API shows it (design.md section 5), without "usage". New reference.
json_t *session_json(const struct session *s);

// --- Jupyter sessions: a path (notebook, console) bound to a kernel -------------------------------
struct jsession { // read-only; same life rule as struct session, there are no refs
    char id[CK_UUID_MAX];
    char kernel_id[CK_UUID_MAX];
    char *path, *name, *type; // never NULL
};
struct jsession *registry_js_create(struct registry *r, const char *path, const char *name, const char *type,
                                    const char *kernel_id, struct ck_err *err);
struct jsession *registry_js_find(struct registry *r, const char *id);
struct jsession *registry_js_next(struct registry *r, const struct jsession *after);
// NULL arguments stay as they are.
int registry_js_update(struct registry *r, struct jsession *j, const char *path, const char *name, const char *type,
                       const char *kernel_id, struct ck_err *err);
void registry_js_delete(struct registry *r, struct jsession *j);
// Deleting a session leaves its jsessions (the Jupyter door answers 410 and removes them).
