// What the gateway remembers over a restart: sessions and Jupyter sessions, in STATE/cellkeep.db
// (SQLite, WAL). Opening and loading block and happen before the loop runs; every write is queued in
// order and done on libuv's thread pool, many in one transaction when they pile up. Loop thread only.
// Environments are never stored, of tokens only hashes.
#pragma once
#include "common/ck_error.h"
#include "gateway/registry.h"

#include <uv.h>

struct store;

// Makes or migrates the database. Errors (one line for the user): not writable, damaged, made by a
// newer cellkeep, not ours.
int store_open(uv_loop_t *loop, const char *state_dir, struct store **out, struct ck_err *err);

// Pointers in a row are valid during the callback.
struct store_session {
    const char *id, *name, *template_name, *accelerator, *reason; // reason may be NULL
    const char *metadata, *timeouts;                              // JSON text
    int memory_mb;
    int64_t created_us, last_activity_us, paused_us;
    bool dead;
    const char *usage, *limits; // JSON text; may be NULL
    const char *owner;
};
int store_load_sessions(struct store *s, void (*row)(void *user, const struct store_session *r), void *user, struct ck_err *err);
struct store_jsession {
    const char *id, *path, *name, *type, *kernel_id;
};
int store_load_jsessions(struct store *s, void (*row)(void *user, const struct store_jsession *r), void *user, struct ck_err *err);

struct checkpoint;
struct store_checkpoint {
    const char *id, *session, *name;
    int64_t created_us, bytes;
    const char *layer;
};
int store_load_checkpoints(struct store *s, void (*row)(void *user, const struct store_checkpoint *r), void *user, struct ck_err *err);

struct store_token {
    const char *id, *name, *hash; // hash: of the token, in hex
    int64_t created_us;
    int max_sessions;
};
int store_load_tokens(struct store *s, void (*row)(void *user, const struct store_token *r), void *user, struct ck_err *err);

// done (may be NULL) is called from the loop when the write is committed, or with err. Everything is
// copied. A failed write without done is logged.
typedef void (*store_done)(void *user, const struct ck_err *err);
void store_put_session(struct store *s, const struct session *x, store_done done, void *user);
void store_delete_session(struct store *s, const char *id); // and its checkpoints
void store_put_checkpoint(struct store *s, const char *session, const struct checkpoint *c, store_done done, void *user);
void store_delete_checkpoint(struct store *s, const char *id);
void store_put_jsession(struct store *s, const struct jsession *j);
void store_delete_jsession(struct store *s, const char *id);

void store_put_token(struct store *s, const struct store_token *t, store_done done, void *user);
void store_delete_token(struct store *s, const char *id, store_done done, void *user);

// Calls closed from the loop when everything queued is on disk and the database is shut; s is gone
// then. Nothing may be queued afterwards. NULL is fine (closed is called at once).
void store_close(struct store *s, void (*closed)(void *user), void *user);
