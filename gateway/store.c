// SQLite behind a queue. One batch is on the thread pool at a time, so order is kept and the
// connection is never used by two threads.
#include "gateway/store.h"

#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "gateway/life.h"

#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APPLICATION_ID 0x436b6570 // "Ckep"
#define PARAMS_MAX 15

static const char FIRST[] =
    "CREATE TABLE sessions(id TEXT PRIMARY KEY, name TEXT NOT NULL, template TEXT NOT NULL, accelerator TEXT NOT NULL,"
    " memory_mb INTEGER NOT NULL, created_us INTEGER NOT NULL, last_activity_us INTEGER NOT NULL,"
    " metadata TEXT NOT NULL, timeouts TEXT NOT NULL, dead INTEGER NOT NULL, reason TEXT) WITHOUT ROWID;"
    "CREATE TABLE jupyter_sessions(id TEXT PRIMARY KEY, path TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL,"
    " kernel_id TEXT NOT NULL) WITHOUT ROWID;";

static const char WITH_LAYERS[] = // paused_us: since when; 0 = not paused
    "ALTER TABLE sessions ADD COLUMN paused_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sessions ADD COLUMN usage TEXT;"
    "CREATE TABLE checkpoints(id TEXT PRIMARY KEY, session TEXT NOT NULL, name TEXT NOT NULL, created_us INTEGER "
    "NOT NULL,"
    " bytes INTEGER NOT NULL, layer TEXT NOT NULL, UNIQUE(session, name)) WITHOUT ROWID;";

static const char WITH_TOKENS[] = // owner: id of a token, '' = the gateway's own
    "ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';"
    "CREATE TABLE tokens(id TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, created_us INTEGER NOT NULL,"
    " max_sessions INTEGER NOT NULL) WITHOUT ROWID;";

static const char WITH_LIMITS[] = "ALTER TABLE sessions ADD COLUMN limits TEXT;"; // JSON; NULL: the server's

// Each entry takes the schema from its index to the next version. Never edit one that was released.
static const char *const MIGRATIONS[] = {FIRST, WITH_LAYERS, WITH_TOKENS, WITH_LIMITS};
#define SCHEMA_VERSION ((int)(sizeof MIGRATIONS / sizeof MIGRATIONS[0]))

enum statement {
    PUT_SESSION,
    DELETE_SESSION,
    PUT_JSESSION,
    DELETE_JSESSION,
    PUT_CHECKPOINT,
    DELETE_CHECKPOINT,
    DELETE_CHECKPOINTS, // of a session
    PUT_TOKEN,
    DELETE_TOKEN,
    STATEMENTS
};
static const char *const SQL[STATEMENTS] = {
    // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one statement on several lines
    [PUT_SESSION] = "INSERT INTO sessions VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15) ON CONFLICT(id) DO "
                    "UPDATE SET "
                    "name=?2, template=?3, accelerator=?4, memory_mb=?5, created_us=?6, last_activity_us=?7, "
                    "metadata=?8,"
                    " timeouts=?9, dead=?10, reason=?11, paused_us=?12, usage=?13, owner=?14, limits=?15",
    [DELETE_SESSION] = "DELETE FROM sessions WHERE id=?1",
    [PUT_JSESSION] = "INSERT OR REPLACE INTO jupyter_sessions VALUES(?1,?2,?3,?4,?5)",
    [DELETE_JSESSION] = "DELETE FROM jupyter_sessions WHERE id=?1",
    [PUT_CHECKPOINT] = "INSERT INTO checkpoints VALUES(?1,?2,?3,?4,?5,?6)",
    [DELETE_CHECKPOINT] = "DELETE FROM checkpoints WHERE id=?1",
    [PUT_TOKEN] = "INSERT INTO tokens VALUES(?1,?2,?3,?4,?5)",
    [DELETE_TOKEN] = "DELETE FROM tokens WHERE id=?1",
    [DELETE_CHECKPOINTS] = "DELETE FROM checkpoints WHERE session=?1",
};

struct param {
    char *text; // owned; NULL with number = false is SQL NULL
    bool number;
    int64_t value;
};

struct op {
    struct op *next;
    enum statement statement;
    int nparams;
    struct param param[PARAMS_MAX];
    store_done done;
    void *user;
};

