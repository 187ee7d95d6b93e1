// Building templates: boot, warm up, save, all in a temporary folder that is renamed at the very
// end. Must leave nothing that a later run would trust, and no QEMU, however it ends.
#include "vmm/template.h"
#include "vmm/template_int.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/accel.h"
#include "vmm/boot.h"
#include "vmm/cache.h"
#include "vmm/disk.h"
#include "vmm/host.h"
#include "vmm/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BOOT_TCG_MS (10 * 60 * 1000)
#define BOOT_KVM_MS (3 * 60 * 1000)
#define LOCK_WAIT_MS (15 * 60 * 1000)
#define SPARE_BYTES (256ull << 20) // for disk, state and the file system's own needs

struct job {
    const struct ck_template_opts *o;
    ck_progress_fn progress;
    void *user;
    struct ck_qemu qemu;
    struct ck_image image;
    struct ck_template t; // as it will be
    uint64_t disk_bytes;
    uint32_t tsc_khz;
    char cache[PATH_MAX], templates[PATH_MAX], tmp[PATH_MAX];
};

static void say(struct job *j, int percent, const char *text)
{
    if (j->progress)
        j->progress(percent, text, j->user);
}

// ---- signals: held back except where a loop watches them ----------------------------------------

static void stop_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

// Takes a pending one away. Waits at most ms for one.
static bool interrupted(int ms)
{
    sigset_t set;
    stop_set(&set);
    return sigtimedwait(&set, NULL, &(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}) > 0;
}

static int check_interrupted(struct ck_err *err)
{
    return interrupted(0) ? ck_fail(err, 499, "interrupted", "interrupted; nothing was kept") : 0;
}

// ---- the folders ------------------------------------------------------------------------------

// One builder a template; the lock goes with its process.
static int lock(struct job *j, int *out, struct ck_err *err)
{
    char path[PATH_MAX];
    if (ck_path(path, sizeof path, err, "%s/.lock-%s", j->templates, j->t.hash))
        return -1;
    CK_CLEAN_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", path);
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB); waited += 500) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return ck_fail_errno(err, errno, 500, "cannot_write", "cannot lock %s", path);
        if (waited == 0)
            say(j, -1, "another process builds this template; waiting for it");
        if (waited >= LOCK_WAIT_MS)
            return ck_fail(err, 504, "timeout", "another process still builds the template after 15 minutes (lock %s)", path);
        if (interrupted(500))
            return ck_fail(err, 499, "interrupted", "interrupted while waiting for another builder");
    }
    *out = ck_take_fd(&fd);
    return 0;
}

// What builders that died left behind; only under the lock.
static void sweep(struct job *j)
{
    char prefix[CK_HASH_MAX + 16], path[PATH_MAX];
    snprintf(prefix, sizeof prefix, ".tmp-%s.", j->t.hash);
    DIR *d = opendir(j->templates);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, prefix, strlen(prefix)) &&
            !ck_path(path, sizeof path, NULL, "%s/%s", j->templates, e->d_name))
            ck_remove_tree(path, NULL);
    if (d)
        closedir(d);
}

static int check_space(struct job *j, struct ck_err *err)
{
    uint64_t need = ((uint64_t)j->t.memory_mb << 20) + SPARE_BYTES, have = ck_host_disk_free(j->templates);
    if (have < need)
        return ck_fail(err, 507, "no_space", "%s has %llu MiB free, the template needs %llu MiB: free some or use another --cache-dir",
                       j->templates, (unsigned long long)(have >> 20), (unsigned long long)(need >> 20));
    return 0;
}

// ---- building ---------------------------------------------------------------------------------

static int make_ram_file(const char *path, uint64_t bytes, struct ck_err *err)
{
    CK_CLEAN_FD int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", path);
    return 0;
}

static int boot(struct job *j, struct ck_err *err)
{
    char ram[PATH_MAX], state[PATH_MAX], disk[PATH_MAX], kernel[PATH_MAX], initrd[PATH_MAX], root[PATH_MAX], append[1024];
    const char *dir = j->tmp, *image = j->image.dir;
    if (ck_path(ram, sizeof ram, err, "%s/ram", dir) || ck_path(state, sizeof state, err, "%s/state", dir) ||
        ck_path(disk, sizeof disk, err, "%s/disk.qcow2", dir) || ck_path(kernel, sizeof kernel, err, "%s/vmlinuz", image) ||
        ck_path(initrd, sizeof initrd, err, "%s/initrd", image) || ck_path(root, sizeof root, err, "%s/root.erofs", image) ||
        make_ram_file(ram, (uint64_t)j->t.memory_mb << 20, err) ||
        ck_boot_cmdline(j->t.accel, j->tsc_khz, "template", append, sizeof append, err))
        return -1;
    struct ck_vm_spec spec = {.use = CK_VM_TEMPLATE, .accel = j->t.accel, .qemu = j->qemu.path, .cpu = j->t.cpu,
                              .memory_mb = j->t.memory_mb, .kernel = kernel, .initrd = initrd, .append = append,
                              .root_image = root, .disk = disk, .ram_path = ram, .ram_fd = -1};
    struct ck_boot_opts b = {.spec = &spec,
                             .deadline_ms = j->t.accel == CK_ACCEL_TCG ? BOOT_TCG_MS : BOOT_KVM_MS,
                             .state_path = state,
                             .progress = j->progress,
                             .user = j->user};
    return ck_boot_run(&b, err);
}

