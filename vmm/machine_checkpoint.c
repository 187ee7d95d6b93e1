// A layer out of a machine, step by step: (merge) -> prepare -> next disk known to QEMU -> stop ->
// device state and pages at once -> snapshot of the disk -> cont -> write. Whatever fails between stop and
// cont, the VM is continued; one that cannot be is ended. The disk is switched last, when nothing
// before it can fail any more: a switched disk without a layer is one that must be merged.
#include "vmm/checkpoint.h"
#include "vmm/layer_file.h"

#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "vmm/blockdev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL_MS 120000

static struct ck_checkpoint_job *job_of(struct ck_machine *m) { return (struct ck_checkpoint_job *)(void *)m->job; }

static void note(struct ck_checkpoint_job *j, const struct ck_err *err)
{
    if (err && !j->err.status)
        j->err = *err;
}

// ---- the end ----------------------------------------------------------------------------------

static void do_clean(uv_work_t *w) { ck_checkpoint_clean(w->data); }

static void on_clean(uv_work_t *w, int status)
{
    struct ck_checkpoint_job *j = w->data;
    struct ck_machine *m = j->m;
    (void)status;
    bool tell = !m->closing;
    ck_machine_job_over(m); // the next one may begin from inside done
    if (tell)
        j->done(j->err.status ? NULL : &j->made, j->err.status ? &j->err : NULL, j->user);
    free(j);
}

static void work(struct ck_checkpoint_job *j, uv_work_cb fn, uv_after_work_cb after)
{
    j->job.working = true;
    j->work.data = j;
    uv_queue_work(j->m->loop, &j->work, fn, after);
}

static void clean(struct ck_checkpoint_job *j) { work(j, do_clean, on_clean); }

static void abandon(struct ck_machine *m)
{
    struct ck_checkpoint_job *j = job_of(m);
    if (!j->err.status)
        ck_fail(&j->err, 502, "vm_died", "the machine was closed");
    clean(j);
}

// Back from the thread pool. false = the machine is being closed, and the job with it.
static bool back(struct ck_checkpoint_job *j, bool borrowed)
{
    struct ck_machine *m = j->m;
    j->job.working = false;
    if (!j->work_done && !j->work_err.status)
        ck_fail(&j->work_err, 500, "checkpoint_failed", "the layer could not be made");
    note(j, j->work_done ? NULL : &j->work_err);
    if (borrowed)
        ck_machine_return(m);
    if (!m->closing)
        return true;
    if (!m->proc.pid) // else its exit is near and abandons the job
        abandon(m);
    return false;
}

// A layer that failed after the disk was switched: the frozen disk has no name any more.
static void orphan(struct ck_checkpoint_job *j)
{
    struct ck_machine_disks *d = &j->m->disks;
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->below[i].layer, j->made.info.id))
            d->below[i].layer[0] = 0;
}

static void do_write(uv_work_t *w)
{
    struct ck_checkpoint_job *j = w->data;
    j->work_done = !ck_checkpoint_write(j);
}

static void on_written(uv_work_t *w, int status)
{
    struct ck_checkpoint_job *j = w->data;
    (void)status;
    if (!back(j, false))
        return;
    if (j->err.status)
        orphan(j);
    ck_log(j->err.status ? CK_LOG_WARN : CK_LOG_INFO, "vmm",
           "checkpoint layer=%s private_pages=%llu stall_us=%lld total_us=%lld reason=%s", j->made.info.id,
           (unsigned long long)j->made.private_pages, (long long)j->made.stall_us,
           (long long)(ck_mono_us() - j->begun_us), j->err.status ? j->err.reason : "ok");
    j->written = true;
    if (!j->tidying)
        clean(j);
}

static void tidied(struct ck_checkpoint_job *j)
{
    j->tidying = false;
    if (j->written && !j->job.working)
        clean(j);
}

static void gone(struct ck_machine *m)
{
    struct ck_checkpoint_job *j = job_of(m);
    if (j->tidying)
        tidied(j);
}

static void on_tidied(const struct ck_err *err, void *user)
{
    (void)err; // what QEMU still holds then, whoever seals the layer will see
    tidied(user);
}

