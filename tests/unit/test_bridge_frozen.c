// session.json of a layer: what is written comes back, and nothing else is taken.
#include "common/ck_json.h"
#include "kernel-bridge/frozen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct frozen sample(void)
{
    struct frozen f = {.kernel_key = "kkkk", .kernel_identity = "0123456789abcdef", .agent_n = 77,
                       .kernel_session = "ks", .own_session = "11111111-1111-4111-8111-111111111111", .seen = "m_1",
                       .machine_id = "0123456789abcdef0123456789abcdef", .kernel_pid = 12, .execution_count = 3,
                       .busy = true, .cwd = "/home/user/x"};
    memset(f.agent_key, 7, sizeof f.agent_key);
    f.env = strdup("{\"A\":\"\\u00e4\"}");
    return f;
}

static void it_comes_back_whole(void **state)
{
    (void)state;
    struct frozen f = sample(), g;
    struct ck_err err = CK_ERR_INIT;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    assert_int_equal(frozen_print(&f, &text), 0);
    assert_int_equal(frozen_parse(text.p, text.n, &g, &err), 0);
    assert_string_equal(f.kernel_key, g.kernel_key);
    assert_string_equal(f.kernel_identity, g.kernel_identity);
    assert_memory_equal(f.agent_key, g.agent_key, sizeof f.agent_key);
    assert_string_equal(f.kernel_session, g.kernel_session);
    assert_string_equal(f.own_session, g.own_session);
    assert_string_equal(f.seen, g.seen);
    assert_string_equal(f.machine_id, g.machine_id);
    assert_string_equal(f.cwd, g.cwd);
    assert_true(f.agent_n == g.agent_n && f.kernel_pid == g.kernel_pid && f.execution_count == g.execution_count);
    assert_true(g.busy && !g.asks);
    json_t *env = json_loads(g.env, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(env, "A")), "\xc3\xa4");
    json_decref(env);
    frozen_free(&f);
    frozen_free(&g);
}

static void a_session_without_environment_has_none(void **state)
{
    (void)state;
    struct frozen f = sample(), g;
    struct ck_err err = CK_ERR_INIT;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    free(f.env);
    f.env = NULL;
    f.cwd[0] = 0;
    assert_int_equal(frozen_print(&f, &text), 0);
    assert_int_equal(frozen_parse(text.p, text.n, &g, &err), 0);
    assert_null(g.env);
    assert_string_equal(g.cwd, "");
    frozen_free(&g);
}

// Each field in turn is left out, is of another type, or holds what it must not.
static void whatever_is_wrong_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value; // NULL = left out
    } bad[] = {
        {"version", "2"}, {"version", NULL}, {"kernel_key", NULL}, {"kernel_key", "7"}, {"kernel_identity", "\"\""},
        {"kernel_identity", "\"0123456789abcdef0123456789abcdef0\""}, {"agent_key", "\"00\""}, {"agent_key", NULL},
        {"agent_n", "-1"}, {"agent_n", NULL}, {"agent_n", "9223372036854775807"}, {"kernel_pid", "0"},
        {"machine_id", "\"x\""}, {"own_session", "\"x\""}, {"execution_count", "-1"}, {"env", "[]"},
        {"env", "{\"A=B\":\"c\"}"}, {"env", "{\"A\":1}"}, {"busy", "1"}, {"cwd", "{}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct frozen f = sample(), g;
        struct ck_err err = CK_ERR_INIT;
        CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT, wrong = CK_BUF_INIT;
        assert_int_equal(frozen_print(&f, &text), 0);
        json_t *o = ck_json_parse_object(text.p, text.n, false, &err);
        json_object_del(o, bad[i].field);
        if (bad[i].value)
            json_object_set_new(o, bad[i].field, json_loads(bad[i].value, JSON_DECODE_ANY, NULL));
        assert_int_equal(ck_json_dump(o, &wrong), 0);
        if (!frozen_parse(wrong.p, wrong.n, &g, &err))
            fail_msg("taken: %s = %s", bad[i].field, bad[i].value ? bad[i].value : "(nothing)");
        assert_string_equal(err.reason, "bad_layer");
        assert_int_equal(err.status, 422);
        json_decref(o);
        frozen_free(&f);
        frozen_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_whole),
        cmocka_unit_test(a_session_without_environment_has_none),
        cmocka_unit_test(whatever_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