struct store {
    uv_loop_t *loop;
    sqlite3 *db;
    sqlite3_stmt *stmt[STATEMENTS];
    uv_work_t work;
    bool busy;
    struct op *queue, **queue_end; // waiting
    struct op *batch;              // on the thread pool
    struct ck_err batch_error;
    void (*closed)(void *user);
    void *closed_user;
};

// --- opening -----------------------------------------------------------------------------------------

static int sql_fail(struct ck_err *err, sqlite3 *db, const char *path)
{
    int code = sqlite3_errcode(db);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return ck_fail(err, 500, "db_damaged", "the database %s is damaged (%s); move it away to start afresh", path,
                       sqlite3_errmsg(db));
    if (code == SQLITE_READONLY || code == SQLITE_CANTOPEN || code == SQLITE_PERM)
        return ck_fail(err, 500, "db_not_writable", "the database %s cannot be written (%s)", path, sqlite3_errmsg(db));
    return ck_fail(err, 500, "db_failed", "database %s: %s", path, sqlite3_errmsg(db));
}

static int read_pragma(sqlite3 *db, const char *pragma, int *out)
{
    sqlite3_stmt *st = NULL;
    int rc = -1;
    if (!sqlite3_prepare_v2(db, pragma, -1, &st, NULL) && sqlite3_step(st) == SQLITE_ROW) {
        *out = sqlite3_column_int(st, 0);
        rc = 0;
    }
    sqlite3_finalize(st);
    return rc;
}

static int migrate(sqlite3 *db, const char *path, struct ck_err *err)
{
    int version = 0, application = 0;
    char pragma[96];
    if (read_pragma(db, "PRAGMA user_version", &version) || read_pragma(db, "PRAGMA application_id", &application))
        return sql_fail(err, db, path);
    if (version > SCHEMA_VERSION)
        return ck_fail(err, 500, "db_newer", "the database %s was made by a newer cellkeep (schema %d, this one "
                                 "knows %d); "
                                             "use that version or another --state-dir", path, version, SCHEMA_VERSION);
    if (version > 0 && application != APPLICATION_ID)
        return ck_fail(err, 500, "db_foreign", "%s is not a database of cellkeep; use another --state-dir", path);
    for (; version < SCHEMA_VERSION; version++) {
        snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d; PRAGMA "
                                        "application_id=%d;", version + 1, APPLICATION_ID);
        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) || sqlite3_exec(db, MIGRATIONS[version], NULL, NULL, NULL) ||
            sqlite3_exec(db, pragma, NULL, NULL, NULL) || sqlite3_exec(db, "COMMIT", NULL, NULL, NULL)) {
            sql_fail(err, db, path);
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
            return -1;
        }
    }
    return 0;
}

static int prepare(struct store *s, const char *path, struct ck_err *err)
{
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(s->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[i], NULL))
            return sql_fail(err, s->db, path);
    return 0;
}

// A database that a killed gateway left is checked before it is trusted: it is small.
static int check(sqlite3 *db, const char *path, struct ck_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    bool ok = rc == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
    if (rc == SQLITE_ROW && !ok)
        return ck_fail(err, 500, "db_damaged", "the database %s is damaged; move it away to start afresh", path);
    return ok ? 0 : sql_fail(err, db, path);
}

static void free_store(struct store *s)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    free(s);
}

// SQLite would make the file readable by everybody; its -wal and -shm take over the mode of this one.
static void make_private(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
}

int store_open(uv_loop_t *loop, const char *state_dir, struct store **out, struct ck_err *err)
{
    char path[PATH_MAX];
    struct store *s = calloc(1, sizeof *s);
    if (!s || ck_path(path, sizeof path, err, "%s/cellkeep.db", state_dir)) {
        free(s);
        return s ? -1 : ck_fail(err, 500, "no_memory", "out of memory");
    }
    s->loop = loop;
    s->queue_end = &s->queue;
    make_private(path);
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL) ||
        sqlite3_busy_timeout(s->db, 2000) ||
        sqlite3_exec(s->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL, NULL, NULL)) {
        sql_fail(err, s->db, path);
        free_store(s);
        return -1;
    }
    if (check(s->db, path, err) || migrate(s->db, path, err) || prepare(s, path, err)) {
        free_store(s);
        return -1;
    }
    *out = s;
    return 0;
}

// --- loading -----------------------------------------------------------------------------------------

static const char *text(sqlite3_stmt *st, int column)
{
    return (const char *)sqlite3_column_text(st, column);
}