// ---- the VM goes on ---------------------------------------------------------------------------

// Sets that have done their work, and what was meant for a layer that is not to be.
static void tidy_qemu(struct ck_checkpoint_job *j, int frozen_node)
{
    struct ck_machine *m = j->m;
    char node[CK_BLOCKDEV_NODE_MAX];
    struct ck_qmp_script *s = ck_qmp_script_new(&m->scripts);
    if (j->snapshotted) {
        if (frozen_node) // its descriptor for writing, above all
            ck_qmp_script_add(s, "remove-fd", json_pack("{s:i}", "fdset-id", frozen_node), -1);
    } else {
        ck_blockdev_node(j->node, node);
        ck_qmp_script_add(s, "blockdev-del", json_pack("{s:s}", "node-name", node), -1);
        ck_qmp_script_add(s, "remove-fd", json_pack("{s:i}", "fdset-id", j->node), -1);
    }
    ck_qmp_script_add(s, "remove-fd", json_pack("{s:i}", "fdset-id", j->state_set), -1);
    j->tidying = !ck_qmp_script_run(s, m->qmp, m->command_ms, on_tidied, j, NULL);
}

// The machine's operation is over: it goes on, stays stopped as wished, or has died.
static void on_over(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct ck_checkpoint_job *j = user;
    note(j, err);
    if (j->frozen)
        j->frozen(m, err, j->user);
    if (m->closing) // in there: the job is abandoned, now or when the process is gone
        return;
    if (j->err.status && j->snapshotted)
        orphan(j);
    if (!j->err.status) {
        work(j, do_write, on_written);
        return;
    }
    j->written = true; // there is nothing to write
    if (!j->tidying)
        clean(j);
}

static void over(struct ck_checkpoint_job *j)
{
    struct ck_machine *m = j->m;
    j->made.stall_us = j->stopped_us ? ck_mono_us() - j->stopped_us : 0;
    if (j->node && m->qmp && (!j->stay || j->err.status))
        tidy_qemu(j, j->snapshotted ? m->disks.below[0].node : 0);
    ck_machine_finish(m, j->err.status ? &j->err : NULL);
}

static void on_cont(json_t *ret, const struct ck_err *err, void *user)
{
    struct ck_checkpoint_job *j = user;
    (void)ret;
    if (err) {
        ck_machine_dying(j->m, "it did not go on after a checkpoint"); // its exit ends the operation
        return;
    }
    ck_machine_next(&j->m->state, CK_MEV_RESUMED);
    over(j);
}

static void go_on(struct ck_checkpoint_job *j)
{
    struct ck_machine *m = j->m;
    if (!j->was_running || !j->stopped_us || (j->stay && !j->err.status))
        over(j);
    else if (ck_qmp_command(m->qmp, "cont", NULL, -1, m->command_ms, on_cont, j, NULL))
        ck_machine_dying(m, "it could not go on after a checkpoint");
}

// ---- the VM stands still ----------------------------------------------------------------------

static void on_snapshot(json_t *ret, const struct ck_err *err, void *user)
{
    struct ck_checkpoint_job *j = user;
    struct ck_machine_disks *d = &j->m->disks;
    (void)ret;
    note(j, err);
    if (!err) {
        j->snapshotted = true;
        memmove(d->below + 1, d->below, (size_t)d->n * sizeof *d->below); // n < CK_LAYER_DISKS_MAX: merged before
        d->n++;
        d->below[0].node = d->node;
        memcpy(d->below[0].layer, j->made.info.id, sizeof d->below[0].layer);
        d->node = j->node;
    }
    go_on(j);
}

static void both_done(struct ck_checkpoint_job *j)
{
    struct ck_machine *m = j->m;
    char now[CK_BLOCKDEV_NODE_MAX], next[CK_BLOCKDEV_NODE_MAX];
    if (--j->waiting)
        return;
    ck_blockdev_node(m->disks.node, now);
    ck_blockdev_node(j->node, next);
    if (j->err.status ||
        ck_qmp_command(m->qmp, "blockdev-snapshot", json_pack("{s:s, s:s}", "node", now, "overlay", next), -1,
                       m->command_ms, on_snapshot, j, &j->err))
        go_on(j);
}