static int file_size(const char *dir, const char *name, uint64_t *bytes, struct ck_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (ck_path(path, sizeof path, err, "%s/%s", dir, name))
        return -1;
    if (stat(path, &st) || st.st_size == 0)
        return ck_fail(err, 500, "bad_template", "QEMU did not write %s", path);
    *bytes = (uint64_t)st.st_size;
    return 0;
}

// Sessions of other uids read these; what QEMU made may have been made with any umask.
static int seal_files(struct job *j, struct ck_err *err)
{
    static const char *const names[] = {"ram", "state", "disk.qcow2", "blank.qcow2"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (ck_path(path, sizeof path, err, "%s/%s", j->tmp, names[i]))
            return -1;
        if (chmod(path, 0444))
            return ck_fail_errno(err, errno, 500, "cannot_write", "cannot protect %s", path);
        if (ck_disk_sync(path, err))
            return -1;
    }
    return 0;
}

static int fill(struct job *j, struct ck_err *err)
{
    char ram[PATH_MAX], backing[PATH_MAX];
    uint64_t kept = 0;
    say(j, -1, "making the disk");
    if (ck_path(ram, sizeof ram, err, "%s/ram", j->tmp) || ck_path(backing, sizeof backing, err, "%s/disk.qcow2", j->t.dir) ||
        ck_disk_make(j->tmp, j->disk_bytes, err) || check_interrupted(err))
        return -1;
    say(j, -1, j->t.accel == CK_ACCEL_TCG ? "booting the guest (one to five minutes under TCG, more on a busy host)" : "booting the guest");
    if (boot(j, err))
        return -1;
    if (ck_disk_punch_zeroes(ram, &kept, err) || ck_disk_make_blank(j->tmp, backing, j->disk_bytes, err) ||
        check_interrupted(err) || file_size(j->tmp, "state", &j->t.state_bytes, err) ||
        file_size(j->tmp, "disk.qcow2", &j->t.disk_file_bytes, err) ||
        file_size(j->tmp, "blank.qcow2", &j->t.blank_file_bytes, err) || seal_files(j, err))
        return -1;
    j->t.tsc_khz = j->t.accel == CK_ACCEL_TCG ? j->tsc_khz : 0;
    j->t.created_us = ck_wall_us();
    return ck_template_write_json(&j->t, j->tmp, err) || ck_disk_sync(j->tmp, err) ? -1 : 0;
}

// The new folder takes the place of what is there (an old or damaged template, if anything).
static int publish(struct job *j, struct ck_err *err)
{
    char old[PATH_MAX];
    if (ck_path(old, sizeof old, err, "%s/.tmp-%s.old", j->templates, j->t.hash))
        return -1;
    ck_remove_tree(old, NULL);
    if (rename(j->t.dir, old) && errno != ENOENT)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot replace %s", j->t.dir);
    if (rename(j->tmp, j->t.dir))
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", j->t.dir);
    ck_remove_tree(old, NULL);
    return ck_disk_sync(j->templates, err);
}

static int build_locked(struct job *j, struct ck_err *err)
{
    sweep(j);
    if (check_space(j, err) ||
        ck_path(j->tmp, sizeof j->tmp, err, "%s/.tmp-%s.%d", j->templates, j->t.hash, (int)getpid()))
        return -1;
    if (mkdir(j->tmp, 0755))
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", j->tmp);
    if (fill(j, err) || publish(j, err)) {
        ck_remove_tree(j->tmp, NULL);
        return ck_wrap(err, "the template was not built");
    }
    return 0;
}

// ---- ensure -----------------------------------------------------------------------------------

// 0 = a good one exists; 1 = none, or one that must be built again (said).
static int existing(struct job *j, struct ck_template *out)
{
    struct ck_err e = CK_ERR_INIT;
    if (access(j->t.dir, F_OK))
        return 1;
    if (ck_template_load(j->t.dir, j->image.dir, out, &e)) {
        say(j, -1, e.text);
        say(j, -1, "building it again");
        return 1;
    }
    // The guest was told the frequency of the time-stamp counter that it counts with under TCG.
    int64_t off = (int64_t)out->tsc_khz - (int64_t)j->tsc_khz;
    if (out->accel == CK_ACCEL_TCG && (off < 0 ? -off : off) > out->tsc_khz / 100) {
        say(j, -1, "this host's clock is another one than the template's host had; building it again");
        return 1;
    }
    return 0;
}

