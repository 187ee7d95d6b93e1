// Finding out whether and how sessions can run here. Must change nothing that lasts (the accelerator's
// remembered answer apart) and must come to an end whatever is broken.
#include "vmm/doctor.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define FREE_MIN (1ull << 30) // below it a session's disk soon has nowhere to grow

static void check_folder(const char *path, struct ck_doctor_folder *f)
{
    char at[PATH_MAX];
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(at, sizeof at, "%s", path);
    while (access(at, F_OK)) { // not there yet: it will be made in the nearest parent that is
        char *slash = strrchr(at, '/');
        if (!slash || slash == at) {
            snprintf(at, sizeof at, "%s", slash ? "/" : ".");
            break;
        }
        *slash = 0;
    }
    struct stat st;
    f->usable = !stat(at, &st) && S_ISDIR(st.st_mode) && !access(at, W_OK | X_OK);
    f->free_bytes = ck_host_disk_free(at);
}

static uint64_t hard_limit(int what)
{
    struct rlimit r;
    return getrlimit(what, &r) || r.rlim_max == RLIM_INFINITY ? UINT64_MAX : r.rlim_max;
}

static uint64_t available_memory(uint64_t otherwise)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    const char *at = ck_read_file("/proc/meminfo", 65536, &b, NULL) ? NULL : strstr((char *)b.p, "MemAvailable:");
    if (!at)
        return otherwise;
    char *end;
    at += strlen("MemAvailable:");
    unsigned long long kib = strtoull(at, &end, 10);
    return end == at || kib > UINT64_MAX / 1024 ? otherwise : kib * 1024;
}

static void check_host(struct ck_doctor *d)
{
    struct sysinfo si;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (!sysinfo(&si)) {
        d->memory_total = (uint64_t)si.totalram * si.mem_unit;
        d->memory_available = available_memory((uint64_t)si.freeram * si.mem_unit);
    }
    d->nofile = hard_limit(RLIMIT_NOFILE);
    d->nproc = hard_limit(RLIMIT_NPROC);
    d->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    d->ptrace_scope =
        ck_read_file("/proc/sys/kernel/yama/ptrace_scope", 16, &b, NULL) ? -1 : (int)strtol((char *)b.p, NULL, 10);
}

static void check_jail(struct ck_doctor *d)
{
    const char *session = !access(d->state.path, W_OK) ? d->state.path : "/tmp";
    const char *cache = !access(d->cache.path, X_OK) ? d->cache.path : "/usr";
    struct ck_jail_opts o = {.id = "doctor",
                             .session_dir = session,
                             .template_dir = d->have_template ? d->t.dir : cache,
                             .image_dir = d->have_template ? d->t.image_dir : cache,
                             .kvm = d->accel.accel == CK_ACCEL_KVM};
    ck_jail_probe(&o, &d->jail, &d->jail_err);
}

static void measure_template(struct ck_doctor *d)
{
    static const char *const names[] = {"ram", "state", "disk.qcow2", "blank.qcow2"};
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!ck_path(path, sizeof path, NULL, "%s/%s", d->t.dir, names[i]) && !stat(path, &st))
            d->ram_disk_bytes += (uint64_t)st.st_blocks * 512;
}

static void check_template(const struct ck_cmd_opts *o, ck_progress_fn progress, void *user, struct ck_doctor *d)
{
    struct ck_template_opts to = {.cache_dir = o->cache_dir, .image_dir = o->image, .qemu = o->qemu, .accel = o->accel,
                                  .memory_mb = o->memory_mb};
    int rc = ck_template_find(&to, progress, user, &d->t, &d->accel, &d->template_err);
    d->accel_known = rc >= 0;
    d->have_template = rc == 0;
    if (rc == 0)
        measure_template(d);
    else if (!d->template_err.status)
        ck_fail(&d->template_err, 500, "no_template", "there is none for this image, QEMU, accelerator and memory size");
}

// The first thing that stands in the way, with its cure. A cure names the folders that were asked for.
static void conclude(const struct ck_cmd_opts *o, struct ck_doctor *d)
{
    char where[PATH_MAX + 32] = "";
    if (o->cache_given)
        snprintf(where, sizeof where, " --cache-dir %s", o->cache_dir);
    if (d->qemu_err.status)
        snprintf(d->fix, sizeof d->fix, "%s", d->qemu_err.text);
    else if (d->image_err.status)
        snprintf(d->fix, sizeof d->fix, "no usable guest image: run `cellkeep image build%.300s`", where);
    else if (!d->accel_known)
        snprintf(d->fix, sizeof d->fix, "%s", d->template_err.text);
    else if (!d->have_template)
        snprintf(d->fix, sizeof d->fix, "no usable template: run `cellkeep template build%.300s`", where);
    else if (!d->state.usable)
        snprintf(d->fix, sizeof d->fix, "the state folder %.300s is not writable: run with --state-dir DIR", o->state_dir);
    else if (d->state.free_bytes < FREE_MIN)
        snprintf(d->fix, sizeof d->fix, "the state folder %.300s has less than 1 GiB free: free some", o->state_dir);
    d->ok = !d->fix[0];
}

void ck_doctor_run(const struct ck_cmd_opts *o, ck_progress_fn progress, void *user, struct ck_doctor *d)
{
    *d = (struct ck_doctor){.ok = false};
    check_folder(o->state_dir, &d->state);
    check_folder(o->cache_dir, &d->cache);
    check_host(d);
    int qemu = ck_host_qemu(o->qemu, &d->qemu, &d->qemu_err);
    int image = o->image ? ck_image_load(o->image, &d->image, &d->image_err)
                         : ck_image_find(o->cache_dir, &d->image, &d->image_err);
    if (!qemu && !image)
        check_template(o, progress, user, d);
    check_jail(d);
    conclude(o, d);
}