int store_load_sessions(struct store *s, void (*row)(void *user, const struct store_session *r), void *user, struct ck_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT id,name,template,accelerator,memory_mb,created_us,last_activity_us,metadata,"
                                       "timeouts,dead,reason,paused_us,usage,owner,limits FROM sessions ORDER BY "
                                       "created_us,id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_session r = {.id = text(st, 0), .name = text(st, 1), .template_name = text(st, 2),
                                  .accelerator = text(st, 3), .memory_mb = sqlite3_column_int(st, 4),
                                  .created_us = sqlite3_column_int64(st, 5), .last_activity_us = sqlite3_column_int64(st, 6),
                                  .metadata = text(st, 7), .timeouts = text(st, 8), .dead = sqlite3_column_int(st, 9) != 0,
                                  .reason = text(st, 10), .paused_us = sqlite3_column_int64(st, 11), .usage = text(st, 12),
                                  .owner = text(st, 13), .limits = text(st, 14)};
        row(user, &r);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : sql_fail(err, s->db, "cellkeep.db");
}

int store_load_jsessions(struct store *s, void (*row)(void *user, const struct store_jsession *r), void *user, struct ck_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT id,path,name,type,kernel_id FROM jupyter_sessions ORDER BY "
                                       "id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_jsession r = {text(st, 0), text(st, 1), text(st, 2), text(st, 3), text(st, 4)};
        row(user, &r);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : sql_fail(err, s->db, "cellkeep.db");
}

int store_load_checkpoints(struct store *s, void (*row)(void *user, const struct store_checkpoint *r), void *user,
                           struct ck_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT id,session,name,created_us,bytes,layer FROM checkpoints "
                                       "ORDER BY created_us,id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_checkpoint r = {text(st, 0), text(st, 1), text(st, 2), sqlite3_column_int64(st, 3),
                                     sqlite3_column_int64(st, 4), text(st, 5)};
        row(user, &r);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : sql_fail(err, s->db, "cellkeep.db");
}

int store_load_tokens(struct store *s, void (*row)(void *user, const struct store_token *r), void *user, struct ck_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT id,name,hash,created_us,max_sessions FROM tokens ORDER BY "
                                       "created_us,id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_token r = {text(st, 0), text(st, 1), text(st, 2), sqlite3_column_int64(st, 3), sqlite3_column_int(st, 4)};
        row(user, &r);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : sql_fail(err, s->db, "cellkeep.db");
}

// --- writing -----------------------------------------------------------------------------------------

static void free_op(struct op *o)
{
    for (int i = 0; i < o->nparams; i++)
        free(o->param[i].text);
    free(o);
}

static int run_op(struct store *s, const struct op *o)
{
    sqlite3_stmt *st = s->stmt[o->statement];
    for (int i = 0; i < o->nparams; i++) {
        const struct param *p = &o->param[i];
        if (p->number)
            sqlite3_bind_int64(st, i + 1, p->value);
        else
            sqlite3_bind_text(st, i + 1, p->text, -1, SQLITE_STATIC);
    }
    int rc = sqlite3_step(st);
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc == SQLITE_DONE ? 0 : -1;
}

static void do_batch(uv_work_t *w) // thread pool
{
    struct store *s = w->data;
    s->batch_error = (struct ck_err)CK_ERR_INIT;
    int rc = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    for (struct op *o = s->batch; o && !rc; o = o->next)
        rc = run_op(s, o);
    if (!rc)
        rc = sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL);
    if (!rc)
        return;
    ck_fail(&s->batch_error, 507, "db_failed", "the state database cannot be written: %s", sqlite3_errmsg(s->db));
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static void start_batch(struct store *s);

static void finish_close(struct store *s)
{
    void (*closed)(void *) = s->closed;
    void *user = s->closed_user;
    free_store(s);
    closed(user);
}

static void on_batch_done(uv_work_t *w, int status)
{
    struct store *s = w->data;
    struct op *batch = s->batch;
    const struct ck_err *err = s->batch_error.status ? &s->batch_error : NULL;
    (void)status;
    if (err)
        ck_log(CK_LOG_ERROR, "store", "write_failed error=\"%s\"", err->text);
    struct ck_err copy = s->batch_error;
    s->batch = NULL;
    s->busy = false;
    while (batch) {
        struct op *o = batch;
        batch = o->next;
        if (o->done)
            o->done(o->user, copy.status ? &copy : NULL);
        free_op(o);
    }
    start_batch(s);
    if (!s->busy && s->closed)
        finish_close(s);
}

