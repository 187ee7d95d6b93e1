// Process identity: hostile process names, reused pids, descriptors that children inherit.
#include "common/ck_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TAIL "1 1 1 0 -1 4194560 100 200 0 0 5 6 0 0 20 0 1 0 987654 1000 200"

static void stat_line(const char *name, char state_char)
{
    char text[300], state = 0;
    uint64_t start = 0;
    snprintf(text, sizeof text, "42 (%s) %c " TAIL, name, state_char);
    assert_int_equal(ck_proc_parse_stat(text, &start, &state), 0);
    assert_int_equal(start, 987654);
    assert_int_equal(state, state_char);
}

static void stat_is_parsed_whatever_the_process_calls_itself(void **state)
{
    (void)state;
    stat_line("bash", 'S');
    stat_line("a b", 'R');
    stat_line(") R 1 1", 'Z');
    stat_line("((()", 'S');
    stat_line(")", 'D');
    stat_line("", 'S');
    stat_line("x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", 'T');
    stat_line("new\nline", 'S');
}

static void malformed_stat_is_refused(void **state)
{
    (void)state;
    uint64_t start;
    char st;
    assert_int_equal(ck_proc_parse_stat("", &start, &st), -1);
    assert_int_equal(ck_proc_parse_stat("42 bash S 1 1", &start, &st), -1);
    assert_int_equal(ck_proc_parse_stat("42 (bash)", &start, &st), -1);
    assert_int_equal(ck_proc_parse_stat("42 (bash) S 1 1 1", &start, &st), -1);
    assert_int_equal(ck_proc_parse_stat("42 (bash) S 1 1 1 0 -1 4 1 2 0 0 5 6 0 0 20 0 1 0 x", &start, &st), -1);
}

static void numbers_of_stat_are_found_by_their_place(void **state)
{
    (void)state;
    uint64_t v = 0;
    assert_int_equal(ck_proc_stat_number("42 (a) 9 9) S " TAIL, 14, &v), 0);
    assert_int_equal(v, 5);
    assert_int_equal(ck_proc_stat_number("42 (a) S " TAIL "\n", 24, &v), 0); // the last one
    assert_int_equal(v, 200);
    assert_int_equal(ck_proc_stat_number("42 (a) S 18446744073709551614 2", 4, &v), 0);
    assert_true(v == UINT64_MAX - 1);
    v = 7;
    assert_int_equal(ck_proc_stat_number("42 (a) S 99999999999999999999 2", 4, &v), -1);
    assert_int_equal(ck_proc_stat_number("42 (a) S -1 2", 4, &v), -1);
    assert_int_equal(ck_proc_stat_number("42 (a) S 1x 2", 4, &v), -1);
    assert_int_equal(ck_proc_stat_number("42 (a) S " TAIL, 25, &v), -1);
    assert_int_equal(ck_proc_stat_number("42 (a) S ", 4, &v), -1);
    assert_int_equal(v, 7);
}

static void this_process_is_identified_even_with_a_hostile_name(void **state)
{
    (void)state;
    char old[16];
    prctl(PR_GET_NAME, old);
    prctl(PR_SET_NAME, "x) Z 9 9 9");
    struct ck_proc_id a = {0}, b = {0};
    assert_int_equal(ck_proc_identify(getpid(), &a), 0);
    prctl(PR_SET_NAME, old);
    assert_int_equal(ck_proc_identify(getpid(), &b), 0);
    assert_int_equal(a.start, b.start);
    assert_true(a.start > 0);
    assert_true(ck_proc_alive(a));
}

static void a_reused_pid_is_not_taken_for_ours(void **state)
{
    (void)state;
    struct ck_proc_id other;
    assert_int_equal(ck_proc_identify(getpid(), &other), 0);
    other.start--; // as if our process had died and this one had got its number
    assert_false(ck_proc_alive(other));
    assert_int_equal(ck_proc_signal(other, SIGKILL, NULL), 1); // still here: nobody was killed
}

static void nonsense_pids_are_nobody(void **state)
{
    (void)state;
    struct ck_proc_id id;
    assert_int_equal(ck_proc_identify(0, &id), -1);
    assert_int_equal(ck_proc_identify(-1, &id), -1);
    assert_int_equal(ck_proc_identify(0x7FFFFFF0, &id), -1);
}

static void a_signal_reaches_a_child_and_then_reports_it_gone(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (!pid) {
        for (;;)
            pause();
    }
    struct ck_proc_id id;
    assert_int_equal(ck_proc_identify(pid, &id), 0);
    assert_int_equal(ck_proc_signal(id, SIGKILL, NULL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(ck_proc_alive(id)); // a zombie is not alive
    assert_int_equal(ck_proc_signal(id, SIGKILL, NULL), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(ck_proc_signal(id, SIGKILL, NULL), 1);
}

static void only_whitelisted_descriptors_survive_exec(void **state)
{
    (void)state;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = fcntl(1, F_DUPFD, 100);
        assert_true(fds[i] >= 100);
    }
    int keep[] = {fds[1], 900};
    ck_proc_cloexec_from(100, keep, 2);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fds[2], F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(1, F_GETFD) & FD_CLOEXEC);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_is_parsed_whatever_the_process_calls_itself),
        cmocka_unit_test(malformed_stat_is_refused),
        cmocka_unit_test(numbers_of_stat_are_found_by_their_place),
        cmocka_unit_test(this_process_is_identified_even_with_a_hostile_name),
        cmocka_unit_test(a_reused_pid_is_not_taken_for_ours),
        cmocka_unit_test(nonsense_pids_are_nobody),
        cmocka_unit_test(a_signal_reaches_a_child_and_then_reports_it_gone),
        cmocka_unit_test(only_whitelisted_descriptors_survive_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
