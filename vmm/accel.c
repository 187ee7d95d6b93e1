// The accelerator probe. A /dev/kvm that exists proves nothing: on some hosts the guest's kernel
// crawls and never comes up. So the real guest is booted, to the agent's hello, under a deadline.
#include "vmm/accel.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "vmm/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CACHE_MAX 8192

// TCG: x86-64-v2 and no more. Emulated AVX and `rep movsb` (ERMS) are slower than the SSE code that
// libraries choose without them (matrix products by a third, measured with QEMU 7.2). But `arat`: without
// it Linux takes the timer of the local APIC for one that stops in deep sleep, finds no other on this
// machine, and ticks 250 times a second for ever, also when idle.
const char *ck_accel_cpu(enum ck_vm_accel accel) { return accel == CK_ACCEL_KVM ? "host" : "Nehalem,+rdrand,+arat"; }

// 0 = worth a proof; 1 = reason says why not.
static int kvm_device(char *reason, size_t room)
{
    CK_CLEAN_FD int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        snprintf(reason, room, "this host has no /dev/kvm");
    else if (fd < 0 && (errno == EACCES || errno == EPERM))
        snprintf(reason, room, "no permission on /dev/kvm: add the user to its group (usually `usermod -aG kvm USER`)");
    else if (fd < 0)
        snprintf(reason, room, "/dev/kvm cannot be opened: %s", strerror(errno));
    else if (ioctl(fd, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
        snprintf(reason, room, "/dev/kvm speaks another version than %d", KVM_API_VERSION);
    else
        return 0;
    return 1;
}

// Boots the guest under KVM. 0 = proved; 1 = reason says why not; -1 = interrupted.
static int kvm_proof(const struct ck_qemu *qemu, const struct ck_image *image, char *reason, size_t room,
                     struct ck_err *err)
{
    char kernel[PATH_MAX], initrd[PATH_MAX], root[PATH_MAX], append[1024];
    struct ck_err e = CK_ERR_INIT;
    if (ck_path(kernel, sizeof kernel, err, "%s/vmlinuz", image->dir) ||
        ck_path(initrd, sizeof initrd, err, "%s/initrd", image->dir) ||
        ck_path(root, sizeof root, err, "%s/root.erofs", image->dir) ||
        ck_boot_cmdline(CK_ACCEL_KVM, 0, "probe", append, sizeof append, err))
        return -1;
    struct ck_vm_spec spec = {.use = CK_VM_PROBE, .accel = CK_ACCEL_KVM, .qemu = qemu->path,
                              .cpu = ck_accel_cpu(CK_ACCEL_KVM), .memory_mb = CK_MEMORY_MB_MIN, .kernel = kernel,
                              .initrd = initrd, .append = append, .root_image = root};
    struct ck_boot_opts boot = {.spec = &spec, .deadline_ms = CK_ACCEL_PROBE_MS};
    int64_t t0 = ck_mono_ms();
    if (!ck_boot_run(&boot, &e)) {
        snprintf(reason, room, "KVM proved itself: the guest booted to the agent's hello in %lld ms",
                 (long long)(ck_mono_ms() - t0));
        return 0;
    }
    if (!strcmp(e.reason, "interrupted")) {
        if (err)
            *err = e;
        return -1;
    }
    snprintf(reason, room, "/dev/kvm is there but did not prove itself: %.170s", e.text);
    return 1;
}

// What an answer is remembered for.
static int cache_key(const struct ck_qemu *qemu, const struct ck_image *image, char *out, size_t room, struct ck_err *err)
{
    char boot_id[40];
    if (ck_host_boot_id(boot_id, err))
        return -1;
    return ck_path(out, room, err, "%s|%s|%s|%d", boot_id, qemu->version, image->hash, CK_VM_LAYOUT_VERSION);
}

// 0/1 as kvm_proof, -1 = nothing usable remembered.
static int recall(const char *path, const char *key, char *reason, size_t room)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_read_file(path, CACHE_MAX, &b, NULL))
        return -1;
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(b.p, b.n, false, NULL);
    if (!j || strcmp(ck_json_str(j, "key", "", NULL), key))
        return -1;
    snprintf(reason, room, "%s", ck_json_str(j, "reason", "", NULL));
    return ck_json_bool(j, "kvm", false, NULL) ? 0 : 1;
}

static void remember(const char *path, const char *key, bool kvm, const char *reason)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    struct ck_err e = CK_ERR_INIT;
    CK_CLEAN_JSON json_t *j = json_pack("{s:s, s:b, s:s}", "key", key, "kvm", kvm, "reason", reason);
    if (!j || ck_json_dump(j, &b) || ck_write_file_atomic(path, b.p, b.n, 0644, &e))
        ck_log(CK_LOG_WARN, "vmm", "accel_not_remembered reason=\"%s\"", e.text);
}

static int prove(const char *cache_dir, const struct ck_qemu *qemu, const struct ck_image *image,
                 ck_progress_fn progress, void *user, struct ck_accel_choice *out, struct ck_err *err)
{
    char path[PATH_MAX], key[512];
    if (kvm_device(out->reason, sizeof out->reason))
        return 1;
    if (ck_path(path, sizeof path, err, "%s/accel.json", cache_dir) || cache_key(qemu, image, key, sizeof key, err))
        return -1;
    int rc = recall(path, key, out->reason, sizeof out->reason);
    if (rc >= 0)
        return rc;
    if (progress)
        progress(-1, "proving KVM by booting the guest (at most 20 s, once per boot of this host)", user);
    rc = kvm_proof(qemu, image, out->reason, sizeof out->reason, err);
    if (rc >= 0)
        remember(path, key, rc == 0, out->reason);
    return rc;
}

int ck_accel_choose(const char *wanted, const char *cache_dir, const struct ck_qemu *qemu, const struct ck_image *image,
                    ck_progress_fn progress, void *user, struct ck_accel_choice *out, struct ck_err *err)
{
    *out = (struct ck_accel_choice){CK_ACCEL_TCG, ""};
    bool force = !strcmp(wanted, "kvm");
    if (!strcmp(wanted, "tcg")) {
        snprintf(out->reason, sizeof out->reason, "TCG was asked for");
        return 0;
    }
    if (!force && strcmp(wanted, "auto"))
        return ck_fail(err, 400, "bad_accel", "accelerator \"%.32s\" is not one of auto, kvm, tcg", wanted);
    int rc = prove(cache_dir, qemu, image, progress, user, out, err);
    if (rc < 0)
        return -1;
    if (rc == 0)
        out->accel = CK_ACCEL_KVM;
    else if (force)
        return ck_fail(err, 500, "no_kvm", "KVM was asked for, but %.300s: use --accel auto or tcg", out->reason);
    return 0;
}
