// Weights of sessions, by niceness and by a control group's file.
#include "vmm/cpu_share.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct ck_err err;

static void niceness_follows_the_kernels_steps_of_a_quarter(void **state)
{
    (void)state;
    static const struct {
        unsigned weight;
        int nice;
    } rows[] = {{100, 0}, {80, 1}, {64, 2}, {51, 3}, {50, 3}, {33, 5}, {25, 6}, {10, 10}, {2, 18}, {1, 19}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(ck_cpu_share_nice(rows[i].weight), rows[i].nice);
    for (unsigned w = 2; w <= 100; w++)
        assert_true(ck_cpu_share_nice(w) <= ck_cpu_share_nice(w - 1));
}

static void without_a_group_the_process_is_made_nice_and_no_other(void **state)
{
    (void)state;
    const struct ck_cpu_group none = {.fd = -1};
    int before = getpriority(PRIO_PROCESS, 0);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    assert_int_equal(ck_cpu_share(&none, pid, 100, &err), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)pid), before);
    assert_int_equal(ck_cpu_share(&none, pid, 10, &err), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)pid), before > 10 ? before : 10);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(ck_cpu_share(&none, pid, 10, &err), -1); // it is gone
}

static void a_group_is_given_its_own_count(void **state)
{
    (void)state;
    char path[] = "/tmp/ck-weight-XXXXXX", text[16];
    static const struct {
        unsigned usual, weight;
        const char *written;
    } rows[] = {{100, 100, "100"}, {1024, 100, "1024"}, {1024, 50, "512"}, {100, 1, "1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ck_cpu_group g = {mkstemp(path), rows[i].usual};
        assert_true(g.fd >= 0);
        assert_int_equal(ck_cpu_share(&g, 0, rows[i].weight, &err), 0);
        memset(text, 0, sizeof text);
        assert_true(pread(g.fd, text, sizeof text - 1, 0) > 0);
        assert_string_equal(text, rows[i].written);
        close(g.fd);
        unlink(path);
        strcpy(path, "/tmp/ck-weight-XXXXXX");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(niceness_follows_the_kernels_steps_of_a_quarter),
        cmocka_unit_test(without_a_group_the_process_is_made_nice_and_no_other),
        cmocka_unit_test(a_group_is_given_its_own_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
