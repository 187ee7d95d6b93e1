// Running programs to their end, the subcommands' usage, and doctor on a machine with nothing.
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/cmds.h"
#include "vmm/doctor.h"
#include "vmm/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int sh(const char *script, int ms, size_t max, struct ck_buf *out, struct ck_err *err)
{
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
    int rc = ck_run(argv, ms, max, out, err);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // reaped in every case
    return rc;
}

static void output_is_collected_up_to_its_cap(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(sh("echo out; echo err >&2", 5000, 100, &b, NULL), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "out\nerr\n"));
    ck_buf_free(&b);
    assert_int_equal(sh("head -c 300000 /dev/zero", 5000, 1000, &b, NULL), 0);
    assert_int_equal(b.n, 1000);
    ck_buf_free(&b);
}

static void a_failure_quotes_the_last_line(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_true(sh("echo first; echo no space left >&2; exit 3", 5000, 1000, NULL, &e) < 0);
    assert_non_null(strstr(e.text, "exit code 3: no space left"));
    assert_true(sh("kill -TERM $$", 5000, 1000, NULL, &e) < 0);
    assert_non_null(strstr(e.text, "signal 15"));
}

static void a_program_that_does_not_end_is_killed(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    int64_t t0 = ck_mono_ms();
    assert_true(sh("exec sleep 60", 200, 1000, NULL, &e) < 0);
    assert_string_equal(e.reason, "timeout");
    assert_true(ck_mono_ms() - t0 < 5000);
}

static void a_child_gets_neither_environment_nor_descriptors(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    setenv("CELLKEEP_SECRET", "x", 1);
    int leak = dup(1);
    assert_int_equal(sh("echo \"[$CELLKEEP_SECRET]\"; ls /proc/self/fd | wc -l", 5000, 1000, &b, NULL), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "[]\n4\n")); // 0, 1, 2 and the one that ls reads
    close(leak);
    ck_buf_free(&b);
}

static void programs_are_found_but_never_in_the_current_folder(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(ck_find_program("sh", path, NULL), 0);
    assert_int_equal(path[0], '/');
    assert_int_equal(ck_find_program("no-such-program-anywhere", path, NULL), 1);
    assert_int_equal(ck_find_program("/bin", path, NULL), 1); // a folder is no program
    setenv("PATH", ".:", 1);
    assert_int_equal(ck_find_program("sh", path, NULL), 0);
    assert_int_equal(path[0], '/');
}

static void doctor_names_the_one_command_that_would_help(void **state)
{
    (void)state;
    char dir[] = "/tmp/test-vmm-spawn-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct ck_cmd_opts o = {.accel = "tcg", .qemu = "/nonexistent/qemu", .cache_given = true};
    snprintf(o.cache_dir, sizeof o.cache_dir, "%s", dir);
    snprintf(o.state_dir, sizeof o.state_dir, "%s", dir);
    struct ck_doctor *d = malloc(sizeof *d);
    ck_doctor_run(&o, NULL, NULL, d);
    assert_false(d->ok);
    assert_non_null(strstr(d->fix, "apt-get install qemu-system-x86"));
    char qemu[128];
    snprintf(qemu, sizeof qemu, "%s/qemu", dir);
    const char *script = "#!/bin/sh\necho QEMU emulator version 7.2.1\n";
    assert_int_equal(ck_write_file_atomic(qemu, script, strlen(script), 0755, NULL), 0);
    o.qemu = qemu;
    ck_doctor_run(&o, NULL, NULL, d);
    assert_false(d->ok);
    assert_string_equal(d->qemu.version, "7.2.1");
    assert_non_null(strstr(d->fix, "cellkeep image build --cache-dir /tmp/test-vmm-spawn-"));
    script = "#!/bin/sh\necho QEMU emulator version 5.2.0\n";
    assert_int_equal(ck_write_file_atomic(qemu, script, strlen(script), 0755, NULL), 0);
    ck_doctor_run(&o, NULL, NULL, d);
    assert_string_equal(d->qemu_err.reason, "old_qemu");
    free(d);
    assert_int_equal(ck_remove_tree(dir, NULL), 0);
}

static int run(int (*cmd)(int, char **), const char *a, const char *b)
{
    char *argv[] = {(char *)"cmd", (char *)a, (char *)b, NULL};
    return cmd(a ? b ? 3 : 2 : 1, argv);
}

static void wrong_usage_is_exit_code_2(void **state)
{
    (void)state;
    assert_int_equal(run(ck_cmd_template, NULL, NULL), 2);
    assert_int_equal(run(ck_cmd_template, "burn", NULL), 2);
    assert_int_equal(run(ck_cmd_template, "build", "--memory-mb=1"), 2);
    assert_int_equal(run(ck_cmd_template, "build", "--accel=xen"), 2);
    assert_int_equal(run(ck_cmd_template, "build", "--cache-dir"), 2);
    assert_int_equal(run(ck_cmd_image, "build", "--frobnicate"), 2);
    assert_int_equal(run(ck_cmd_doctor, "now", NULL), 2);
    assert_int_equal(run(ck_cmd_doctor, "--help", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_collected_up_to_its_cap),
        cmocka_unit_test(a_failure_quotes_the_last_line),
        cmocka_unit_test(a_program_that_does_not_end_is_killed),
        cmocka_unit_test(a_child_gets_neither_environment_nor_descriptors),
        cmocka_unit_test(programs_are_found_but_never_in_the_current_folder),
        cmocka_unit_test(doctor_names_the_one_command_that_would_help),
        cmocka_unit_test(wrong_usage_is_exit_code_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
