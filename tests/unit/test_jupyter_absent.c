// Which client a socket without name continues.
#include "gateway/jupyter_absent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *const K1 = "11111111-1111-4111-8111-111111111111", *const K2 = "22222222-2222-4222-8222-222222222222";

static void the_only_one_that_left_is_meant(void **state)
{
    (void)state;
    assert_null(jup_absent_guess(K1, 1000));
    jup_absent_add(K1, "a", 1000);
    assert_string_equal(jup_absent_guess(K1, 1500), "a");
    assert_null(jup_absent_guess(K2, 1500));
    jup_absent_remove(K1, "a");
    assert_null(jup_absent_guess(K1, 1500));
}

static void the_last_one_is_meant_unless_two_left_together(void **state)
{
    (void)state;
    jup_absent_add(K1, "a", 1000);
    jup_absent_add(K1, "b", 1000 + JUP_ABSENT_APART_MS);
    assert_string_equal(jup_absent_guess(K1, 5000), "b");
    jup_absent_add(K1, "c", 1001 + JUP_ABSENT_APART_MS);
    assert_null(jup_absent_guess(K1, 5000));
    jup_absent_remove(K1, "b");
    assert_string_equal(jup_absent_guess(K1, 5000), "c");
    jup_absent_remove(K1, "c");
    jup_absent_remove(K1, "a");
}

static void one_that_left_long_ago_is_not_meant(void **state)
{
    (void)state;
    jup_absent_add(K1, "a", 1000);
    assert_non_null(jup_absent_guess(K1, 1000 + JUP_ABSENT_MS));
    assert_null(jup_absent_guess(K1, 1001 + JUP_ABSENT_MS));
}

static void the_oldest_are_forgotten(void **state)
{
    (void)state;
    jup_absent_add(K2, "old", 1000);
    for (int i = 0; i < JUP_ABSENT_MAX; i++)
        jup_absent_add(K1, "x", 1000);
    assert_null(jup_absent_guess(K2, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_one_that_left_is_meant),
        cmocka_unit_test(the_last_one_is_meant_unless_two_left_together),
        cmocka_unit_test(one_that_left_long_ago_is_not_meant),
        cmocka_unit_test(the_oldest_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