static void on_state(json_t *ret, const struct ck_err *err, void *user)
{
    struct ck_checkpoint_job *j = user;
    (void)ret;
    note(j, err);
    both_done(j);
}

static void do_copy(uv_work_t *w)
{
    struct ck_checkpoint_job *j = w->data;
    j->work_done = !ck_checkpoint_copy(j);
}

static void on_copied(uv_work_t *w, int status)
{
    struct ck_checkpoint_job *j = w->data;
    (void)status;
    if (back(j, true))
        both_done(j);
}

static void on_stopped(json_t *ret, const struct ck_err *err, void *user)
{
    struct ck_checkpoint_job *j = user;
    struct ck_machine *m = j->m;
    char file[CK_BLOCKDEV_NODE_MAX];
    (void)ret;
    note(j, err);
    if (err) {
        go_on(j);
        return;
    }
    ck_machine_next(&m->state, CK_MEV_PAUSED);
    ck_blockdev_fdset(j->state_set, file);
    json_t *args = json_pack("{s:s, s:b}", "filename", file, "live", 0); // live=false: the images stay open
    if (ck_qmp_command(m->qmp, "xen-save-devices-state", args, -1, m->command_ms, on_state, j, &j->err)) {
        go_on(j);
        return;
    }
    j->waiting = 2;
    ck_machine_borrow(m);
    work(j, do_copy, on_copied);
    // Meanwhile: what the caller has to say about this instant.
    struct ck_err e = CK_ERR_INIT;
    if (j->session && j->session(m, &j->session_text, j->user, &e))
        note(j, &e);
}

static void on_disk_ready(const struct ck_err *err, void *user)
{
    struct ck_checkpoint_job *j = user;
    struct ck_machine *m = j->m;
    note(j, err);
    if (err) {
        over(j);
        return;
    }
    j->stopped_us = ck_mono_us();
    if (!j->was_running)
        on_stopped(NULL, NULL, j);
    else if (ck_qmp_command(m->qmp, "stop", NULL, -1, m->command_ms, on_stopped, j, &j->err))
        over(j);
}

// ---- before the stop --------------------------------------------------------------------------

static int take(int *fd)
{
    int v = *fd;
    *fd = -1;
    return v;
}

static void tell_qemu_of_next_disk(struct ck_checkpoint_job *j)
{
    struct ck_machine *m = j->m;
    char node[CK_BLOCKDEV_NODE_MAX], file[CK_BLOCKDEV_NODE_MAX];
    struct ck_qmp_script *s = ck_qmp_script_new(&m->scripts);
    j->node = ++m->disks.last;
    j->state_set = ++m->disks.last;
    ck_blockdev_node(j->node, node);
    ck_blockdev_fdset(j->node, file);
    // Of both kinds: QEMU opens it again for reading alone once it is frozen.
    ck_qmp_script_add(s, "add-fd", json_pack("{s:i}", "fdset-id", j->node), take(&j->next_rw));
    ck_qmp_script_add(s, "add-fd", json_pack("{s:i}", "fdset-id", j->node), take(&j->next_ro));
    ck_qmp_script_add(s, "add-fd", json_pack("{s:i}", "fdset-id", j->state_set), take(&j->state_w));
    ck_qmp_script_add(s, "blockdev-add", ck_blockdev_active(node, file, NULL), -1); // the snapshot gives it its backing
    if (ck_qmp_script_run(s, m->qmp, m->command_ms, on_disk_ready, j, &j->err))
        over(j);
}

static void do_prepare(uv_work_t *w)
{
    struct ck_checkpoint_job *j = w->data;
    j->work_done = !ck_checkpoint_prepare(j);
}

static void on_prepared(uv_work_t *w, int status)
{
    struct ck_checkpoint_job *j = w->data;
    (void)status;
    if (!back(j, true))
        return;
    if (j->err.status)
        over(j);
    else if (j->m->state != CK_MACHINE_QUITTING) // else its exit ends the operation
        tell_qemu_of_next_disk(j);
}

