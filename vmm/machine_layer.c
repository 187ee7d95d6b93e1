// A layer into a machine that waits: its pages into QEMU's memory and its disks under the active one at
// the same time, then the device state, which looks at both. Must never let a VM run that has not
// become the layer's exactly: any failure ends it.
#include "vmm/layer_file.h"
#include "vmm/layer_ram.h"
#include "vmm/layer_sum.h"
#include "vmm/machine_int.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/blockdev.h"
#include "vmm/layer_qcow2.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct job {
    struct ck_machine_job job; // first
    struct ck_machine *m;
    uv_work_t work;
    struct ck_layer layer;
    pid_t pid;
    uint64_t ram_bytes;
    int template_ram; // borrowed from the machine
    char base[PATH_MAX];
    int64_t deadline;
    int state_fd; // owned: a copy in memory that has been checked
    int waiting;
    struct ck_err err, work_err;
    bool loaded; // the work came to its good end: nothing less counts
    ck_machine_cb cb;
    void *user;
};

static void job_free(struct job *j)
{
    ck_layer_close(&j->layer);
    if (j->state_fd >= 0)
        close(j->state_fd);
    free(j);
}

static void abandon(struct ck_machine *m)
{
    struct job *j = (struct job *)(void *)m->job;
    job_free(j);
    ck_machine_job_over(m);
}

// The end of the machine's operation, whatever it is; also when the machine has died.
static void on_over(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct job *j = user;
    ck_machine_cb cb = j->cb;
    void *u = j->user;
    struct ck_err why = err ? *err : (struct ck_err)CK_ERR_INIT; // may be the job's own
    job_free(j);
    ck_machine_job_over(m);
    cb(m, err ? &why : NULL, u);
    if (err && !m->closing) // the reason first, then the end
        ck_machine_end(m, "a layer could not be restored into it");
}

// ---- on the thread pool -----------------------------------------------------------------------

// The state is checked before QEMU reads it, and what was checked is what it reads.
static int check_state(struct job *j)
{
    char path[64];
    struct ck_layer_file is;
    const struct ck_layer_file *want = &j->layer.info.state;
    CK_CLEAN_FREE uint8_t *text = malloc(want->bytes); // bounded by layer.json's parser
    CK_CLEAN_FD int copy = memfd_create("cellkeep-state", MFD_CLOEXEC);
    if (!text || copy < 0)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
        return ck_fail(&j->work_err, 500, "no_memory", "no memory for a device state");
    if (pread(j->layer.state, text, want->bytes, 0) != (ssize_t)want->bytes || ck_write_all(copy, text, want->bytes))
        return ck_fail_errno(&j->work_err, errno, 422, "bad_layer", "the layer's device state cannot be read");
    if (ck_layer_sum_file(copy, j->deadline, &is, &j->work_err))
        return -1;
    if (is.bytes != want->bytes || strcmp(is.sum, want->sum) != 0)
        return ck_fail(&j->work_err, 422, "bad_layer", "the layer's device state is damaged: its checksum is another");
    snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
    j->state_fd = open(path, O_RDONLY | O_CLOEXEC);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    return j->state_fd < 0 ? ck_fail_errno(&j->work_err, errno, 500, "no_memory", "no memory for a device state") : 0;
}

static int check_disk_size(struct job *j)
{
    uint8_t head[CK_QCOW2_HEADER];
    uint64_t base;
    CK_CLEAN_FD int fd = open(j->base, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head || ck_qcow2_check(head, &base, NULL))
        return ck_fail(&j->work_err, 500, "bad_template", "the template's disk cannot be read");
    return base == j->layer.disk_size
               ? 0
               : ck_fail(&j->work_err, 422, "bad_layer", "the layer's disk has another size than its template's");
}

static void do_load(uv_work_t *w)
{
    struct job *j = w->data;
    struct ck_ram ram;
    j->loaded = !check_state(j) && !check_disk_size(j) &&
                !ck_ram_find(j->pid, j->template_ram, j->ram_bytes, &ram, &j->work_err) &&
                !ck_ram_apply(&ram, j->layer.ram, &j->layer.info.ram, j->deadline, &j->work_err);
}

// ---- the steps --------------------------------------------------------------------------------

static void both_done(struct job *j)
{
    struct ck_machine *m = j->m;
    if (--j->waiting)
        return;
    if (m->state == CK_MACHINE_QUITTING)
        return; // its exit ends the operation
    int fd = j->state_fd;
    if (!j->err.status) {
        j->state_fd = -1; // taken over
        ck_machine_load_state(m, fd, &j->err);
    }
    if (j->err.status)
        ck_machine_finish(m, &j->err);
}

