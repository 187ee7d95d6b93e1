// Consumers and sessions: who is owed which replies.
#include "kernel-bridge/consumers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int conn; // stands for a connection

static struct consumer *get(struct consumers *t, const char *name)
{
    bool is_new;
    return cons_get(t, name, &is_new);
}

static void positions_are_kept_and_never_go_back(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    bool is_new;
    struct consumer *a = cons_get(t, "a", &is_new);
    assert_true(is_new);
    cons_ack(t, a, 10);
    cons_ack(t, a, 5);
    assert_ptr_equal(cons_get(t, "a", &is_new), a);
    assert_false(is_new);
    assert_int_equal(cons_acked(a), 10);
    cons_free(t);
}

static void a_session_belongs_to_who_used_it_last(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    struct consumer *a = get(t, "a"), *b = get(t, "b");
    uint64_t from;
    cons_set_holder(t, a, &conn, 3);
    assert_int_equal(cons_learn(t, a, "s", &from), 1);
    assert_int_equal(from, 3);
    assert_int_equal(cons_learn(t, a, "s", &from), 0);
    assert_true(cons_owns(a, "s"));
    assert_false(cons_owns(b, "s"));
    assert_false(cons_owns(a, ""));
    assert_int_equal(cons_learn(t, b, "s", &from), 0); // a is attached: it was delivered to
    assert_true(cons_owns(b, "s"));
    assert_false(cons_owns(a, "s"));
    cons_free(t);
}

static void what_a_lost_consumer_did_not_acknowledge_goes_to_its_successor(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    struct consumer *a = get(t, "a"), *b = get(t, "b");
    uint64_t from = 0;
    cons_set_holder(t, a, &conn, 0);
    cons_learn(t, a, "s", &from);
    cons_ack(t, a, 20);
    cons_set_holder(t, a, NULL, 0);
    cons_set_holder(t, b, &conn, 30);
    assert_int_equal(cons_learn(t, b, "s", &from), 1);
    assert_int_equal(from, 20);
    cons_free(t);
}

static void the_longest_unused_goes_first_and_attached_ones_never(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    char name[20];
    bool is_new;
    uint64_t from;
    struct consumer *kept = get(t, "kept");
    cons_set_holder(t, kept, &conn, 0);
    cons_learn(t, get(t, "0"), "session of 0", &from);
    for (int i = 0; i < CONS_MAX - 1; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_non_null(get(t, name));
    }
    assert_non_null(get(t, "one more"));
    assert_ptr_equal(cons_get(t, "kept", &is_new), kept);
    assert_false(is_new);
    cons_get(t, "0", &is_new);
    assert_true(is_new); // it was forgotten
    assert_int_equal(cons_learn(t, kept, "session of 0", &from), 1); // and left its session behind
    cons_free(t);
}

static void when_all_are_attached_no_more_are_taken(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    char name[20];
    for (int i = 0; i < CONS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        cons_set_holder(t, get(t, name), &conn, 0);
    }
    assert_int_equal(cons_attached(t), CONS_MAX);
    assert_null(get(t, "one more"));
    cons_free(t);
}

static void sessions_are_bounded(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    struct consumer *a = get(t, "a");
    char id[20];
    uint64_t from;
    for (int i = 0; i < CONS_SESSIONS_MAX + 5; i++) {
        snprintf(id, sizeof id, "s%d", i);
        assert_int_equal(cons_learn(t, a, id, &from), 1);
    }
    assert_false(cons_owns(a, "s4"));
    assert_true(cons_owns(a, "s5"));
    cons_free(t);
}

static void names_that_are_too_long_are_refused(void **state)
{
    (void)state;
    struct consumers *t = cons_new();
    char name[CONS_NAME_MAX + 1];
    memset(name, 'n', CONS_NAME_MAX);
    name[CONS_NAME_MAX] = 0;
    assert_null(get(t, name));
    cons_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_are_kept_and_never_go_back),
        cmocka_unit_test(a_session_belongs_to_who_used_it_last),
        cmocka_unit_test(what_a_lost_consumer_did_not_acknowledge_goes_to_its_successor),
        cmocka_unit_test(the_longest_unused_goes_first_and_attached_ones_never),
        cmocka_unit_test(when_all_are_attached_no_more_are_taken),
        cmocka_unit_test(sessions_are_bounded),
        cmocka_unit_test(names_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
