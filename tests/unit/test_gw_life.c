// The rules of a session's life: every operation in every state, alone and against every other.
#include "gateway/life_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define STATES (SESSION_DEAD + 1)

static enum life_verdict judge(enum life_op op, enum session_state state, enum life_op running, struct ck_err *err)
{
    *err = (struct ck_err)CK_ERR_INIT;
    return life_judge(op, state, running, err);
}

static void test_every_operation_has_a_name(void **state)
{
    (void)state;
    for (int a = LIFE_PAUSE; a < LIFE_OPS; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(life_op_name((enum life_op)a), life_op_name((enum life_op)b));
}

static void test_what_is_refused_names_the_state(void **state)
{
    (void)state;
    struct ck_err err;
    for (int op = LIFE_PAUSE; op < LIFE_OPS; op++)
        for (int st = 0; st < STATES; st++)
            for (int running = 0; running < LIFE_OPS; running++) {
                enum life_verdict v = judge((enum life_op)op, (enum session_state)st, (enum life_op)running, &err);
                if (v != LIFE_REFUSED) {
                    assert_int_equal(err.status, 0);
                    continue;
                }
                if (running == LIFE_NONE && st == SESSION_DEAD) {
                    assert_int_equal(err.status, 410);
                    assert_string_equal(err.reason, "session_dead");
                    continue;
                }
                assert_int_equal(err.status, 409);
                assert_string_equal(err.reason, running == LIFE_NONE ? "bad_state" : "life_busy");
                assert_non_null(strstr(err.text, session_state_name((enum session_state)st)));
            }
}

static void test_one_operation_at_a_time(void **state)
{
    (void)state;
    struct ck_err err;
    for (int op = LIFE_PAUSE; op < LIFE_OPS; op++)
        for (int st = 0; st < STATES; st++)
            for (int running = LIFE_PAUSE; running < LIFE_OPS; running++)
                assert_int_not_equal(judge((enum life_op)op, (enum session_state)st, (enum life_op)running, &err), LIFE_GO);
}

static void test_a_session_at_rest(void **state)
{
    (void)state;
    struct ck_err err;
    const enum life_op all[] = {LIFE_PAUSE, LIFE_CHECKPOINT, LIFE_ROLLBACK, LIFE_FORK, LIFE_FORGET};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(judge(all[i], SESSION_IDLE, LIFE_NONE, &err), LIFE_GO);
        assert_int_equal(judge(all[i], SESSION_BUSY, LIFE_NONE, &err), LIFE_GO); // the bridge knows whether it is
    }
    assert_int_equal(judge(LIFE_RESUME, SESSION_IDLE, LIFE_NONE, &err), LIFE_ALREADY);
    assert_int_equal(judge(LIFE_PAUSE, SESSION_PAUSED, LIFE_NONE, &err), LIFE_ALREADY);
    assert_int_equal(judge(LIFE_RESUME, SESSION_PAUSED, LIFE_NONE, &err), LIFE_GO);
    assert_int_equal(judge(LIFE_FORK, SESSION_PAUSED, LIFE_NONE, &err), LIFE_GO);
    assert_int_equal(judge(LIFE_CHECKPOINT, SESSION_PAUSED, LIFE_NONE, &err), LIFE_GO);
    assert_int_equal(judge(LIFE_ROLLBACK, SESSION_PAUSED, LIFE_NONE, &err), LIFE_RESUME_FIRST);
    assert_int_equal(judge(LIFE_PAUSE, SESSION_STARTING, LIFE_NONE, &err), LIFE_REFUSED);
    assert_int_equal(judge(LIFE_FORK, SESSION_DEAD, LIFE_NONE, &err), LIFE_REFUSED);
}

static void test_one_resume_for_all_who_wait(void **state)
{
    (void)state;
    struct ck_err err;
    assert_int_equal(judge(LIFE_RESUME, SESSION_PAUSED, LIFE_RESUME, &err), LIFE_JOIN);
    assert_int_equal(judge(LIFE_RESUME, SESSION_IDLE, LIFE_PAUSE, &err), LIFE_AFTER);
    assert_int_equal(judge(LIFE_RESUME, SESSION_PAUSED, LIFE_FORK, &err), LIFE_AFTER);
    assert_int_equal(judge(LIFE_RESUME, SESSION_IDLE, LIFE_FORK, &err), LIFE_ALREADY);
    assert_int_equal(judge(LIFE_PAUSE, SESSION_IDLE, LIFE_PAUSE, &err), LIFE_JOIN);
    assert_int_equal(judge(LIFE_FORK, SESSION_IDLE, LIFE_FORK, &err), LIFE_REFUSED);
}

static void test_when_a_request_gets_through(void **state)
{
    (void)state;
    assert_true(life_reachable(SESSION_IDLE, LIFE_NONE));
    assert_true(life_reachable(SESSION_BUSY, LIFE_CHECKPOINT)); // cells go on meanwhile
    assert_true(life_reachable(SESSION_IDLE, LIFE_ROLLBACK));
    assert_false(life_reachable(SESSION_IDLE, LIFE_PAUSE));
    assert_false(life_reachable(SESSION_PAUSED, LIFE_NONE));
    assert_false(life_reachable(SESSION_PAUSED, LIFE_RESUME));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_has_a_name), cmocka_unit_test(test_what_is_refused_names_the_state),
        cmocka_unit_test(test_one_operation_at_a_time),    cmocka_unit_test(test_a_session_at_rest),
        cmocka_unit_test(test_one_resume_for_all_who_wait), cmocka_unit_test(test_when_a_request_gets_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
