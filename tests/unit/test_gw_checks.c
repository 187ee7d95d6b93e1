// Bounds of what clients say about sessions; the output queue; the range of uids.
#include "gateway/host_memory.h"
#include "gateway/http_out.h"
#include "gateway/launcher_uid.h"
#include "gateway/registry_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ck_err err;

static int spec_of(const char *json)
{
    json_t *j = json_loads(json, 0, NULL);
    struct session_spec spec = {.name = json_string_value(json_object_get(j, "name")),
                                .template_name = json_string_value(json_object_get(j, "template")),
                                .cwd = json_string_value(json_object_get(j, "cwd")),
                                .memory_mb = (int)json_integer_value(json_object_get(j, "memory_mb")),
                                .env = json_object_get(j, "env"), .timeouts = json_object_get(j, "timeouts"),
                                .metadata = json_object_get(j, "metadata")};
    int rc = check_spec(&spec, &err);
    json_decref(j);
    return rc;
}

static void good_specs_pass(void **state)
{
    (void)state;
    assert_int_equal(spec_of("{}"), 0);
    assert_int_equal(spec_of("{\"name\":\"my säsh\",\"template\":\"default\",\"memory_mb\":512,\"cwd\":\"/home/user\",\"env\":{\"A\":\"b\"},"
                             "\"timeouts\":{\"cell_s\":0,\"idle_s\":600,\"delete_s\":86400},\"metadata\":{\"a\":[1]}}"), 0);
}

static void bad_specs_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"{\"name\":\"\"}", "{\"name\":\"a\\nb\"}", "{\"template\":\"\"}", "{\"template\":\"a\\nb\"}", "{\"cwd\":\"x\"}",
                               "{\"env\":[]}", "{\"env\":{\"\":\"x\"}}", "{\"env\":{\"A=B\":\"x\"}}", "{\"env\":{\"A\":1}}",
                               "{\"timeouts\":{\"cell\":1}}", "{\"timeouts\":{\"cell_s\":-1}}", "{\"timeouts\":{\"cell_s\":1.5}}",
                               "{\"timeouts\":{\"cell_s\":604801}}", "{\"timeouts\":1}", "{\"metadata\":[]}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(spec_of(bad[i]), -1);
        assert_int_equal(err.status, 400);
    }
    assert_int_equal(check_name("a\nb", &err), -1);
}

static void big_specs_are_refused(void **state)
{
    (void)state;
    static char big[70001];
    memset(big, 'x', 70000);
    json_t *env = json_pack("{s:s}", "A", big), *many = json_object();
    char name[16];
    for (int i = 0; i < 257; i++) {
        snprintf(name, sizeof name, "V%d", i);
        json_object_set_new(many, name, json_string(""));
    }
    assert_int_equal(check_env(env, &err), -1);
    assert_int_equal(check_env(many, &err), -1);
    assert_int_equal(check_metadata(env, &err), -1);
    big[129] = 0;
    assert_int_equal(check_name(big, &err), -1);
    big[128] = 0;
    assert_int_equal(check_name(big, &err), 0);
    json_decref(env);
    json_decref(many);
}

static void the_queue_gives_its_bytes_in_order(void **state)
{
    (void)state;
    struct out_queue q = {0};
    struct ck_blob *b = ck_blob_new(50000);
    struct ck_buf owned = CK_BUF_INIT;
    static uint8_t scratch[16384], all[200000];
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        b->p[i] = (uint8_t)(i * 7);
    out_copy(&q, "head", 4);
    out_copy(&q, "er", 2);
    out_blob(&q, b, 100, 40000);
    out_blob(&q, b, 0, 10);
    ck_buf_add(&owned, "owned", 5);
    out_buf(&q, &owned);
    assert_int_equal(owned.n, 0);
    out_copy(&q, "tail", 4);
    assert_int_equal(q.bytes, 6 + 40000 + 10 + 5 + 4);
    while (q.bytes) {
        struct ck_slice s = out_peek(&q, scratch, sizeof scratch);
        size_t take = s.n > 1000 ? 1000 : s.n; // as a socket that takes less than was offered
        memcpy(all + n, s.p, take);
        n += take;
        out_consume(&q, take);
    }
    assert_int_equal(n, 40025);
    assert_memory_equal(all, "header", 6);
    assert_memory_equal(all + 6, b->p + 100, 40000);
    assert_memory_equal(all + 40006, b->p, 10);
    assert_memory_equal(all + 40016, "ownedtail", 9);
    out_blob(&q, b, 0, 5);
    out_clear(&q);
    assert_int_equal(q.bytes, 0);
    ck_blob_unref(b);
}

static void a_freed_uid_comes_last(void **state)
{
    (void)state;
    struct uid_pool *p = uid_pool_new(1900000000);
    int a = uid_pool_take(p), b = uid_pool_take(p);
    assert_int_not_equal(a, b);
    assert_int_equal(uid_pool_uid(p, a), 1900000000 + (unsigned)a);
    assert_int_equal(uid_pool_slot(p, uid_pool_uid(p, b)), b);
    assert_int_equal(uid_pool_slot(p, 0), -1);
    uid_pool_release(p, a);
    assert_int_not_equal(uid_pool_take(p), a);
    assert_true(uid_pool_mark(p, a));
    assert_false(uid_pool_mark(p, a));
    for (int i = 0; uid_pool_take(p) >= 0; i++)
        assert_true(i < 10000);
    uid_pool_release(p, b);
    assert_int_equal(uid_pool_take(p), b);
    uid_pool_free(p);
}

static void used_uids_are_seen(void **state)
{
    (void)state;
    assert_false(uid_is_idle(0));
    assert_true(uid_is_idle(1987654321));
}

static void the_hosts_memory_is_read(void **state)
{
    (void)state;
    assert_int_equal(host_memory_parse("MemTotal:       24683844 kB\nMemFree:  1 kB\nMemAvailable:   20464872 kB\n"), 19985);
    static const char *const no[] = {"", "MemTotal: 5 kB\n", "xMemAvailable: 5 kB\n", "MemAvailable: 5 MB\n", "MemAvailable: kB", "MemAvailable: -5 kB"};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_int_equal(host_memory_parse(no[i]), -1);
    assert_true(host_memory_available_mb() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_specs_pass),
        cmocka_unit_test(bad_specs_are_refused),
        cmocka_unit_test(big_specs_are_refused),
        cmocka_unit_test(the_queue_gives_its_bytes_in_order),
        cmocka_unit_test(a_freed_uid_comes_last),
        cmocka_unit_test(used_uids_are_seen),
        cmocka_unit_test(the_hosts_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
