// What the agent reads besides requests: the kernel command line, the kernel's log, the zygote's
// messages, environments, personalities.
#include "guest/agent/bootargs.h"
#include "guest/agent/kmsg.h"
#include "guest/agent/peak.h"
#include "guest/agent/personalise.h"
#include "guest/agent/spawn.h"
#include "guest/agent/zygote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_mode_is_read_from_the_command_line(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int rc;
        enum ag_mode mode;
    } rows[] = {
        {"", 0, AG_MODE_TEMPLATE},
        {"console=ttyS0 quiet\n", 0, AG_MODE_TEMPLATE},
        {"a cellkeep.mode=probe b", 0, AG_MODE_PROBE},
        {"cellkeep.mode=template", 0, AG_MODE_TEMPLATE},
        {"xcellkeep.mode=probe", 0, AG_MODE_TEMPLATE},
        {"cellkeep.mode=probes", -1, 0},
        {"cellkeep.mode=", -1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ag_bootargs args;
        struct ck_err err = CK_ERR_INIT;
        assert_int_equal(ag_bootargs_parse(rows[i].line, strlen(rows[i].line), &args, &err), rows[i].rc);
        if (rows[i].rc == 0)
            assert_int_equal(args.mode, rows[i].mode);
        else
            assert_string_equal(err.reason, "bad_mode");
    }
}

