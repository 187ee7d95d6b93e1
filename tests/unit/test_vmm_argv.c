// The argument vector of QEMU: what must be there, what must never be, what is refused.
#include "vmm/argv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct ck_vm_spec session(void)
{
    struct ck_vm_spec s = {.use = CK_VM_SESSION, .accel = CK_ACCEL_TCG, .qemu = "/usr/bin/qemu-system-x86_64", .cpu = "max",
                           .memory_mb = 512, .root_image = "/c/images/1/root.erofs", .disk = "/s/1/disk.qcow2", .disk_base = "/c/t/disk.qcow2",
                           .ram_fd = 4, .qmp_fd = 3, .console_fd = -1};
    for (int i = 0; i < CK_VM_PORTS; i++)
        s.host_port[i] = (uint16_t)(40000 + i);
    return s;
}

static struct ck_vm_spec booting(enum ck_vm_use use)
{
    return (struct ck_vm_spec){.use = use, .accel = CK_ACCEL_KVM, .qemu = "/usr/bin/qemu", .cpu = "host", .memory_mb = 256,
                               .root_image = "/c/root", .disk = "/c/disk", .kernel = "/c/k", .initrd = "/c/i",
                               .append = "console=ttyS0", .ram_path = "/c/ram", .ram_fd = -1, .qmp_fd = 3, .console_fd = 4};
}

static const char *value(const struct ck_vm_argv *a, const char *name, const char *part)
{
    for (int i = 0; i + 1 < a->argc; i++)
        if (!strcmp(a->argv[i], name) && (!part || strstr(a->argv[i + 1], part)))
            return a->argv[i + 1];
    return NULL;
}

static int has(const struct ck_vm_argv *a, const char *word)
{
    for (int i = 0; i < a->argc; i++)
        if (!strcmp(a->argv[i], word))
            return 1;
    return 0;
}

static void a_session_waits_for_a_state_and_maps_memory_privately(void **state)
{
    (void)state;
    struct ck_vm_spec s = session();
    struct ck_vm_argv a;
    assert_int_equal(ck_vm_argv_build(&s, &a, NULL), 0);
    assert_null(a.argv[a.argc]);
    assert_string_equal(a.argv[0], "/usr/bin/qemu-system-x86_64");
    assert_string_equal(value(&a, "-object", "memory-backend"),
                        "memory-backend-file,id=ram,size=512M,mem-path=/proc/self/fd/4,share=off");
    assert_string_equal(value(&a, "-incoming", NULL), "defer");
    assert_true(has(&a, "-S"));
    assert_string_equal(value(&a, "-global", NULL), "migration.send-configuration=off");
    assert_string_equal(value(&a, "-chardev", "ringbuf"), "ringbuf,id=console,size=65536");
    assert_string_equal(value(&a, "-chardev", "qmp"), "socket,id=qmp,fd=3");
    assert_null(value(&a, "-kernel", NULL));
    assert_null(value(&a, "-append", NULL));
    ck_vm_argv_free(&a);
}

static void every_use_is_sandboxed_and_cut_off_from_networks(void **state)
{
    (void)state;
    struct ck_vm_spec specs[] = {session(), booting(CK_VM_TEMPLATE), booting(CK_VM_PROBE)};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct ck_vm_argv a;
        assert_int_equal(ck_vm_argv_build(&specs[i], &a, NULL), 0);
        assert_string_equal(value(&a, "-sandbox", NULL),
                            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
        assert_non_null(value(&a, "-netdev", "user,id=net,restrict=on"));
        assert_true(has(&a, "-nodefaults") && has(&a, "-no-user-config"));
        assert_string_equal(value(&a, "-display", NULL), "none");
        assert_non_null(value(&a, "-drive", "id=root,format=raw,readonly=on,"));
        ck_vm_argv_free(&a);
    }
}

static void all_six_ports_are_forwarded_from_loopback_only(void **state)
{
    (void)state;
    struct ck_vm_spec s = session();
    struct ck_vm_argv a;
    assert_int_equal(ck_vm_argv_build(&s, &a, NULL), 0);
    const char *net = value(&a, "-netdev", NULL);
    for (int i = 0; i < CK_VM_PORTS; i++) {
        char fwd[64];
        snprintf(fwd, sizeof fwd, "hostfwd=tcp:127.0.0.1:%d-:%d", 40000 + i, 5555 + i);
        assert_non_null(strstr(net, fwd));
    }
    ck_vm_argv_free(&a);
}

static void devices_of_session_and_template_are_the_same_in_the_same_order(void **state)
{
    (void)state;
    struct ck_vm_spec s = session(), t = booting(CK_VM_TEMPLATE);
    struct ck_vm_argv a, b;
    assert_int_equal(ck_vm_argv_build(&s, &a, NULL), 0);
    assert_int_equal(ck_vm_argv_build(&t, &b, NULL), 0);
    int j = 0, n = 0;
    for (int i = 0; i < a.argc; i++) {
        if (strcmp(a.argv[i], "-device") != 0)
            continue;
        while (j < b.argc && strcmp(b.argv[j], "-device") != 0)
            j++;
        assert_true(j + 1 < b.argc);
        assert_string_equal(a.argv[i + 1], b.argv[++j]);
        n++;
    }
    assert_int_equal(n, 4); // root, disk, net, rng
    for (; j < b.argc; j++)
        assert_string_not_equal(b.argv[j], "-device");
    ck_vm_argv_free(&a);
    ck_vm_argv_free(&b);
}

