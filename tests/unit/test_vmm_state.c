// The life-cycle table: every event in every state, and the operations of each.
#include "vmm/machine_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum ck_machine_state run(enum ck_machine_state s, const enum ck_machine_event *e, int n)
{
    for (int i = 0; i < n; i++)
        assert_true(ck_machine_next(&s, e[i]));
    return s;
}

static void a_session_goes_from_new_to_gone(void **state)
{
    (void)state;
    const enum ck_machine_event life[] = {CK_MEV_SPAWNED, CK_MEV_QMP_INCOMING, CK_MEV_LOAD,    CK_MEV_LOADED, CK_MEV_RESUMED,
                                          CK_MEV_PAUSED,  CK_MEV_RESUMED,      CK_MEV_RESUMED, CK_MEV_QUIT,   CK_MEV_EXITED};
    assert_int_equal(run(CK_MACHINE_NEW, life, 4), CK_MACHINE_STOPPED);
    assert_int_equal(run(CK_MACHINE_NEW, life, 5), CK_MACHINE_RUNNING);
    assert_int_equal(run(CK_MACHINE_NEW, life, 10), CK_MACHINE_GONE);
}

static void a_booting_machine_runs_at_once(void **state)
{
    (void)state;
    const enum ck_machine_event life[] = {CK_MEV_SPAWNED, CK_MEV_QMP_RUNNING};
    assert_int_equal(run(CK_MACHINE_NEW, life, 2), CK_MACHINE_RUNNING);
}

static void the_process_may_end_in_every_state_in_which_there_is_one(void **state)
{
    (void)state;
    for (int i = CK_MACHINE_NEW; i <= CK_MACHINE_GONE; i++) {
        enum ck_machine_state s = (enum ck_machine_state)i;
        int process = i != CK_MACHINE_NEW && i != CK_MACHINE_GONE;
        assert_int_equal(ck_machine_next(&s, CK_MEV_EXITED), process);
        assert_int_equal(s, process ? CK_MACHINE_GONE : i);
    }
}

static void nothing_leads_out_of_gone_and_quitting_never_runs_again(void **state)
{
    (void)state;
    for (int e = CK_MEV_SPAWNED; e <= CK_MEV_EXITED; e++) {
        enum ck_machine_state s = CK_MACHINE_GONE;
        assert_false(ck_machine_next(&s, (enum ck_machine_event)e));
        s = CK_MACHINE_QUITTING;
        ck_machine_next(&s, (enum ck_machine_event)e);
        assert_true(s == CK_MACHINE_QUITTING || s == CK_MACHINE_GONE);
    }
}

static void a_failed_load_is_never_continued(void **state)
{
    (void)state;
    enum ck_machine_state s = CK_MACHINE_LOADING;
    assert_false(ck_machine_next(&s, CK_MEV_RESUMED));
    assert_false(ck_machine_allows(s, CK_MOP_CONT));
    assert_true(ck_machine_next(&s, CK_MEV_LOAD_FAILED));
    assert_int_equal(s, CK_MACHINE_QUITTING);
}

static void operations_are_allowed_where_the_header_says(void **state)
{
    (void)state;
    assert_true(ck_machine_allows(CK_MACHINE_NEW, CK_MOP_START));
    assert_true(ck_machine_allows(CK_MACHINE_PREPARED, CK_MOP_RESTORE));
    assert_false(ck_machine_allows(CK_MACHINE_RUNNING, CK_MOP_RESTORE));
    assert_true(ck_machine_allows(CK_MACHINE_STOPPED, CK_MOP_SAVE));
    assert_false(ck_machine_allows(CK_MACHINE_RUNNING, CK_MOP_SAVE));
    assert_true(ck_machine_allows(CK_MACHINE_RUNNING, CK_MOP_CHECKPOINT));
    assert_true(ck_machine_allows(CK_MACHINE_STOPPED, CK_MOP_CHECKPOINT));
    assert_false(ck_machine_allows(CK_MACHINE_PREPARED, CK_MOP_CHECKPOINT));
    for (int op = CK_MOP_START; op <= CK_MOP_CHECKPOINT; op++) {
        assert_false(ck_machine_allows(CK_MACHINE_GONE, (enum ck_machine_op)op));
        assert_false(ck_machine_allows(CK_MACHINE_QUITTING, (enum ck_machine_op)op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_goes_from_new_to_gone),
        cmocka_unit_test(a_booting_machine_runs_at_once),
        cmocka_unit_test(the_process_may_end_in_every_state_in_which_there_is_one),
        cmocka_unit_test(nothing_leads_out_of_gone_and_quitting_never_runs_again),
        cmocka_unit_test(a_failed_load_is_never_continued),
        cmocka_unit_test(operations_are_allowed_where_the_header_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