static int describe(struct job *j, const struct ck_accel_choice *choice, struct ck_err *err)
{
    struct ck_template *t = &j->t;
    t->accel = choice->accel;
    t->memory_mb = j->o->memory_mb ? j->o->memory_mb : CK_MEMORY_MB_DEFAULT;
    if (t->memory_mb < CK_MEMORY_MB_MIN || t->memory_mb > CK_MEMORY_MB_MAX)
        return ck_fail(err, 400, "bad_memory", "--memory-mb %u is not between %d and %d", t->memory_mb, CK_MEMORY_MB_MIN,
                       CK_MEMORY_MB_MAX);
    j->disk_bytes = j->o->disk_bytes ? j->o->disk_bytes : CK_DISK_BYTES_DEFAULT;
    snprintf(t->cpu, sizeof t->cpu, "%s", ck_accel_cpu(t->accel));
    snprintf(t->image, sizeof t->image, "%s", j->image.hash);
    snprintf(t->image_dir, sizeof t->image_dir, "%s", j->image.dir);
    snprintf(t->qemu, sizeof t->qemu, "%s", j->qemu.version);
    snprintf(t->qemu_path, sizeof t->qemu_path, "%s", j->qemu.path);
    char host_cpu[17] = "";
    if (t->accel == CK_ACCEL_KVM && ck_host_cpu_id(host_cpu, err))
        return -1;
    return ck_template_hash(t, j->disk_bytes, host_cpu, t->hash, err) ||
                   ck_path(t->dir, sizeof t->dir, err, "%s/%s", j->templates, t->hash)
               ? -1
               : 0;
}

static int prepare(struct job *j, struct ck_accel_choice *choice, struct ck_err *err)
{
    if (ck_mkdirs(j->o->cache_dir, 0755, err))
        return -1;
    if (!realpath(j->o->cache_dir, j->cache))
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot use the cache folder %s", j->o->cache_dir);
    if (ck_path(j->templates, sizeof j->templates, err, "%s/templates", j->cache) || ck_host_qemu(j->o->qemu, &j->qemu, err))
        return -1;
    int rc = j->o->image_dir ? ck_image_load(j->o->image_dir, &j->image, err) : ck_image_find(j->cache, &j->image, err);
    if (rc || ck_accel_choose(j->o->accel ? j->o->accel : "auto", j->cache, &j->qemu, &j->image, j->progress, j->user, choice, err))
        return -1;
    if (choice->accel == CK_ACCEL_TCG)
        j->tsc_khz = ck_host_tsc_khz(50);
    return describe(j, choice, err);
}

static int find(struct job *j, struct ck_template *out, struct ck_accel_choice *choice, struct ck_err *err)
{
    if (prepare(j, choice, err))
        return -1;
    if (access(j->t.dir, F_OK))
        return 1;
    return ck_template_load(j->t.dir, j->image.dir, out, err) || existing(j, out) ? 1 : 0;
}

static int ensure(struct job *j, struct ck_template *out, struct ck_accel_choice *choice, struct ck_err *err)
{
    CK_CLEAN_FD int lock_fd = -1, use_fd = -1;
    if (prepare(j, choice, err))
        return -1;
    ck_cache_lock(j->cache, false, &use_fd); // nothing is pruned while we look and build
    if (!j->o->rebuild && !existing(j, out)) {
        ck_cache_touch(out->dir, "template.json");
        return 0;
    }
    if (ck_mkdirs(j->templates, 0755, err) || lock(j, &lock_fd, err))
        return -1;
    struct ck_err quiet = CK_ERR_INIT; // another builder may have finished while we waited
    if (!j->o->rebuild && !ck_template_load(j->t.dir, j->image.dir, out, &quiet) && !existing(j, out))
        return 0;
    if (build_locked(j, err))
        return -1;
    return ck_template_load(j->t.dir, j->image.dir, out, err);
}

typedef int job_fn(struct job *j, struct ck_template *out, struct ck_accel_choice *choice, struct ck_err *err);

static int with_signals_held(job_fn *fn, const struct ck_template_opts *opts, ck_progress_fn progress, void *user,
                             struct ck_template *out, struct ck_accel_choice *choice, struct ck_err *err)
{
    CK_CLEAN_FREE struct job *j = calloc(1, sizeof *j);
    if (!j)
        return ck_fail(err, 500, "no_memory", "no memory to build a template");
    j->o = opts;
    j->progress = progress;
    j->user = user;
    *choice = (struct ck_accel_choice){CK_ACCEL_TCG, ""};
    sigset_t set, old;
    stop_set(&set);
    sigprocmask(SIG_BLOCK, &set, &old);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    int rc = fn(j, out, choice, err);
    if (rc && err && !strcmp(err->reason, "interrupted"))
        interrupted(0); // a second Ctrl-C must not kill us while we report the first
    sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}

int ck_template_ensure(const struct ck_template_opts *opts, ck_progress_fn progress, void *user, struct ck_template *out,
                       struct ck_accel_choice *choice, struct ck_err *err)
{
    return with_signals_held(ensure, opts, progress, user, out, choice, err);
}

int ck_template_find(const struct ck_template_opts *opts, ck_progress_fn progress, void *user, struct ck_template *out,
                     struct ck_accel_choice *choice, struct ck_err *err)
{
    return with_signals_held(find, opts, progress, user, out, choice, err);
}
