// Settings: precedence, every kind of value, and what is refused with which words.
#include "gateway/config.h"

#include <stdio.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config c;
static struct ck_err err;
static char file[] = "/tmp/ck-test-config-XXXXXX";

static int load(char *const *env, int argc, ...)
{
    char *argv[16] = {(char *)(uintptr_t) "serve"};
    va_list ap;
    va_start(ap, argc);
    for (int i = 1; i <= argc; i++)
        argv[i] = va_arg(ap, char *);
    va_end(ap);
    memset(&err, 0, sizeof err);
    return config_load(argc + 1, argv, env, &c, &err);
}

static void write_file(const char *text)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void defaults_are_those_of_the_usage(void **state)
{
    (void)state;
    char *env[] = {NULL};
    assert_int_equal(load(env, 0), 0);
    assert_string_equal(c.host, "127.0.0.1");
    assert_int_equal(c.port, 8888);
    assert_null(c.token);
    assert_int_equal(c.memory_mb, 512);
    assert_int_equal(c.pool_size, 2);
    assert_int_equal(c.max_sessions, 50);
    assert_string_equal(c.base_url, "");
    assert_int_equal(c.on_exit, CONFIG_EXIT_KEEP);
    assert_int_equal(c.accel, CONFIG_ACCEL_AUTO);
    assert_int_equal(c.command_timeout_ms, 30000);
    assert_int_equal(c.idle_s, 600);
    assert_int_equal(c.delete_s, 86400);
    assert_true(c.state_dir[0] == '/' && c.cache_dir[0] == '/');
    config_free(&c);
}

static void an_option_wins_over_the_environment_and_that_over_the_file(void **state)
{
    (void)state;
    char *env[] = {(char[]){"CELLKEEP_PORT=2"}, (char[]){"CELLKEEP_POOL_SIZE=2"}, NULL};
    write_file("{\"port\": 1, \"pool_size\": 1, \"max-sessions\": 1, \"accel\": \"kvm\", \"require_jail\": \"net_ns,seccomp\"}");
    assert_int_equal(load(env, 3, "--config", file, "--port=3"), 0);
    assert_int_equal(c.port, 3);
    assert_int_equal(c.pool_size, 2);
    assert_int_equal(c.max_sessions, 1);
    assert_int_equal(c.accel, CONFIG_ACCEL_KVM);
    assert_string_equal(c.require_jail, "net_ns,seccomp");
    config_free(&c);
    assert_int_equal(load(env, 4, "--on-exit", "pause", "--idle-s=0", "--delete-s=7"), 0);
    assert_int_equal(c.on_exit, CONFIG_EXIT_PAUSE);
    assert_int_equal(c.idle_s, 0);
    assert_int_equal(c.delete_s, 7);
    config_free(&c);
}

static void the_file_may_be_named_by_the_environment(void **state)
{
    (void)state;
    char name[64], *env[] = {name, NULL};
    snprintf(name, sizeof name, "CELLKEEP_CONFIG=%s", file);
    write_file("{\"base_url\": \"p/q/\"}");
    assert_int_equal(load(env, 0), 0);
    assert_string_equal(c.base_url, "/p/q");
    config_free(&c);
}

static void refused(const char *option, const char *value, const char *words)
{
    char *env[] = {NULL};
    assert_int_equal(load(env, 2, option, value), -1);
    if (!strstr(err.text, words))
        fail_msg("%s %s: \"%s\" lacks \"%s\"", option, value, err.text, words);
    assert_null(c.host); // nothing is left to free
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    refused("--port", "x", "--port \"x\": it must be a whole number from 0 to 65535");
    refused("--port", "65536", "from 0 to 65535");
    refused("--port", "-1", "from 0 to 65535");
    refused("--port", "1 ", "whole number");
    refused("--port", "", "whole number");
    refused("--port", "99999999999999999999", "whole number");
    refused("--accel", "fast", "must be auto, kvm or tcg");
    refused("--on-exit", "stay", "must be keep, pause or kill");
    refused("--require-jail", "net_ns,all", "must be all, or a list with commas of descriptors");
    refused("--require-jail", "net_ns,", "uid capabilities no_new_privs seccomp");
    refused("--require-jail", ",", "must be all");
    refused("--artifact-ignore", "a,b/c", "names of folders");
    refused("--artifact-ignore", "a,,b", "names of folders");
    refused("--idle-s", "-1", "must be a whole number");
    refused("--delete-s", "soon", "must be a whole number");
    refused("--memory-mb", "383", "from 384");
    refused("--base-url", "/a b", "letters");
    refused("--base-url", "/a<b", "letters");
    refused("--log-level", "loud", "debug, info, warn or error");
    refused("--tls-cert", "/c", "tls-key is missing");
    refused("--token", "a b", "white space");
    refused("--host", "", "must not be empty");
    refused("--colour", "red", "there is no option --colour");
    refused("--portx", "1", "there is no option --portx");
    refused("port", "1", "is not an option");
}

