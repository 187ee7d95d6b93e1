// QEMU's argument vector from a description of a VM. Pure. Must never put a byte into an option that
// QEMU's option syntax would read as another option: a path with a comma is refused, not escaped.
#include "vmm/argv.h"
#include "vmm/blockdev.h"

#include "common/ck_clean.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARG_MAX_BYTES 8192

static const char *const accel_names[] = {[CK_ACCEL_TCG] = "tcg", [CK_ACCEL_KVM] = "kvm"};
static_assert(sizeof accel_names / sizeof *accel_names == CK_ACCEL_KVM + 1, "every accelerator has a name");

const char *ck_vm_accel_name(enum ck_vm_accel accel) { return accel_names[accel]; }

bool ck_vm_accel_from_name(const char *name, enum ck_vm_accel *out)
{
    for (unsigned i = 0; i < sizeof accel_names / sizeof *accel_names; i++)
        if (!strcmp(name, accel_names[i])) {
            *out = (enum ck_vm_accel)i;
            return true;
        }
    return false;
}

void ck_vm_argv_free(struct ck_vm_argv *a)
{
    for (int i = 0; i < a->argc; i++)
        free(a->argv[i]);
    *a = (struct ck_vm_argv){.argc = 0};
}

// The builder: an error sticks, so that the layout below reads as a list.
struct build {
    struct ck_vm_argv *out;
    struct ck_err *err;
    int rc;
};

