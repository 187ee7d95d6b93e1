// Limits of sessions: what a client may ask for, what is said of what it may not, and what bridges are told.
#include "gateway/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct cap_range server[CAPS];
static struct ck_err err;

static int parse(const char *text, struct caps *out)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    err = (struct ck_err)CK_ERR_INIT;
    int rc = caps_parse(o, server, out, &err);
    json_decref(o);
    return rc;
}

static void what_is_not_asked_for_is_usual(void **state)
{
    (void)state;
    struct caps c;
    assert_int_equal(caps_parse(NULL, server, &c, &err), 0);
    for (int i = 0; i < CAPS; i++)
        assert_int_equal(c.v[i], server[i].usual);
    assert_int_equal(parse("{\"pids\":64,\"disk_mb\":null}", &c), 0);
    assert_int_equal(c.v[CAP_PIDS], 64);
    assert_int_equal(c.v[CAP_DISK_MB], CAP_DISK_ALL_MB);
}

static void every_refusal_names_the_limit_and_the_maximum(void **state)
{
    (void)state;
    struct caps c;
    server[CAP_PIDS].max = 300;
    for (int i = 0; i < CAPS; i++) {
        char text[80], bound[32];
        const long long wrong[] = {(long long)server[i].max + 1, (long long)cap_infos[i].min - 1};
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "{\"%s\":%lld}", cap_infos[i].name, wrong[k]);
            snprintf(bound, sizeof bound, "to %d", server[i].max);
            assert_int_equal(parse(text, &c), -1);
            assert_int_equal(err.status, 400);
            assert_non_null(strstr(err.text, cap_infos[i].name));
            assert_non_null(strstr(err.text, bound));
        }
        snprintf(text, sizeof text, "{\"%s\":%d}", cap_infos[i].name, server[i].max);
        assert_int_equal(parse(text, &c), 0);
    }
    static const char *const odd[] = {"{\"pids\":\"64\"}", "{\"pids\":64.0}", "{\"pids\":true}", "{\"pids\":[64]}",
                                      "{\"pids\":-64}", "{\"pids\":9223372036854775807}"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(parse(odd[i], &c), -1);
    assert_int_equal(parse("{\"pidz\":64}", &c), -1);
    assert_string_equal(err.reason, "unknown_field");
    assert_non_null(strstr(err.text, "cpu_weight, disk_mb, pids"));
}

static void what_is_stored_is_read_back_and_nonsense_is_not(void **state)
{
    (void)state;
    struct caps c, back;
    assert_int_equal(parse("{\"pids\":64,\"output_mb\":1}", &c), 0);
    json_t *o = caps_json(&c);
    server[CAP_PIDS].max = 33; // lowered since: what the session has it keeps
    caps_read(o, server, &back);
    assert_memory_equal(&c, &back, sizeof c);
    json_object_set_new(o, "pids", json_integer(1));
    caps_read(o, server, &back);
    assert_int_equal(back.v[CAP_PIDS], server[CAP_PIDS].usual);
    json_decref(o);
    caps_read(NULL, server, &back);
    assert_int_equal(back.v[CAP_OUTPUT_MB], server[CAP_OUTPUT_MB].usual);
}

static int64_t told(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static void a_bridge_is_told_all_of_it(void **state)
{
    (void)state;
    struct config config = {.cell_timeout_ms = 5000, .command_timeout_ms = 6000, .max_cell_timeout_ms = 7000,
                            .max_command_timeout_ms = 8000, .kernel_start_ms = 9000};
    struct caps c;
    assert_int_equal(parse("{\"pids\":64,\"disk_mb\":100,\"cpu_weight\":5,\"artifact_mb\":2}", &c), 0);
    json_t *timeouts = json_pack("{s:i}", "cell_s", 3), *o = caps_for_bridge(&c, &config, timeouts);
    assert_int_equal(told(o, "cell_ms"), 3000);
    assert_int_equal(told(o, "cell_max_ms"), 7000);
    assert_int_equal(told(o, "command_ms"), 6000);
    assert_int_equal(told(o, "command_max_ms"), 8000);
    assert_int_equal(told(o, "kernel_start_ms"), 9000);
    assert_int_equal(told(o, "pids"), 64);
    assert_int_equal(told(o, "disk_bytes"), 100 << 20);
    assert_int_equal(told(o, "cpu_weight"), 5);
    assert_int_equal(told(o, "artifact_bytes"), 2 << 20);
    assert_int_equal(told(o, "artifact_max"), 200);
    json_decref(o);
    c.v[CAP_DISK_MB] = CAP_DISK_ALL_MB;
    o = caps_for_bridge(&c, &config, NULL);
    assert_int_equal(told(o, "disk_bytes"), 0);
    assert_int_equal(told(o, "cell_ms"), 5000);
    json_decref(o);
    err = (struct ck_err)CK_ERR_INIT;
    assert_int_equal(caps_check_timeouts(timeouts, &config, &err), 0);
    json_object_set_new(timeouts, "cell_s", json_integer(8));
    assert_int_equal(caps_check_timeouts(timeouts, &config, &err), -1);
    assert_non_null(strstr(err.text, "at most 7"));
    json_decref(timeouts);
}

static int usual(void **state)
{
    (void)state;
    caps_ranges(server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_not_asked_for_is_usual, usual),
        cmocka_unit_test_setup(every_refusal_names_the_limit_and_the_maximum, usual),
        cmocka_unit_test_setup(what_is_stored_is_read_back_and_nonsense_is_not, usual),
        cmocka_unit_test_setup(a_bridge_is_told_all_of_it, usual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
