// Command lines of `cellkeep run` and `cellkeep session`.
#include "gateway/cli_args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *no_env(const char *name)
{
    (void)name;
    return NULL;
}

static const char *some_env(const char *name)
{
    return !strcmp(name, "CELLKEEP_URL") ? "http://example:1" : !strcmp(name, "CELLKEEP_TOKEN") ? "from-env" : NULL;
}

#define RUN(env, ...) run((const char *const[]){"run", __VA_ARGS__, NULL}, env)
static struct cli_run_args ra;
static struct ck_err err;
static int run(const char *const *argv, cli_env_fn env)
{
    static char *copy[32];
    int n = 0;
    for (; argv[n]; n++)
        copy[n] = (char *)(uintptr_t)argv[n];
    copy[n] = NULL;
    memset(&err, 0, sizeof err);
    return cli_run_args_parse(n, copy, env, &ra, &err);
}

#define SESSION(...) session((const char *const[]){"session", __VA_ARGS__, NULL})
static struct cli_session_args sa;
static int session(const char *const *argv)
{
    static char *copy[32];
    int n = 0;
    for (; argv[n]; n++)
        copy[n] = (char *)(uintptr_t)argv[n];
    copy[n] = NULL;
    memset(&err, 0, sizeof err);
    return cli_session_args_parse(n, copy, no_env, &sa, &err);
}

static void test_run_takes_code_from_a_file_an_option_or_standard_input(void **state)
{
    (void)state;
    assert_int_equal(RUN(no_env, "a.py"), 0);
    assert_string_equal(ra.file, "a.py");
    assert_null(ra.code);
    assert_string_equal(ra.target.url, "http://127.0.0.1:8888");
    assert_null(ra.target.token);
    assert_int_equal(RUN(no_env, "-c", "print(1)"), 0);
    assert_string_equal(ra.code, "print(1)");
    assert_int_equal(RUN(no_env, "-"), 0);
    assert_string_equal(ra.file, "-");
    assert_int_equal(RUN(no_env, "-c", ""), 0);
}

static void test_run_takes_its_options(void **state)
{
    (void)state;
    assert_int_equal(RUN(some_env, "--upload", "a", "-u", "b", "--out", "d", "--session", "s", "--timeout", "1.5", "--json",
                         "x.py"),
                     0);
    assert_int_equal(ra.nuploads, 2);
    assert_string_equal(ra.uploads[1], "b");
    assert_string_equal(ra.out_dir, "d");
    assert_string_equal(ra.session, "s");
    assert_int_equal(ra.timeout_ms, 1500);
    assert_true(ra.json);
    assert_string_equal(ra.target.url, "http://example:1");
    assert_string_equal(ra.target.token, "from-env");
    assert_int_equal(RUN(some_env, "--url=http://b:2", "--token", "t", "x.py"), 0);
    assert_string_equal(ra.target.url, "http://b:2");
    assert_string_equal(ra.target.token, "t");
    assert_int_equal(RUN(no_env, "--help"), 1);
    assert_int_equal(RUN(no_env, "-h", "--nonsense"), 1);
}

static void test_run_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    assert_int_equal(run((const char *const[]){"run", NULL}, no_env), -1);
    assert_non_null(strstr(err.text, "nothing to run"));
    assert_int_equal(RUN(no_env, "a.py", "b.py"), -1);
    assert_int_equal(RUN(no_env, "-c", "x", "a.py"), -1);
    assert_int_equal(RUN(no_env, "--frobnicate", "a.py"), -1);
    assert_non_null(strstr(err.text, "--frobnicate"));
    assert_int_equal(RUN(no_env, "a.py", "--out"), -1);
    assert_non_null(strstr(err.text, "--out"));
    assert_int_equal(RUN(no_env, "--timeout", "0", "a.py"), -1);
    assert_int_equal(RUN(no_env, "--timeout", "soon", "a.py"), -1);
    assert_int_equal(RUN(no_env, "--timeout", "nan", "a.py"), -1);
    assert_int_equal(RUN(no_env, "--session", "", "a.py"), -1);
}

static void test_session_verbs(void **state)
{
    (void)state;
    assert_int_equal(SESSION("create", "--name", "n"), 0);
    assert_int_equal(sa.verb, CLI_SESSION_CREATE);
    assert_string_equal(sa.name, "n");
    assert_int_equal(SESSION("list", "--json"), 0);
    assert_true(sa.json);
    assert_int_equal(SESSION("delete", "a", "b"), 0);
    assert_int_equal(sa.nids, 2);
    assert_string_equal(sa.ids[1], "b");
    assert_int_equal(SESSION("--url", "http://x", "restart", "a"), 0);
    assert_int_equal(sa.verb, CLI_SESSION_RESTART);
    assert_int_equal(SESSION("pause", "a", "b"), 0);
    assert_int_equal(sa.verb, CLI_SESSION_PAUSE);
    assert_int_equal(SESSION("fork", "--count", "20", "a"), 0);
    assert_int_equal(sa.count, 20);
    assert_int_equal(SESSION("checkpoint", "a", "-n", "before"), 0);
    assert_string_equal(sa.name, "before");
    assert_int_equal(SESSION("rollback", "a", "before"), 0);
    assert_int_equal(sa.nids, 1);
    assert_string_equal(sa.checkpoint, "before");
    assert_int_equal(SESSION("rollback", "a"), -1);
    assert_int_equal(SESSION("fork", "--checkpoint", "loaded", "a"), 0);
    assert_string_equal(sa.checkpoint, "loaded");
    assert_int_equal(SESSION("rollback", "--checkpoint", "loaded", "a", "b"), -1);
    assert_int_equal(SESSION("fork", "a", "b"), -1);
    assert_int_equal(SESSION("fork", "--count", "0", "a"), -1);
    assert_int_equal(SESSION("pause", "--count", "2", "a"), -1);
    assert_int_equal(SESSION("resume"), -1);
    assert_int_equal(SESSION("-h"), 1);
    assert_int_equal(session((const char *const[]){"session", NULL}), -1);
    assert_int_equal(SESSION("explode"), -1);
    assert_non_null(strstr(err.text, "explode"));
    assert_int_equal(SESSION("delete"), -1);
    assert_int_equal(SESSION("list", "a"), -1);
    assert_int_equal(SESSION("list", "--name", "a"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_takes_code_from_a_file_an_option_or_standard_input),
        cmocka_unit_test(test_run_takes_its_options),
        cmocka_unit_test(test_run_refuses_what_makes_no_sense),
        cmocka_unit_test(test_session_verbs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