static void add(struct build *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct build *b, const char *fmt, ...)
{
    if (b->rc)
        return;
    char text[ARG_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = n >= 0 && (size_t)n < sizeof text && b->out->argc < CK_VM_ARGV_MAX ? strdup(text) : NULL;
    if (!copy) {
        b->rc = ck_fail(b->err, 500, "bad_vm", "QEMU's command line is too long");
        return;
    }
    b->out->argv[b->out->argc++] = copy;
    b->out->argv[b->out->argc] = NULL;
}

static void opt(struct build *b, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void opt(struct build *b, const char *name, const char *fmt, ...)
{
    char text[ARG_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!b->rc && (n < 0 || (size_t)n >= sizeof text))
        b->rc = ck_fail(b->err, 500, "bad_vm", "QEMU option %s is too long", name);
    add(b, "%s", name);
    add(b, "%s", text);
}

static int check_path(const char *what, const char *path, struct ck_err *err)
{
    if (!path || path[0] != '/')
        return ck_fail(err, 500, "bad_vm", "the path of the %s must be absolute", what);
    for (const char *s = path; *s; s++)
        if (*s == ',' || (unsigned char)*s < 0x20 || *s == 0x7f)
            return ck_fail(err, 500, "bad_path",
                           "the path of the %s has a comma or a control character, which QEMU's options cannot carry: "
                           "choose another --cache-dir or --state-dir",
                           what);
    return 0;
}

static int check_word(const char *what, const char *text, struct ck_err *err)
{
    if (!text || !*text || text[strcspn(text, " \t\r\n")])
        return ck_fail(err, 500, "bad_vm", "the %s is not one word", what);
    return 0;
}

static int check(const struct ck_vm_spec *s, struct ck_err *err)
{
    if (check_path("QEMU executable", s->qemu, err) || check_word("CPU model", s->cpu, err) ||
        check_path("root image", s->root_image, err))
        return -1;
    if (s->memory_mb < 64 || s->memory_mb > 1024 * 1024)
        return ck_fail(err, 500, "bad_vm", "memory of %u MiB", s->memory_mb);
    if (s->qmp_fd < 3)
        return ck_fail(err, 500, "bad_vm", "the QMP descriptor must be 3 or more");
    if (s->use != CK_VM_PROBE && check_path("disk", s->disk, err))
        return -1;
    if (s->use == CK_VM_SESSION && check_path("template's disk", s->disk_base, err))
        return -1;
    if (s->use == CK_VM_TEMPLATE && check_path("memory file", s->ram_path, err))
        return -1;
    if (s->use == CK_VM_SESSION && s->ram_fd < 3)
        return ck_fail(err, 500, "bad_vm", "the memory descriptor must be 3 or more");
    if (s->use == CK_VM_SESSION)
        for (int i = 0; i < CK_VM_PORTS; i++)
            if (!s->host_port[i])
                return ck_fail(err, 500, "bad_vm", "no host port for guest port %d", CK_VM_PORT_FIRST + i);
    if (s->use == CK_VM_SESSION)
        return 0;
    if (s->console_fd < 3 || !s->append)
        return ck_fail(err, 500, "bad_vm", "a booting VM needs a console and a kernel command line");
    return check_path("kernel", s->kernel, err) || check_path("initrd", s->initrd, err) ? -1 : 0;
}

static void add_machine(struct build *b, const struct ck_vm_spec *s)
{
    add(b, "%s", s->qemu);
    opt(b, "-name", "cellkeep");
    // No PIT and no PIC: timers are the LAPIC's and interrupts the I/O APIC's, found through ACPI.
    opt(b, "-M", "microvm,x-option-roms=off,acpi=on,isa-serial=on,rtc=on,pit=off,pic=off,suppress-vmdesc=on,"
                 "memory-backend=ram");
    if (s->accel == CK_ACCEL_TCG) // QEMU's own default lets translated code grow to 1 GiB a session
        opt(b, "-accel", "tcg,tb-size=%d", CK_VM_TRANSLATED_MIB);
    else
        opt(b, "-accel", "kvm");
    if (s->use == CK_VM_TEMPLATE)
        opt(b, "-object", "memory-backend-file,id=ram,size=%uM,mem-path=%s,share=on", s->memory_mb, s->ram_path);
    else if (s->use == CK_VM_SESSION) // copy on write over memory that all sessions of the template share
        opt(b, "-object", "memory-backend-file,id=ram,size=%uM,mem-path=/proc/self/fd/%d,share=off", s->memory_mb,
            s->ram_fd);
    else
        opt(b, "-object", "memory-backend-ram,id=ram,size=%uM", s->memory_mb);
    opt(b, "-m", "%uM", s->memory_mb);
    opt(b, "-cpu", "%s", s->cpu);
    opt(b, "-smp", "1");
    add(b, "-nodefaults");
    add(b, "-no-user-config");
    add(b, "-no-reboot"); // a guest that reboots has ended
    opt(b, "-display", "none");
    opt(b, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    // The state of xen-save-devices-state has no configuration section.
    opt(b, "-global", "migration.send-configuration=off");
}

static void add_channels(struct build *b, const struct ck_vm_spec *s)
{
    opt(b, "-chardev", "socket,id=qmp,fd=%d", s->qmp_fd);
    opt(b, "-mon", "chardev=qmp,mode=control");
    if (s->use == CK_VM_SESSION) // bounded whatever the guest prints
        opt(b, "-chardev", "ringbuf,id=console,size=%d", CK_VM_CONSOLE_RING);
    else
        opt(b, "-chardev", "socket,id=console,fd=%d", s->console_fd);
    opt(b, "-serial", "chardev:console");
}

static void node(struct build *b, json_t *description)
{
    CK_CLEAN_JSON json_t *j = description;
    CK_CLEAN_FREE char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    if (!text && !b->rc)
        b->rc = ck_fail(b->err, 500, "no_memory", "no memory for QEMU's command line");
    else
        opt(b, "-blockdev", "%s", text ? text : "");
}

// Errors are reported to the guest instead of stopping the VM: a full host disk is an I/O error in
// the guest, not a session that hangs.
static void add_disks(struct build *b, const struct ck_vm_spec *s)
{
    opt(b, "-drive", "if=none,id=root,format=raw,readonly=on,file=%s", s->root_image);
    opt(b, "-device", "virtio-blk-device,drive=root,serial=root,rerror=report,werror=report");
    if (s->use == CK_VM_PROBE)
        return;
    if (s->use == CK_VM_SESSION) { // nodes with names: layers are put between them
        node(b, ck_blockdev_frozen(CK_BLOCKDEV_BASE, s->disk_base, NULL));
        node(b, ck_blockdev_active(CK_BLOCKDEV_TOP, s->disk, CK_BLOCKDEV_BASE));
    } else {
        opt(b, "-drive", "if=none,id=disk,format=qcow2,discard=unmap,file=%s", s->disk);
    }
    opt(b, "-device", "virtio-blk-device,drive=disk,serial=disk,rerror=report,werror=report");
}

static void add_net(struct build *b, const struct ck_vm_spec *s)
{
    char fwd[CK_VM_PORTS * 64] = "";
    size_t n = 0;
    for (int i = 0; i < CK_VM_PORTS && s->host_port[i]; i++)
        n += (size_t)snprintf(fwd + n, sizeof fwd - n, ",hostfwd=tcp:127.0.0.1:%u-:%d", (unsigned)s->host_port[i],
                              CK_VM_PORT_FIRST + i);
    opt(b, "-netdev", "user,id=net,restrict=on,ipv6=off%s", fwd); // restrict: no host, no LAN, no DNS
    opt(b, "-device", "virtio-net-device,netdev=net,mac=52:54:00:12:34:56");
    opt(b, "-object", "rng-random,id=rng,filename=/dev/urandom");
    opt(b, "-device", "virtio-rng-device,rng=rng");
}

int ck_vm_argv_build(const struct ck_vm_spec *spec, struct ck_vm_argv *out, struct ck_err *err)
{
    *out = (struct ck_vm_argv){.argc = 0};
    if (check(spec, err))
        return -1;
    struct build b = {out, err, 0};
    add_machine(&b, spec);
    add_channels(&b, spec);
    add_disks(&b, spec);
    add_net(&b, spec);
    if (spec->use == CK_VM_SESSION) {
        opt(&b, "-incoming", "defer");
        add(&b, "-S"); // loaded is not yet running: the owner says when
    } else {
        opt(&b, "-kernel", "%s", spec->kernel);
        opt(&b, "-initrd", "%s", spec->initrd);
        opt(&b, "-append", "%s", spec->append);
    }
    return b.rc;
}