static void sources_are_named_as_they_are_written(void **state)
{
    (void)state;
    char *env[] = {(char[]){"CELLKEEP_POOL_SIZE=many"}, NULL}, *none[] = {NULL};
    assert_int_equal(load(env, 0), -1);
    assert_non_null(strstr(err.text, "CELLKEEP_POOL_SIZE \"many\": it must be"));
    write_file("{\"pool-size\": \"many\"}");
    assert_int_equal(load(none, 2, "--config", file), -1);
    assert_non_null(strstr(err.text, "pool_size \"many\""));
    assert_non_null(strstr(err.text, file));
}

static void a_refused_token_is_not_repeated(void **state)
{
    (void)state;
    char *env[] = {NULL};
    assert_int_equal(load(env, 2, "--token", "se cret"), -1);
    assert_null(strstr(err.text, "cret"));
}

static void a_missing_value_and_help_are_told_apart(void **state)
{
    (void)state;
    char *env[] = {NULL};
    assert_int_equal(load(env, 1, "--port"), -1);
    assert_non_null(strstr(err.text, "needs a value"));
    assert_int_equal(load(env, 1, "--help"), 1);
    assert_int_equal(load(env, 3, "--port", "1", "-h"), 1);
}

static void bad_files_are_named(void **state)
{
    (void)state;
    char *env[] = {NULL};
    write_file("{\"prot\": 1}");
    assert_int_equal(load(env, 2, "--config", file), -1);
    assert_non_null(strstr(err.text, "no setting \"prot\""));
    write_file("{\"port\": [1]}");
    assert_int_equal(load(env, 2, "--config", file), -1);
    assert_non_null(strstr(err.text, "must be text, a whole number, true or false"));
    write_file("{\"port\": 1");
    assert_int_equal(load(env, 2, "--config", file), -1);
    assert_non_null(strstr(err.text, file));
    assert_int_equal(load(env, 2, "--config", "/nonexistent/x"), -1);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
}

static void a_limit_is_a_default_and_perhaps_a_maximum(void **state)
{
    (void)state;
    char *env[] = {(char[]){"CELLKEEP_LIMIT_DISK_MB=500:1000"}, NULL};
    write_file("{\"limit_pids\": 64, \"limit_output_mb\": \"2:4\"}");
    assert_int_equal(load(env, 4, "--config", file, "--limit-open-files", "1000:2000"), 0);
    assert_int_equal(c.caps[CAP_PIDS].usual, 64);
    assert_int_equal(c.caps[CAP_PIDS].max, 1024);
    assert_int_equal(c.caps[CAP_OUTPUT_MB].max, 4);
    assert_int_equal(c.caps[CAP_DISK_MB].usual, 500);
    assert_int_equal(c.caps[CAP_OPEN_FILES].max, 2000);
    assert_int_equal(c.caps[CAP_MESSAGE_MB].max, 104);
    config_free(&c);
    char *none[] = {NULL};
    assert_int_equal(load(none, 4, "--limit-pids", "2000", "--max-message-mb", "3"), 0);
    assert_int_equal(c.caps[CAP_PIDS].max, 2000); // a default above the maximum raises it
    assert_int_equal(c.caps[CAP_MESSAGE_MB].usual, 3);
    config_free(&c);
    refused("--limit-pids", "8", "must be N or N:MAXIMUM, whole numbers from 32 to 4096");
    refused("--limit-pids", "64:32", "N:MAXIMUM");
    refused("--limit-pids", "64:", "N:MAXIMUM");
    refused("--limit-pids", "64:128x", "N:MAXIMUM");
    refused("--limit-pids", ":64", "N:MAXIMUM");
    refused("--limit-pids", "64:100000", "N:MAXIMUM");
    assert_int_equal(load(none, 4, "--cell-timeout-s", "10", "--max-cell-timeout-s", "5"), -1);
    assert_non_null(strstr(err.text, "more than max-cell-timeout-s"));
}

static void the_usage_names_every_setting(void **state)
{
    (void)state;
    const char *const some[] = {"--host", "--port", "--token", "--state-dir", "--cache-dir", "--accel", "--memory-mb", "--pool-size",
                                "--max-sessions", "--allow-origin", "--tls-cert", "--tls-key", "--base-url", "--on-exit", "--limit-pids N[:MAX]",
                                "--log-level", "--config"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        assert_non_null(strstr(config_usage(), some[i]));
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(file);
    close(fd);
    return fd < 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_usage),
        cmocka_unit_test(an_option_wins_over_the_environment_and_that_over_the_file),
        cmocka_unit_test(the_file_may_be_named_by_the_environment),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(sources_are_named_as_they_are_written),
        cmocka_unit_test(a_refused_token_is_not_repeated),
        cmocka_unit_test(a_missing_value_and_help_are_told_apart),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(a_limit_is_a_default_and_perhaps_a_maximum),
        cmocka_unit_test(the_usage_names_every_setting),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
