// The jail, applied for real to a forked child: what can be seen and done from inside. Steps that
// this host or user cannot have are not checked (they must say so, which is checked).
#include "common/ck_cgroup.h"
#include "common/ck_fs.h"
#include "vmm/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

static char base[64], session[96], other[96], template[96], image[96];

static int setup(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/test-vmm-jail-XXXXXX");
    assert_non_null(mkdtemp(base));
    chmod(base, 0755);
    snprintf(session, sizeof session, "%s/mine", base);
    snprintf(other, sizeof other, "%s/other", base);
    snprintf(template, sizeof template, "%s/template", base);
    snprintf(image, sizeof image, "%s/image", base);
    const char *all[] = {session, other, template, image};
    for (int i = 0; i < 4; i++)
        assert_int_equal(mkdir(all[i], 0755), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return ck_remove_tree(base, NULL);
}

static struct ck_jail_opts opts(void)
{
    return (struct ck_jail_opts){.id = "test-vmm-jail", .session_dir = session, .template_dir = template, .image_dir = image};
}

// Applies in a child, runs check there; its exit code comes back. 100 = apply failed.
static int in_jail(struct ck_jail_opts o, int (*check)(const struct ck_jail_report *r))
{
    pid_t pid = fork();
    if (pid == 0) {
        struct ck_jail_report r;
        struct ck_err e = CK_ERR_INIT;
        if (ck_jail_apply(&o, &r, &e)) {
            fprintf(stderr, "jail: %s\n", e.text);
            _exit(100);
        }
        _exit(check(&r));
    }
    int status;
    waitpid(pid, &status, 0);
    ck_cgroup_sweep();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

static int can(const char *dir, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int check_view(const struct ck_jail_report *r)
{
    if (!ck_jail_applied(r, CK_JAIL_MOUNT_NS))
        return r->step[CK_JAIL_MOUNT_NS].reason[0] ? 0 : 1;
    if (!can(session, "new"))
        return 2;
    if (can(template, "x") || can(image, "x") || can("/", "x") || can("/usr", "x"))
        return 3;
    if (!access(other, F_OK) || !access("/root", F_OK) || !access("/home", F_OK) || !access("/etc/passwd", F_OK) ||
        !access("/var", F_OK) || !access("/sys", F_OK))
        return 4;
    if (access("/usr/bin/env", X_OK) || access("/dev/null", W_OK) || access("/proc/self/fd", R_OK))
        return 5;
    if (ck_jail_applied(r, CK_JAIL_UID) && !r->step[CK_JAIL_MOUNT_NS].reason[0] && !access("/proc/1", F_OK))
        return 7; // other processes are not to be seen
    return access("/dev/kvm", F_OK) ? 0 : 6;
}

static void only_what_is_needed_can_be_seen_and_only_the_session_written(void **state)
{
    (void)state;
    assert_int_equal(in_jail(opts(), check_view), 0);
    char path[128];
    snprintf(path, sizeof path, "%s/new", session);
    assert_int_equal(access(path, F_OK), 0); // the same folder outside
}

static int check_process(const struct ck_jail_report *r)
{
    extern char **environ;
    struct rlimit core;
    if (environ && environ[0])
        return 1;
    if (getrlimit(RLIMIT_CORE, &core) || core.rlim_max != 0)
        return 2;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 3;
    if (ck_jail_applied(r, CK_JAIL_UID) && (getuid() < 0x70000000u || geteuid() != getuid() || getgroups(0, NULL) != 0))
        return 4;
    if (ck_jail_applied(r, CK_JAIL_UID) && !setuid(0))
        return 5;
    for (int cap = 0; cap < 40; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            return 6;
    return !chroot("/") ? 7 : 0;
}

static void nothing_of_the_process_is_left_to_abuse(void **state)
{
    (void)state;
    setenv("SECRET", "x", 1);
    assert_int_equal(in_jail(opts(), check_process), 0);
}

// What an attacker who has the bridge, or has broken out of QEMU, would call next.
static int check_calls(const struct ck_jail_report *r)
{
    if (!ck_jail_applied(r, CK_JAIL_SECCOMP))
        return r->step[CK_JAIL_SECCOMP].reason[0] ? 0 : 1;
    static const int families[] = {AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_TIPC};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        int s = socket(families[i], SOCK_RAW, 0);
        if (s >= 0 || errno != EOPNOTSUPP)
            return close(s) ? 2 : 5;
    }
    static const long calls[] = {SYS_bpf,        SYS_perf_event_open, SYS_keyctl,
                                 SYS_userfaultfd, SYS_io_uring_setup,   SYS_unshare,    SYS_setns,           SYS_mount,
                                 SYS_pivot_root,  SYS_init_module,      SYS_kexec_load, SYS_open_by_handle_at,
                                 SYS_clone3,      SYS_settimeofday,     SYS_personality, SYS_add_key};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (syscall(calls[i], 0, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS)
            return 10 + (int)i;
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) != -1 || errno != ENOSYS)
        return 3;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t pid = fork();
    if (pid == 0) // what is needed still works, in children too
        _exit(execl("/usr/bin/env", "env", NULL));
    int status = 1;
    return s < 0 || waitpid(pid, &status, 0) != pid || status ? 4 : 0;
}

static void system_calls_that_nobody_needs_are_not_there(void **state)
{
    (void)state;
    assert_int_equal(in_jail(opts(), check_calls), 0);
}

static int kept[2];

static int check_descriptors(const struct ck_jail_report *r)
{
    if (!ck_jail_applied(r, CK_JAIL_DESCRIPTORS) || fcntl(kept[1], F_GETFD) < 0)
        return 1;
    for (int fd = 3; fd < 1024; fd++)
        if (fd != kept[1] && fcntl(fd, F_GETFD) != -1)
            return 2;
    return 0;
}

static void only_listed_descriptors_stay_open(void **state)
{
    (void)state;
    assert_int_equal(pipe(kept), 0);
    struct ck_jail_opts o = opts();
    o.keep = &kept[1];
    o.nkeep = 1;
    assert_int_equal(in_jail(o, check_descriptors), 0);
    close(kept[0]);
    close(kept[1]);
}

static int check_nothing(const struct ck_jail_report *r)
{
    (void)r;
    return 0;
}

static void a_required_step_that_is_switched_off_or_unavailable_stops_the_start(void **state)
{
    (void)state;
    struct ck_jail_opts o = opts();
    o.skip = CK_JAIL_BIT(CK_JAIL_NET_NS);
    assert_int_equal(in_jail(o, check_nothing), 0);
    o.required = CK_JAIL_BIT(CK_JAIL_NET_NS);
    assert_int_equal(in_jail(o, check_nothing), 100);
    o = opts();
    o.image_dir = "/nonexistent/image";
    o.required = CK_JAIL_BIT(CK_JAIL_MOUNT_NS);
    assert_int_equal(in_jail(o, check_nothing), 100);
}

static int check_no_view(const struct ck_jail_report *r)
{
    if (r->step[CK_JAIL_MOUNT_NS].result == CK_JAIL_APPLIED || !r->step[CK_JAIL_MOUNT_NS].reason[0])
        return 1;
    return can(session, "still-here") ? 0 : 2; // the session's folder is not left covered
}

static void a_view_that_cannot_be_built_is_reported_and_changes_nothing(void **state)
{
    (void)state;
    struct ck_jail_opts o = opts();
    o.image_dir = "/nonexistent/image";
    assert_int_equal(in_jail(o, check_no_view), 0);
}

static void the_probe_changes_nothing_of_the_caller(void **state)
{
    (void)state;
    struct ck_jail_opts o = opts();
    struct ck_jail_report r;
    struct stat before, after;
    struct ck_buf json = CK_BUF_INIT;
    stat(session, &before);
    uid_t uid = geteuid();
    assert_int_equal(ck_jail_probe(&o, &r, NULL), 0);
    stat(session, &after);
    assert_int_equal(before.st_uid, after.st_uid);
    assert_int_equal(geteuid(), uid);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(ck_jail_applied(&r, CK_JAIL_NO_NEW_PRIVS), 1);
    assert_int_equal(ck_jail_report_json(&r, &json), 0);
    assert_int_equal(ck_buf_add(&json, "", 1), 0);
    for (int i = 0; i < CK_JAIL_STEPS; i++) {
        assert_non_null(strstr((char *)json.p, ck_jail_step_name((enum ck_jail_step)i)));
        if (r.step[i].result < CK_JAIL_APPLIED)
            assert_true(r.step[i].reason[0] != 0); // never without a reason
    }
    ck_buf_free(&json);
}

// As after a proof of KVM, which has an event loop of its own: what the probe opens may get the numbers that the
// loop's descriptors had.
static void an_event_loop_before_the_probe_does_not_change_what_it_says(void **state)
{
    (void)state;
    struct ck_jail_opts o = opts();
    struct ck_jail_report without, with;
    uv_loop_t loop;
    assert_int_equal(ck_jail_probe(&o, &without, NULL), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(ck_jail_probe(&o, &with, NULL), 0);
    assert_string_equal(with.layers_reason, without.layers_reason);
    assert_int_equal(with.layers, without.layers);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void sessions_get_users_of_their_own(void **state)
{
    (void)state;
    uid_t a, b, c;
    gid_t g;
    ck_jail_session_ids("6b3f2a52-2c4f-4b0e-9d0c-1f0f9d6f5b11", &a, &g);
    ck_jail_session_ids("6b3f2a52-2c4f-4b0e-9d0c-1f0f9d6f5b12", &b, &g);
    ck_jail_session_ids("6b3f2a52-2c4f-4b0e-9d0c-1f0f9d6f5b11", &c, &g);
    assert_int_equal(a, c);
    assert_int_not_equal(a, b);
    assert_in_range(a, 0x70000000u, 0x7ffffff0u);
}

static void bad_descriptions_are_refused(void **state)
{
    (void)state;
    struct ck_jail_opts o = opts();
    struct ck_jail_report r;
    o.id = "../evil";
    assert_true(ck_jail_apply(&o, &r, NULL) < 0);
    o = opts();
    o.session_dir = "relative";
    assert_true(ck_jail_apply(&o, &r, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_what_is_needed_can_be_seen_and_only_the_session_written, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_of_the_process_is_left_to_abuse, setup, teardown),
        cmocka_unit_test_setup_teardown(system_calls_that_nobody_needs_are_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(only_listed_descriptors_stay_open, setup, teardown),
        cmocka_unit_test_setup_teardown(a_required_step_that_is_switched_off_or_unavailable_stops_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(a_view_that_cannot_be_built_is_reported_and_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_probe_changes_nothing_of_the_caller, setup, teardown),
        cmocka_unit_test_setup_teardown(an_event_loop_before_the_probe_does_not_change_what_it_says, setup, teardown),
        cmocka_unit_test(sessions_get_users_of_their_own),
        cmocka_unit_test(bad_descriptions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
