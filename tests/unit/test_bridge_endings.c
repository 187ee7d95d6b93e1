// The ladder of endings against a clock of its own.
#include "kernel-bridge/endings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_timeout_climbs_the_ladder_and_is_reported_within_a_second(void **state)
{
    (void)state;
    struct ending e = {.rung = END_OFF};
    end_arm(&e, 1000, 5000);
    assert_int_equal(end_step(&e, 5999), END_OFF);
    assert_false(end_begun(&e));
    assert_int_equal(end_next(&e), 6000);
    assert_int_equal(end_step(&e, 6000), END_INTERRUPTED);
    assert_true(end_begun(&e));
    assert_int_equal(end_step(&e, 6399), END_OFF);
    assert_int_equal(end_step(&e, 6400), END_SIGNALLED);
    assert_int_equal(end_step(&e, 6799), END_OFF);
    assert_int_equal(end_step(&e, 6800), END_REPORTED);
    assert_int_equal(e.due, 6000);
    assert_int_equal(end_step(&e, 10999), END_OFF);
    assert_int_equal(end_step(&e, 11000), END_KILLED);
    assert_int_equal(end_step(&e, 11000 + END_GRACE_MS - 1), END_OFF);
    assert_int_equal(end_step(&e, 11000 + END_GRACE_MS), END_VM_KILLED);
    assert_int_equal(end_next(&e), INT64_MAX);
    assert_int_equal(end_step(&e, INT64_MAX), END_OFF);
}

static void a_late_clock_skips_no_rung(void **state)
{
    (void)state;
    struct ending e = {.rung = END_OFF};
    end_arm(&e, 0, 1000);
    assert_int_equal(end_step(&e, 100000), END_INTERRUPTED);
    assert_int_equal(end_step(&e, 100000), END_OFF); // the interrupt gets its time all the same
    assert_int_equal(end_step(&e, 100400), END_SIGNALLED);
}

static void a_cell_that_ends_stops_the_ladder_where_it_is(void **state)
{
    (void)state;
    struct ending e = {.rung = END_OFF};
    end_arm(&e, 0, 1000);
    end_step(&e, 1000);
    end_off(&e);
    assert_int_equal(end_next(&e), INT64_MAX);
    assert_int_equal(end_step(&e, 1000000), END_OFF);
    assert_true(end_begun(&e)); // how far it went is still known
    assert_int_equal(e.rung, END_INTERRUPTED);
}

static void no_timeout_means_never(void **state)
{
    (void)state;
    struct ending e = {.rung = END_OFF};
    end_arm(&e, 5, 0);
    assert_int_equal(end_next(&e), INT64_MAX);
    end_arm(&e, 5, INT64_MAX);
    assert_int_equal(end_next(&e), INT64_MAX);
    assert_int_equal(end_step(&e, INT64_MAX - 1), END_OFF);
}

static void cancelling_starts_at_once_and_leaves_more_time(void **state)
{
    (void)state;
    struct ending e = {.rung = END_OFF};
    end_arm(&e, 0, 60000);
    end_cancel(&e, 100);
    assert_int_equal(end_step(&e, 100), END_INTERRUPTED);
    assert_int_equal(e.why, END_CANCEL);
    assert_int_equal(end_step(&e, 100 + END_CANCEL_MS - 1), END_OFF);
    assert_int_equal(end_step(&e, 100 + END_CANCEL_MS), END_SIGNALLED);
    end_cancel(&e, 5000); // twice is once
    assert_int_equal(e.rung, END_SIGNALLED);
    assert_int_equal(end_step(&e, 100 + 2 * END_CANCEL_MS), END_KILLED);
}

static void cancelling_does_not_undo_a_timeout(void **state)
{
    (void)state;
    struct ending e = {.rung = END_OFF};
    end_arm(&e, 0, 10);
    end_step(&e, 10);
    end_cancel(&e, 11);
    assert_int_equal(e.why, END_TIMEOUT);
    assert_int_equal(e.rung, END_INTERRUPTED);
}

static void every_rung_that_is_taken_has_words(void **state)
{
    (void)state;
    for (int r = END_INTERRUPTED; r < END_RUNGS; r++) {
        assert_true(strlen(end_rung_name((enum end_rung)r)) > 0);
        assert_true(strlen(end_rung_name((enum end_rung)r)) < 16);
        assert_true(strlen(end_tried((enum end_rung)r)) > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeout_climbs_the_ladder_and_is_reported_within_a_second),
        cmocka_unit_test(a_late_clock_skips_no_rung),
        cmocka_unit_test(a_cell_that_ends_stops_the_ladder_where_it_is),
        cmocka_unit_test(no_timeout_means_never),
        cmocka_unit_test(cancelling_starts_at_once_and_leaves_more_time),
        cmocka_unit_test(cancelling_does_not_undo_a_timeout),
        cmocka_unit_test(every_rung_that_is_taken_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