static void start_batch(struct store *s)
{
    if (s->busy || !s->queue)
        return;
    s->batch = s->queue;
    s->queue = NULL;
    s->queue_end = &s->queue;
    s->busy = true;
    s->work.data = s;
    uv_queue_work(s->loop, &s->work, do_batch, on_batch_done);
}

static struct op *new_op(enum statement statement, store_done done, void *user)
{
    struct op *o = calloc(1, sizeof *o);
    if (!o)
        abort(); // losing a write silently would be worse
    o->statement = statement;
    o->done = done;
    o->user = user;
    return o;
}

static void add_text(struct op *o, const char *value)
{
    struct param *p = &o->param[o->nparams++];
    if (value && !(p->text = strdup(value)))
        abort();
}

static void add_number(struct op *o, int64_t value)
{
    o->param[o->nparams].number = true;
    o->param[o->nparams++].value = value;
}

static void add_json(struct op *o, const json_t *j)
{
    o->param[o->nparams].text = json_dumps(j, JSON_COMPACT);
    if (!o->param[o->nparams++].text)
        abort();
}

static void queue(struct store *s, struct op *o)
{
    *s->queue_end = o;
    s->queue_end = &o->next;
    start_batch(s);
}

void store_put_session(struct store *s, const struct session *x, store_done done, void *user)
{
    struct op *o = new_op(PUT_SESSION, done, user);
    add_text(o, x->id);
    add_text(o, x->name);
    add_text(o, x->template_name);
    add_text(o, x->accelerator);
    add_number(o, x->memory_mb);
    add_number(o, x->created_us);
    add_number(o, x->last_activity_us);
    add_json(o, x->metadata);
    add_json(o, x->timeouts);
    add_number(o, x->state == SESSION_DEAD);
    add_text(o, x->reason);
    add_number(o, x->paused_us);
    if (x->usage)
        add_json(o, x->usage);
    else
        add_text(o, NULL);
    add_text(o, x->owner);
    json_t *limits = caps_json(&x->caps);
    add_json(o, limits);
    json_decref(limits);
    queue(s, o);
}

static void put_id(struct store *s, enum statement statement, const char *id)
{
    struct op *o = new_op(statement, NULL, NULL);
    add_text(o, id);
    queue(s, o);
}

void store_delete_session(struct store *s, const char *id)
{
    put_id(s, DELETE_SESSION, id);
    put_id(s, DELETE_CHECKPOINTS, id);
}

void store_put_checkpoint(struct store *s, const char *session, const struct checkpoint *c, store_done done, void *user)
{
    struct op *o = new_op(PUT_CHECKPOINT, done, user);
    add_text(o, c->id);
    add_text(o, session);
    add_text(o, c->name);
    add_number(o, c->created_us);
    add_number(o, c->bytes);
    add_text(o, c->layer);
    queue(s, o);
}

void store_delete_checkpoint(struct store *s, const char *id)
{
    put_id(s, DELETE_CHECKPOINT, id);
}

void store_put_jsession(struct store *s, const struct jsession *j)
{
    struct op *o = new_op(PUT_JSESSION, NULL, NULL);
    add_text(o, j->id);
    add_text(o, j->path);
    add_text(o, j->name);
    add_text(o, j->type);
    add_text(o, j->kernel_id);
    queue(s, o);
}

void store_delete_jsession(struct store *s, const char *id)
{
    put_id(s, DELETE_JSESSION, id);
}

void store_put_token(struct store *s, const struct store_token *t, store_done done, void *user)
{
    struct op *o = new_op(PUT_TOKEN, done, user);
    add_text(o, t->id);
    add_text(o, t->name);
    add_text(o, t->hash);
    add_number(o, t->created_us);
    add_number(o, t->max_sessions);
    queue(s, o);
}

void store_delete_token(struct store *s, const char *id, store_done done, void *user)
{
    struct op *o = new_op(DELETE_TOKEN, done, user);
    add_text(o, id);
    queue(s, o);
}

void store_close(struct store *s, void (*closed)(void *user), void *user)
{
    if (!s) {
        closed(user);
        return;
    }
    s->closed = closed;
    s->closed_user = user;
    if (!s->busy)
        finish_close(s);
}
