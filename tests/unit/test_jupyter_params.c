// What a client may choose for a new kernel, and the delivery accounting of its socket.
#include "gateway/jupyter_ack.h"
#include "gateway/jupyter_params.h"

#include "common/ck_clean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void only_kernel_and_listed_variables_pass(void **state)
{
    (void)state;
    CK_CLEAN_JSON json_t *env = json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:s}", "KERNEL_USERNAME", "bob", "AWS_SECRET", "x",
                                          "PATH", "/bin", "LANG", "C", "KERNEL_NUM", 7, "KERNEL_BAD NAME", "x",
                                          "KERNEL_GATEWAY", "0", "KERNELX", "no");
    CK_CLEAN_JSON json_t *got = jup_env_filter(env, "FOO, LANG");
    CK_CLEAN_JSON json_t *want = json_pack("{s:s,s:s,s:s}", "KERNEL_GATEWAY", "1", "KERNEL_USERNAME", "bob", "LANG", "C");
    assert_true(json_equal(got, want));
    CK_CLEAN_JSON json_t *none = jup_env_filter(NULL, NULL);
    assert_int_equal(json_object_size(none), 0);
}

static void variables_are_bounded(void **state)
{
    (void)state;
    CK_CLEAN_JSON json_t *env = json_object();
    for (int i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof name, "KERNEL_%d", i);
        json_object_set_new(env, name, json_string("v"));
    }
    char big[JUP_ENV_VALUE_MAX + 2];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    CK_CLEAN_JSON json_t *got = jup_env_filter(env, NULL);
    assert_int_equal(json_object_size(got), JUP_ENV_MAX);
    CK_CLEAN_JSON json_t *one = json_pack("{s:s}", "KERNEL_A", big);
    CK_CLEAN_JSON json_t *dropped = jup_env_filter(one, NULL);
    assert_null(json_object_get(dropped, "KERNEL_A"));
}

static void cwd_is(const char *path, const char *want)
{
    char out[64];
    int rc = jup_cwd(path, out, sizeof out);
    assert_int_equal(rc, want ? 0 : -1);
    if (want)
        assert_string_equal(out, want);
}

static void paths_become_guest_directories(void **state)
{
    (void)state;
    cwd_is("", "/home/user");
    cwd_is("a/b", "/home/user/a/b");
    cwd_is("./a//b/", "/home/user/a/b");
    cwd_is("/tmp", "/tmp");
    cwd_is("/", "/");
    cwd_is("../x", NULL);
    cwd_is("/a/../../etc", NULL);
    cwd_is("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL);
}

static void an_event_counts_as_delivered_when_its_last_byte_is_there(void **state)
{
    (void)state;
    struct jup_ack a = {.n = 0};
    jup_ack_given(&a, 5, 100, 0);
    jup_ack_given(&a, 7, 180, 0);
    assert_int_equal(jup_ack_reached(&a, 99), 0);
    assert_int_equal(jup_ack_reached(&a, 100), 5);
    assert_int_equal(jup_ack_reached(&a, 100), 0); // once
    assert_int_equal(jup_ack_reached(&a, 179), 0);
    jup_ack_given(&a, 9, 180, 0); // an event that the client does not get
    assert_int_equal(jup_ack_reached(&a, 180), 9);
    assert_false(jup_ack_pending(&a));
    assert_int_equal(jup_ack_reached(&a, 500), 0);
}

static void asking_how_far_a_place_is_changes_nothing(void **state)
{
    (void)state;
    struct jup_ack a = {.n = 0};
    jup_ack_given(&a, 5, 100, 0);
    jup_ack_given(&a, 7, 180, 0);
    assert_int_equal(jup_ack_at(&a, 99), 0);
    assert_int_equal(jup_ack_at(&a, 179), 5);
    assert_int_equal(jup_ack_at(&a, 1000), 7);
    assert_int_equal(jup_ack_reached(&a, 100), 5);
    assert_int_equal(jup_ack_at(&a, 0), 5); // never below what is sure
    assert_int_equal(jup_ack_reached(&a, 180), 7);
    assert_int_equal(jup_ack_at(&a, 0), 7);
}

static void a_full_ring_gets_coarser_and_never_early(void **state)
{
    (void)state;
    struct jup_ack a = {.n = 0};
    for (uint64_t s = 1; s <= 10 * JUP_ACK_MARKS; s++)
        jup_ack_given(&a, s, s, 0);
    uint64_t seen = 0;
    for (uint64_t place = 0; place <= 10 * JUP_ACK_MARKS; place++) {
        uint64_t got = jup_ack_reached(&a, place);
        assert_true(got <= place);
        seen = got ? got : seen;
    }
    assert_int_equal(seen, 10 * JUP_ACK_MARKS);
}

static void the_place_that_was_asked_about_is_exact_in_a_full_ring(void **state)
{
    (void)state;
    struct jup_ack a = {.n = 0};
    uint64_t s = 0, asked = 0;
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < round * JUP_ACK_MARKS / 4; i++, s++)
            jup_ack_given(&a, s + 1, 10 * (s + 1), asked);
        asked = 10 * s; // the question goes out behind what was given
        for (int i = 0; i < 3 * JUP_ACK_MARKS; i++, s++)
            jup_ack_given(&a, s + 1, 10 * (s + 1), asked);
        assert_int_equal(jup_ack_reached(&a, asked), asked / 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_kernel_and_listed_variables_pass),
        cmocka_unit_test(variables_are_bounded),
        cmocka_unit_test(paths_become_guest_directories),
        cmocka_unit_test(an_event_counts_as_delivered_when_its_last_byte_is_there),
        cmocka_unit_test(asking_how_far_a_place_is_changes_nothing),
        cmocka_unit_test(a_full_ring_gets_coarser_and_never_early),
        cmocka_unit_test(the_place_that_was_asked_about_is_exact_in_a_full_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