static void the_oom_victim_is_found_and_nobody_else(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        int pid;
    } rows[] = {
        {"3,512,8123,-;Memory cgroup out of memory: Killed process 123 (python3) total-vm:1kB", 123},
        {"3,512,8123,-;Out of memory: Killed process 9 (a b) total-vm:1kB\n SUBSYSTEM=x", 9},
        {"6,1,1,-;something else", 0},
        {"6,1,1,-;evil (Killed process 77 (x): segfault", 0},
        {"6,1,1,-;x\n Killed process 5 (x)", 0},
        {"Killed process 5 (x)", 0},
        {"3,1,1,-;Killed process ", 0},
        {"3,1,1,-;Killed process 12", 0},
        {"3,1,1,-;Killed process 99999999999999999999 (x)", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(ag_kmsg_victim(rows[i].record, strlen(rows[i].record)), rows[i].pid);
}

static void zygote_messages_are_strict(void **state)
{
    (void)state;
    struct ag_zygote_message m;
    assert_int_equal(ag_zygote_parse(ck_slice_str("{\"event\":\"progress\",\"percent\":200,\"text\":\"abc\"}"), &m), 0);
    assert_int_equal(m.kind, AG_ZYGOTE_PROGRESS);
    assert_int_equal(m.percent, 100);
    assert_string_equal(m.text, "abc");
    assert_int_equal(ag_zygote_parse(ck_slice_str("{\"event\":\"warmed\"}"), &m), 0);
    assert_int_equal(m.kind, AG_ZYGOTE_WARMED);
    static const char *const bad[] = {"", "[]", "{}", "{\"event\":\"other\"}", "{\"event\":1}",
                                      "{\"event\":\"warm\",\"percent\":\"x\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ag_zygote_parse(ck_slice_str(bad[i]), &m), -1);
}

static int count(char **env, const char *entry)
{
    int n = 0;
    for (size_t i = 0; env[i]; i++)
        n += strcmp(env[i], entry) == 0;
    return n;
}

static void an_environment_is_the_base_and_what_was_asked_for(void **state)
{
    (void)state;
    struct ck_err err = CK_ERR_INIT;
    setenv("CELLKEEP_SECRET", "x", 1); // of this process: must not pass
    json_t *extra = json_pack("{s:s, s:s}", "HOME", "/tmp", "FOO_1", "a=b c");
    char **env = ag_env_make(extra, &err);
    assert_non_null(env);
    assert_int_equal(count(env, "HOME=/tmp"), 1);
    assert_int_equal(count(env, "HOME=/home/user"), 0);
    assert_int_equal(count(env, "FOO_1=a=b c"), 1);
    assert_int_equal(count(env, "USER=user"), 1);
    assert_int_equal(count(env, "CELLKEEP_SECRET=x"), 0);
    ag_env_free(env);
    json_decref(extra);
}

static void bad_environments_are_refused(void **state)
{
    (void)state;
    json_t *bad[] = {json_pack("{s:s}", "A B", "x"), json_pack("{s:s}", "", "x"), json_pack("{s:s}", "1A", "x"),
                     json_pack("{s:s}", "A=B", "x"), json_pack("{s:i}", "A", 1), json_pack("{s:s%}", "A", "x\0y", (size_t)3)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ck_err err = CK_ERR_INIT;
        assert_non_null(bad[i]);
        assert_null(ag_env_make(bad[i], &err));
        assert_string_equal(err.reason, "bad_env");
        json_decref(bad[i]);
    }
    json_t *many = json_object();
    for (int i = 0; i < AG_ENV_MAX + 1; i++) {
        char name[16];
        snprintf(name, sizeof name, "N%d", i);
        json_object_set_new(many, name, json_string("v"));
    }
    struct ck_err err = CK_ERR_INIT;
    assert_null(ag_env_make(many, &err));
    json_decref(many);
}

#define KEY64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ID32 "0123456789abcdef0123456789abcdef"

static void a_personality_is_taken_apart(void **state)
{
    (void)state;
    struct ck_err err = CK_ERR_INIT;
    struct ag_personality p;
    json_t *h = json_pack("{s:s, s:I, s:s, s:s}", "key", KEY64, "time_us", (json_int_t)5, "hostname", "a-b1",
                          "machine_id", ID32);
    assert_int_equal(ag_personality_parse(h, &p, &err), 0);
    assert_int_equal(p.key[1], 0x11);
    assert_int_equal(p.time_us, 5);
    assert_string_equal(p.hostname, "a-b1");
    json_decref(h);
}

static void bad_personalities_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value;
    } rows[] = {
        {"key", "00"}, {"key", KEY64 "00"}, {"hostname", ""}, {"hostname", "a b"}, {"hostname", "-a"},
        {"hostname", "a\nb"}, {"hostname", "a/b"}, {"machine_id", "xyz"}, {"machine_id", ID32 "00"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ck_err err = CK_ERR_INIT;
        struct ag_personality p;
        json_t *h = json_pack("{s:s, s:I, s:s, s:s}", "key", KEY64, "time_us", (json_int_t)5, "hostname", "a",
                              "machine_id", ID32);
        json_object_set_new(h, rows[i].field, json_string(rows[i].value));
        assert_int_equal(ag_personality_parse(h, &p, &err), -1);
        assert_string_equal(err.reason, "bad_field");
        json_decref(h);
    }
    struct ck_err err = CK_ERR_INIT;
    struct ag_personality p;
    json_t *none = json_object();
    assert_int_equal(ag_personality_parse(none, &p, &err), -1);
    json_decref(none);
}

static void a_high_water_mark_is_read_in_bytes(void **state)
{
    (void)state;
    struct ck_slice s = ck_slice_str("Name:\tpython3\nVmPeak:\t  99 kB\nVmHWM:\t  1234 kB\nVmRSS:\t   77 kB");
    assert_int_equal(ag_peak_field(s, "VmHWM"), 1234 * 1024);
    assert_int_equal(ag_peak_field(s, "VmRSS"), 77 * 1024);
    assert_int_equal(ag_peak_field(s, "Vm"), 0);
    assert_int_equal(ag_peak_field(ck_slice("", 0), "VmHWM"), 0);
    assert_true(ag_peak_field(ck_slice_str("VmHWM: 99999999999999999999999999 kB"), "VmHWM") > 0); // no overflow
}

static void the_peak_of_a_span_is_not_that_of_a_life(void **state)
{
    (void)state;
    static const struct {
        uint64_t life_then, held_then, life_now, held_now, grown, want;
    } rows[] = {
        {100, 50, 300, 60, 0, 300},   // the highest so far: exact
        {300, 60, 300, 70, 0, 70},    // what it holds now
        {300, 60, 300, 70, 100, 160}, // it grew in between and let go
        {300, 60, 300, 70, 900, 300}, // never above the highest of all
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ag_peak then = {.life = rows[i].life_then, .held = rows[i].held_then};
        struct ag_usage now = {.memory_bytes = rows[i].held_now, .peak_memory_bytes = rows[i].life_now};
        assert_int_equal(ag_peak_of_span(&then, &now, rows[i].grown), rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mode_is_read_from_the_command_line),
        cmocka_unit_test(the_oom_victim_is_found_and_nobody_else),
        cmocka_unit_test(zygote_messages_are_strict),
        cmocka_unit_test(an_environment_is_the_base_and_what_was_asked_for),
        cmocka_unit_test(bad_environments_are_refused),
        cmocka_unit_test(a_personality_is_taken_apart),
        cmocka_unit_test(bad_personalities_are_refused),
        cmocka_unit_test(a_high_water_mark_is_read_in_bytes),
        cmocka_unit_test(the_peak_of_a_span_is_not_that_of_a_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
