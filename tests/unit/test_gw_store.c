// The database over versions: one of an earlier cellkeep is taken over with what is in it; what is
// written is read back; deleting a session takes its checkpoints along.
#include "common/ck_fs.h"
#include "gateway/life.h"
#include "gateway/store.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define S1 "11111111-0000-4000-8000-000000000001"
#define S2 "22222222-0000-4000-8000-000000000002"
#define L "aaaaaaaa-0000-4000-8000-00000000000a"

static char dir[64];
static uv_loop_t loop;
static struct store *store;
static struct ck_err err;

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ck-store-XXXXXX");
    err = (struct ck_err)CK_ERR_INIT;
    return !mkdtemp(dir) || uv_loop_init(&loop);
}

static void closed(void *user) { *(bool *)user = true; }

static void close_store(void)
{
    bool done = false;
    store_close(store, closed, &done);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(done);
}

static int tear_down(void **state)
{
    (void)state;
    return uv_loop_close(&loop) || ck_remove_tree(dir, NULL);
}

struct seen {
    int sessions, checkpoints;
    int64_t paused_us;
    char usage[64], name[64];
};

static void see_session(void *user, const struct store_session *r)
{
    struct seen *s = user;
    s->sessions++;
    s->paused_us = r->paused_us;
    snprintf(s->usage, sizeof s->usage, "%s", r->usage ? r->usage : "");
}

static void see_checkpoint(void *user, const struct store_checkpoint *r)
{
    struct seen *s = user;
    s->checkpoints++;
    snprintf(s->name, sizeof s->name, "%s", r->name);
    assert_string_equal(r->layer, L);
}

static struct seen look(void)
{
    struct seen s = {0};
    assert_int_equal(store_load_sessions(store, see_session, &s, &err), 0);
    assert_int_equal(store_load_checkpoints(store, see_checkpoint, &s, &err), 0);
    return s;
}

static void test_a_database_of_the_first_version(void **state)
{
    (void)state;
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/cellkeep.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
        "CREATE TABLE sessions(id TEXT PRIMARY KEY, name TEXT NOT NULL, template TEXT NOT NULL, accelerator TEXT NOT NULL,"
        " memory_mb INTEGER NOT NULL, created_us INTEGER NOT NULL, last_activity_us INTEGER NOT NULL,"
        " metadata TEXT NOT NULL, timeouts TEXT NOT NULL, dead INTEGER NOT NULL, reason TEXT) WITHOUT ROWID;"
        "CREATE TABLE jupyter_sessions(id TEXT PRIMARY KEY, path TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL,"
        " kernel_id TEXT NOT NULL) WITHOUT ROWID;"
        "INSERT INTO sessions VALUES('" S1 "','old','default','tcg',512,1,2,'{}','{}',0,NULL);"
        "PRAGMA user_version=1; PRAGMA application_id=1131111792;", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(store_open(&loop, dir, &store, &err), 0);
    struct seen s = look();
    assert_int_equal(s.sessions, 1);
    assert_int_equal(s.paused_us, 0);
    assert_string_equal(s.usage, "");
    close_store();
    assert_int_equal(store_open(&loop, dir, &store, &err), 0); // and it stays so
    assert_int_equal(look().sessions, 1);
    close_store();
}

static void stored(void *user, const struct ck_err *e) { *(int *)user = e ? e->status : 1; }

static void test_paused_sessions_and_checkpoints(void **state)
{
    (void)state;
    char name[] = "n", template[] = "default", before[] = "before";
    struct session s = {.id = S2, .name = name, .state = SESSION_PAUSED, .template_name = template, .accelerator = "tcg",
                        .memory_mb = 512, .metadata = json_object(), .timeouts = json_object(), .paused_us = 77,
                        .usage = json_pack("{s:i}", "cpu_ms", 5)};
    struct checkpoint c = {.id = S1, .name = before, .created_us = 3, .bytes = 4, .layer = L};
    int first = 0, second = 0;
    assert_int_equal(store_open(&loop, dir, &store, &err), 0);
    store_put_session(store, &s, NULL, NULL);
    store_put_checkpoint(store, S2, &c, stored, &first);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(first, 1);
    struct seen seen = look();
    assert_int_equal(seen.paused_us, 77);
    assert_string_equal(seen.usage, "{\"cpu_ms\":5}");
    assert_string_equal(seen.name, "before");
    snprintf(c.id, sizeof c.id, "%s", L); // another id, the same name in the same session: the table refuses it too
    store_put_checkpoint(store, S2, &c, stored, &second);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(second, 507);
    store_delete_session(store, S2);
    uv_run(&loop, UV_RUN_DEFAULT);
    seen = look();
    assert_int_equal(seen.sessions + seen.checkpoints, 0);
    close_store();
    json_decref(s.metadata);
    json_decref(s.timeouts);
    json_decref(s.usage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_database_of_the_first_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_paused_sessions_and_checkpoints, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