static void on_loaded(uv_work_t *w, int status)
{
    struct job *j = w->data;
    struct ck_machine *m = j->m;
    (void)status;
    j->job.working = false;
    ck_machine_return(m);
    if (m->closing) {
        if (!m->proc.pid)
            abandon(m);
        return;
    }
    if (!j->loaded && !j->work_err.status)
        ck_fail(&j->work_err, 500, "bad_layer", "the layer could not be loaded");
    if (!j->loaded && !j->err.status)
        j->err = j->work_err;
    both_done(j);
}

static void on_disks(const struct ck_err *err, void *user)
{
    struct job *j = user;
    if (err && !j->err.status)
        j->err = *err;
    both_done(j);
}

// From the template's disk upward: each layer's disk over the one below, then the active one is opened
// again over all of them. Its own contents stay: it is empty.
static int send_disks(struct job *j, struct ck_err *err)
{
    struct ck_machine *m = j->m;
    struct ck_machine_disks *d = &m->disks;
    char node[CK_BLOCKDEV_NODE_MAX] = CK_BLOCKDEV_BASE, above[CK_BLOCKDEV_NODE_MAX], file[CK_BLOCKDEV_NODE_MAX];
    struct ck_qmp_script *s = ck_qmp_script_new(&m->scripts);
    d->n = j->layer.ndisk;
    for (int i = d->n; i--;) {
        int number = ++d->last, fd = j->layer.disk[i];
        j->layer.disk[i] = -1;
        d->below[i].node = number;
        memcpy(d->below[i].layer, i ? j->layer.info.below[i - 1] : j->layer.info.id, CK_UUID_MAX);
        ck_blockdev_node(number, above);
        ck_blockdev_fdset(number, file);
        ck_qmp_script_add(s, "add-fd", json_pack("{s:i}", "fdset-id", number), fd);
        ck_qmp_script_add(s, "blockdev-add", ck_blockdev_frozen(above, file, node), -1);
        memcpy(node, above, sizeof node);
    }
    json_t *active = ck_blockdev_active(CK_BLOCKDEV_TOP, d->first, node);
    ck_qmp_script_add(s, "blockdev-reopen", json_pack("{s:[o]}", "options", active), -1);
    for (int i = d->n; i--;) // QEMU has its own copies by now
        ck_qmp_script_add(s, "remove-fd", json_pack("{s:i}", "fdset-id", d->below[i].node), -1);
    return ck_qmp_script_run(s, m->qmp, m->command_ms, on_disks, j, err);
}

static int check(const struct ck_machine *m, const struct ck_layer *l, struct ck_err *err)
{
    if (!m->template)
        return ck_fail(err, 409, "vm_state", "this VM comes from no template and takes no layers");
    if (m->job || m->disks.n)
        return ck_fail(err, 409, "vm_busy", "the VM has a layer already");
    if (l->ram < 0 || l->state < 0 || l->ndisk < 1)
        return ck_fail(err, 422, "bad_layer", "the layer is not open");
    return ck_layer_check(&l->info, m->template, err);
}

static struct job *job_new(struct ck_machine *m, struct ck_layer *l, ck_machine_cb cb, void *user, struct ck_err *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j || ck_path(j->base, sizeof j->base, err, "%s/disk.qcow2", m->template->dir)) {
        free(j);
        ck_fail(err, 500, "no_memory", "no memory to restore a layer");
        return NULL;
    }
    j->job.abandon = abandon;
    j->m = m;
    j->layer = *l;
    *l = (struct ck_layer)CK_LAYER_INIT;
    j->state_fd = -1;
    j->pid = m->proc.pid;
    j->ram_bytes = ck_template_ram_bytes(m->template);
    j->template_ram = m->ram_fd;
    j->deadline = ck_mono_ms() + m->restore_ms;
    j->cb = cb;
    j->user = user;
    return j;
}

int ck_machine_restore_layer(struct ck_machine *m, struct ck_layer *l, ck_machine_cb cb, void *user, struct ck_err *err)
{
    struct job *j = check(m, l, err) ? NULL : job_new(m, l, cb, user, err);
    if (!j) {
        ck_layer_close(l);
        return -1;
    }
    if (ck_machine_begin(m, CK_MOP_RESTORE, on_over, j, err)) {
        job_free(j);
        return -1;
    }
    ck_machine_deadline(m, m->restore_ms, "it did not load the saved state in time");
    if (send_disks(j, err)) {
        job_free(j);
        ck_machine_give_up(m);
        ck_machine_end(m, "a layer could not be restored into it");
        return -1;
    }
    m->job = &j->job;
    j->waiting = 2;
    j->job.working = true;
    j->work.data = j;
    ck_machine_borrow(m);
    uv_queue_work(m->loop, &j->work, do_load, on_loaded);
    return 0;
}