// An image's header is written by whoever breaks out of the guest: it must not choose what is opened.
static void a_session_s_disks_are_opened_by_our_word_alone(void **state)
{
    (void)state;
    struct ck_vm_spec s = session();
    struct ck_vm_argv a;
    assert_int_equal(ck_vm_argv_build(&s, &a, NULL), 0);
    assert_string_equal(value(&a, "-blockdev", "\"base\""),
                        "{\"driver\":\"qcow2\",\"node-name\":\"base\",\"read-only\":true,\"backing\":null,\"file\":{"
                        "\"driver\":\"file\",\"locking\":\"off\",\"filename\":\"/c/t/disk.qcow2\"}}");
    const char *disk = value(&a, "-blockdev", "\"node-name\":\"disk\"");
    assert_non_null(strstr(disk, "\"backing\":\"base\""));
    assert_non_null(strstr(disk, "\"filename\":\"/s/1/disk.qcow2\""));
    assert_null(value(&a, "-drive", "qcow2"));
    ck_vm_argv_free(&a);
    s.disk_base = NULL;
    assert_true(ck_vm_argv_build(&s, &a, NULL) < 0);
    ck_vm_argv_free(&a);
}

static void a_template_boots_with_its_memory_in_a_shared_file(void **state)
{
    (void)state;
    struct ck_vm_spec s = booting(CK_VM_TEMPLATE);
    struct ck_vm_argv a;
    assert_int_equal(ck_vm_argv_build(&s, &a, NULL), 0);
    assert_string_equal(value(&a, "-object", "memory-backend"), "memory-backend-file,id=ram,size=256M,mem-path=/c/ram,share=on");
    assert_string_equal(value(&a, "-kernel", NULL), "/c/k");
    assert_string_equal(value(&a, "-append", NULL), "console=ttyS0");
    assert_string_equal(value(&a, "-chardev", "console"), "socket,id=console,fd=4");
    assert_null(value(&a, "-incoming", NULL));
    assert_string_equal(value(&a, "-accel", NULL), "kvm");
    ck_vm_argv_free(&a);
}

static void a_probe_has_no_writable_disk(void **state)
{
    (void)state;
    struct ck_vm_spec s = booting(CK_VM_PROBE);
    struct ck_vm_argv a;
    s.disk = NULL;
    assert_int_equal(ck_vm_argv_build(&s, &a, NULL), 0);
    assert_null(value(&a, "-drive", "qcow2"));
    assert_null(value(&a, "-object", "memory-backend-file"));
    ck_vm_argv_free(&a);
}

static void refused(struct ck_vm_spec s, const char *reason)
{
    struct ck_vm_argv a;
    struct ck_err e = CK_ERR_INIT;
    assert_true(ck_vm_argv_build(&s, &a, &e) < 0);
    assert_string_equal(e.reason, reason);
    ck_vm_argv_free(&a);
}

static void paths_that_would_become_options_are_refused(void **state)
{
    (void)state;
    struct ck_vm_spec s = session();
    s.disk = "/s/a,file.locking=off/disk.qcow2";
    refused(s, "bad_path");
    s.disk = "/s/a\nb";
    refused(s, "bad_path");
    s.disk = "relative/disk.qcow2";
    refused(s, "bad_vm");
    s = session();
    s.cpu = "max -device evil";
    refused(s, "bad_vm");
}

static void descriptions_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    struct ck_vm_spec s = session();
    s.host_port[5] = 0;
    refused(s, "bad_vm");
    s = session();
    s.ram_fd = -1;
    refused(s, "bad_vm");
    s = session();
    s.memory_mb = 0;
    refused(s, "bad_vm");
    s = booting(CK_VM_TEMPLATE);
    s.append = NULL;
    refused(s, "bad_vm");
    s = booting(CK_VM_TEMPLATE);
    s.ram_path = NULL;
    refused(s, "bad_vm");
    char longpath[9000] = "/";
    memset(longpath + 1, 'x', sizeof longpath - 2);
    s = session();
    s.disk = longpath;
    refused(s, "bad_vm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_waits_for_a_state_and_maps_memory_privately),
        cmocka_unit_test(every_use_is_sandboxed_and_cut_off_from_networks),
        cmocka_unit_test(all_six_ports_are_forwarded_from_loopback_only),
        cmocka_unit_test(devices_of_session_and_template_are_the_same_in_the_same_order),
        cmocka_unit_test(a_session_s_disks_are_opened_by_our_word_alone),
        cmocka_unit_test(a_template_boots_with_its_memory_in_a_shared_file),
        cmocka_unit_test(a_probe_has_no_writable_disk),
        cmocka_unit_test(paths_that_would_become_options_are_refused),
        cmocka_unit_test(descriptions_that_do_not_add_up_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