static void prepare(struct ck_checkpoint_job *j)
{
    struct ck_machine *m = j->m;
    struct ck_machine_disks *d = &m->disks;
    struct ck_layer_info *i = &j->made.info;
    i->nbelow = d->n;
    for (int n = 0; n < d->n; n++)
        memcpy(i->below[n], d->below[n].layer, sizeof i->below[n]);
    j->pid = m->proc.pid;
    ck_machine_borrow(m);
    work(j, do_prepare, on_prepared);
}

static void on_merge_over(struct ck_machine *m)
{
    struct ck_checkpoint_job *j = job_of(m);
    if (m->state == CK_MACHINE_QUITTING || m->state == CK_MACHINE_GONE)
        return; // its exit ends the operation
    if (ck_machine_merge_needed(m)) {
        ck_fail(&j->err, 500, "merge_failed",
                "the session's disks must be merged before another layer, and could not be");
        over(j);
    } else {
        prepare(j);
    }
}

static int name_files(struct ck_checkpoint_job *j, const struct ck_checkpoint_opts *o, struct ck_err *err)
{
    const struct ck_machine_disks *d = &j->m->disks;
    char suffix[16] = "";
    if (d->node)
        snprintf(suffix, sizeof suffix, ".%d", d->node);
    return ck_path(j->dir, sizeof j->dir, err, "%s", o->dir) ||
                   ck_path(j->tmp, sizeof j->tmp, err, "%s/%s.tmp", o->dir, o->id) ||
                   ck_path(j->disk_now, sizeof j->disk_now, err, "%s%s", d->first, suffix) ||
                   ck_path(j->disk_next, sizeof j->disk_next, err, "%s.%d", d->first, d->last + 1)
               ? -1
               : 0;
}

static struct ck_checkpoint_job *job_new(struct ck_machine *m, const struct ck_checkpoint_opts *o, struct ck_err *err)
{
    struct ck_checkpoint_job *j = calloc(1, sizeof *j);
    unsigned ms = o->deadline_ms ? o->deadline_ms : TOTAL_MS;
    if (!j) {
        ck_fail(err, 500, "no_memory", "no memory for a checkpoint");
        return NULL;
    }
    j->m = m;
    if (name_files(j, o, err)) {
        free(j);
        return NULL;
    }
    j->job.abandon = abandon;
    j->job.gone = gone;
    j->template = m->template;
    j->template_ram = m->ram_fd;
    j->stay = o->stay;
    j->session = o->session;
    j->was_running = m->state == CK_MACHINE_RUNNING;
    j->begun_us = ck_mono_us();
    j->deadline = ck_mono_ms() + ms;
    j->tmp_fd = j->next_rw = j->next_ro = j->state_fd = j->state_w = -1;
    memcpy(j->made.info.id, o->id, CK_UUID_MAX);
    ck_layer_describe(&j->made.info, m->template);
    return j;
}

int ck_machine_checkpoint(struct ck_machine *m, const struct ck_checkpoint_opts *o, ck_checkpoint_frozen_cb frozen,
                          ck_checkpoint_done_cb done, void *user, struct ck_err *err)
{
    if (!ck_uuid_valid(o->id) || o->dir[0] != '/')
        return ck_fail(err, 400, "bad_layer_id", "a layer's name is a uuid, its folder an absolute path");
    if (!m->template)
        return ck_fail(err, 409, "vm_state", "this VM comes from no template and has no layers");
    if (m->job)
        return ck_fail(err, 409, "vm_busy", "the VM is busy with its last layer");
    struct ck_checkpoint_job *j = job_new(m, o, err);
    if (!j)
        return -1;
    if (ck_machine_begin(m, CK_MOP_CHECKPOINT, on_over, j, err)) {
        free(j);
        return -1;
    }
    j->frozen = frozen;
    j->done = done;
    j->user = user;
    m->job = &j->job;
    unsigned ms = (unsigned)(j->deadline - ck_mono_ms());
    int rc = ck_machine_merge_settle(m, ck_machine_merge_needed(m), ms, on_merge_over, err);
    if (rc < 0) {
        m->job = NULL;
        free(j);
        return ck_machine_give_up(m);
    }
    if (rc > 0)
        prepare(j); // goes on from the thread pool
    return 0;
}
