// Booting in the foreground, against this same program playing QEMU and its guest: the CPU model
// names what the guest does. Every way it can end, and that no process is left.
#include "common/ck_time.h"
#include "vmm/boot.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// ---- QEMU and the guest -----------------------------------------------------------------------

static void put(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0)
        _exit(9);
}

static void guest(const char *does)
{
    put(4, "[    0.000000] Linux version 6.1\r\n");
    if (!strcmp(does, "panic")) {
        put(4, "Kernel panic - not syncing: VFS: no root\r\n");
        exit(0);
    }
    if (!strcmp(does, "silence"))
        return;
    put(4, "cellkeep-agent: hello\r\n");
    if (!strcmp(does, "fail"))
        put(4, "cellkeep-agent: failed no disk with serial=disk\r\n");
    for (int i = 1; !strcmp(does, "slowly") && i <= 6; i++) { // 2.4 s in all, and then no further
        char text[64];
        usleep(400 * 1000);
        snprintf(text, sizeof text, "cellkeep-agent: progress %d step %d\r\n", i * 10, i);
        put(4, text);
    }
    if (strcmp(does, "get-ready") != 0)
        return;
    put(4, "cellkeep-agent: progress 50 importing pandas\r\n");
    put(4, "cellkeep-agent: template-ready\r\n");
}

static int play_qemu(int argc, char **argv)
{
    const char *does = "";
    char line[65536], text[256];
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "-cpu"))
            does = argv[i + 1];
    put(3, "{\"QMP\":{\"version\":{},\"capabilities\":[]}}\r\n");
    FILE *in = fdopen(dup(3), "r");
    while (fgets(line, sizeof line, in)) {
        const char *id = strstr(line, "\"id\":"), *file = strstr(line, "\"filename\":\"");
        if (strstr(line, "xen-save-devices-state") && file) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%.*s", (int)strcspn(file + 12, "\""), file + 12);
            FILE *f = fopen(path, "w");
            fputs("state", f);
            fclose(f);
        }
        snprintf(text, sizeof text, "{\"return\":{},\"id\":%d}\r\n", id ? atoi(id + 5) : 0);
        put(3, text);
        if (strstr(line, "\"migrate-set-capabilities\""))
            guest(does);
        if (strstr(line, "\"quit\""))
            return 0;
    }
    return 3;
}

// ---- tests ------------------------------------------------------------------------------------

static int percent;
static bool saw_progress;

static void on_progress(int p, const char *text, void *user)
{
    (void)user;
    percent = p;
    saw_progress |= !strcmp(text, "importing pandas");
}

static int boot(enum ck_vm_use use, const char *does, unsigned ms, const char *state_path, struct ck_err *err)
{
    static char self[PATH_MAX];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    struct ck_vm_spec spec = {.use = use, .qemu = self, .cpu = does, .memory_mb = 256, .kernel = "/k", .initrd = "/i",
                              .append = "x", .root_image = "/r", .disk = "/d", .ram_path = "/ram", .ram_fd = -1};
    struct ck_boot_opts o = {.spec = &spec, .deadline_ms = ms, .state_path = state_path, .progress = on_progress};
    int rc = ck_boot_run(&o, err);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no child is left, dead or alive
    return rc;
}

static void a_probe_ends_with_the_hello(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    int64_t t0 = ck_mono_ms();
    assert_int_equal(boot(CK_VM_PROBE, "say-hello", 5000, NULL, &e), 0);
    assert_true(ck_mono_ms() - t0 < 4000);
}

static void a_template_is_saved_after_it_fell_idle(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    char path[] = "/tmp/test-vmm-boot-XXXXXX";
    close(mkstemp(path));
    unlink(path);
    int rc = boot(CK_VM_TEMPLATE, "get-ready", 20000, path, &e);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    assert_int_equal(rc, 0);
    assert_true(saw_progress);
    assert_int_equal(percent, 99);
}

static void a_guest_that_never_comes_up_is_ended_at_the_deadline(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_true(boot(CK_VM_PROBE, "silence", 300, NULL, &e) < 0);
    assert_string_equal(e.reason, "boot_timeout");
    assert_non_null(strstr(e.text, "Linux version 6.1")); // its last lines
}

static void a_guest_that_reports_a_failure_is_believed(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_true(boot(CK_VM_TEMPLATE, "fail", 5000, "/x", &e) < 0);
    assert_string_equal(e.reason, "boot_failed");
    assert_non_null(strstr(e.text, "no disk with serial=disk"));
}

static void a_guest_that_dies_is_reported_with_its_last_words(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_true(boot(CK_VM_TEMPLATE, "panic", 5000, "/x", &e) < 0);
    assert_string_equal(e.reason, "vm_died");
    assert_non_null(strstr(e.text, "Kernel panic"));
}

static void ready_means_nothing_to_a_probe_and_hello_is_not_enough_for_a_template(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_true(boot(CK_VM_TEMPLATE, "say-hello", 300, "/x", &e) < 0);
    assert_string_equal(e.reason, "boot_timeout");
}

static void a_template_is_given_up_when_it_gets_no_further_and_not_because_it_is_slow(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_true(boot(CK_VM_TEMPLATE, "slowly", 2000, "/x", &e) < 0);
    assert_string_equal(e.reason, "boot_timeout");
    assert_non_null(strstr(e.text, "did not get any further within 2 s"));
    assert_int_equal(percent, 58); // beyond the first two seconds
}

static void a_signal_interrupts_and_leaves_nothing(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    sigset_t set;
    sigemptyset(&set); // as ck_template_ensure calls it: held back outside
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGINT);
    assert_true(boot(CK_VM_TEMPLATE, "silence", 10000, "/x", &e) < 0);
    assert_string_equal(e.reason, "interrupted");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 3)
        return play_qemu(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_ends_with_the_hello),
        cmocka_unit_test(a_template_is_saved_after_it_fell_idle),
        cmocka_unit_test(a_guest_that_never_comes_up_is_ended_at_the_deadline),
        cmocka_unit_test(a_guest_that_reports_a_failure_is_believed),
        cmocka_unit_test(a_guest_that_dies_is_reported_with_its_last_words),
        cmocka_unit_test(ready_means_nothing_to_a_probe_and_hello_is_not_enough_for_a_template),
        cmocka_unit_test(a_template_is_given_up_when_it_gets_no_further_and_not_because_it_is_slow),
        cmocka_unit_test(a_signal_interrupts_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
