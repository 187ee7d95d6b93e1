// Merging a machine's disks while it runs: QEMU's block-stream copies what lies between the template's
// disk and the active one into the active one. Never block-commit: the disks below are layers, which
// others read and which must not change. One merge at a time, always to an end: done, failed or cancelled.
#include "vmm/machine_int.h"

#include "common/ck_log.h"
#include "vmm/blockdev.h"

#include <stdio.h>
#include <string.h>

#define JOB "merge"
#define DUE_MS 2000                   // a VM that has just come to run has better things to do
#define TOTAL_MS (10 * 60 * 1000)
#define SPEED (200ull << 20)          // bytes a second

int ck_machine_disk_depth(const struct ck_machine *m) { return m->disks.n; }

static void end(struct ck_machine *m, const struct ck_err *err)
{
    struct ck_machine_merge *g = &m->merge;
    ck_machine_cb cb = g->cb;
    void (*over)(struct ck_machine *) = g->over;
    uv_timer_stop(&g->timer);
    g->phase = CK_MERGE_NONE;
    g->cb = NULL;
    g->over = NULL;
    if (err && !over && m->proc.pid)
        ck_log(CK_LOG_INFO, "vmm", "merge_ended reason=%s text=\"%s\"", err->reason, err->text);
    if (m->closing)
        return;
    if (cb)
        cb(m, err, g->user);
    if (over && !m->closing)
        over(m);
}

void ck_machine_merge_gone(struct ck_machine *m)
{
    struct ck_err err = CK_ERR_INIT;
    if (m->merge.phase == CK_MERGE_NONE)
        return;
    ck_fail(&err, 502, "vm_died", "the VM ended while its disks were merged");
    m->merge.over = NULL; // has heard of it by its own operation
    end(m, &err);
}

static void on_cleaned(const struct ck_err *err, void *user)
{
    struct ck_machine *m = user;
    if (err) // their descriptors stay open in QEMU: ugly, not wrong
        ck_log(CK_LOG_WARN, "vmm", "merge_cleanup text=\"%s\"", err->text);
    end(m, NULL);
}

static void merged(struct ck_machine *m)
{
    struct ck_err err = CK_ERR_INIT;
    struct ck_qmp_script *s = ck_qmp_script_new(&m->scripts);
    m->merge.phase = CK_MERGE_CLEANING;
    for (int i = 0; i < m->disks.n; i++) {
        char node[CK_BLOCKDEV_NODE_MAX];
        ck_blockdev_node(m->disks.below[i].node, node);
        ck_qmp_script_add(s, "blockdev-del", json_pack("{s:s}", "node-name", node), -1);
    }
    ck_log(CK_LOG_INFO, "vmm", "merged disks=%d", m->disks.n);
    m->disks.n = 0;
    if (ck_qmp_script_run(s, m->qmp, m->command_ms, on_cleaned, m, &err))
        on_cleaned(&err, m);
}

static void cancel(struct ck_machine *m);

static void on_cancel_answer(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_machine *m = user;
    // Refused: it has just ended, its event is on the way, and the timer sees to that it comes.
    if (err && !strcmp(err->reason, "qmp_timeout") && m->merge.phase == CK_MERGE_CANCELLING)
        ck_machine_dying(m, "it did not stop merging its disks");
}

static void on_timer(uv_timer_t *t)
{
    struct ck_machine *m = t->data;
    struct ck_err err = CK_ERR_INIT;
    if (m->merge.phase == CK_MERGE_DUE) {
        m->merge.phase = CK_MERGE_NONE;
        if (m->state == CK_MACHINE_RUNNING && !m->job && !m->op_pending)
            ck_machine_merge(m, NULL, NULL, &err);
    } else if (m->merge.phase == CK_MERGE_STREAMING) {
        cancel(m);
    } else if (m->merge.phase == CK_MERGE_CANCELLING) {
        ck_machine_dying(m, "it did not stop merging its disks");
    }
}

static void cancel(struct ck_machine *m)
{
    m->merge.phase = CK_MERGE_CANCELLING;
    uv_timer_start(&m->merge.timer, on_timer, m->command_ms + 1000, 0);
    ck_qmp_command(m->qmp, "block-job-cancel", json_pack("{s:s, s:b}", "device", JOB, "force", 1), -1, m->command_ms,
                   on_cancel_answer, m, NULL);
}

void ck_machine_merge_event(struct ck_machine *m, const char *name, json_t *data)
{
    struct ck_err err = CK_ERR_INIT;
    const char *id = json_string_value(json_object_get(data, "device"));
    const char *why = json_string_value(json_object_get(data, "error"));
    bool active = m->merge.phase == CK_MERGE_STREAMING || m->merge.phase == CK_MERGE_CANCELLING;
    if (!active || !id || strcmp(id, JOB) != 0)
        return;
    if (!strcmp(name, "BLOCK_JOB_COMPLETED") && !why) {
        merged(m);
    } else if (!strcmp(name, "BLOCK_JOB_COMPLETED")) {
        ck_fail(&err, 500, "merge_failed", "the session's disks could not be merged: %.200s", why);
        end(m, &err);
    } else if (!strcmp(name, "BLOCK_JOB_CANCELLED")) {
        ck_fail(&err, 409, "merge_cancelled", "merging the session's disks was cancelled");
        end(m, &err);
    }
}

static void on_stream(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_machine *m = user;
    if (err && m->merge.phase == CK_MERGE_STREAMING)
        end(m, err);
}

// wanted: nothing runs beside it and somebody waits.
static int stream(struct ck_machine *m, bool wanted, unsigned ms, struct ck_err *err)
{
    char node[CK_BLOCKDEV_NODE_MAX];
    ck_blockdev_node(m->disks.node, node);
    m->merge.phase = CK_MERGE_STREAMING;
    uv_timer_start(&m->merge.timer, on_timer, ms, 0);
    json_t *args = json_pack("{s:s, s:s, s:s, s:I}", "job-id", JOB, "device", node, "base-node", CK_BLOCKDEV_BASE,
                             "speed", (json_int_t)(wanted ? 0 : SPEED));
    if (!ck_qmp_command(m->qmp, "block-stream", args, -1, m->command_ms, on_stream, m, err))
        return 0;
    m->merge.phase = CK_MERGE_NONE;
    uv_timer_stop(&m->merge.timer);
    return -1;
}

int ck_machine_merge(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err)
{
    struct ck_machine_merge *g = &m->merge;
    if (m->closing || m->state != CK_MACHINE_RUNNING)
        return ck_fail(err, 409, "vm_state", "a VM that is %s cannot merge its disks", ck_machine_state_name(m->state));
    if (m->job || m->op_pending || m->quit_cb || (g->phase != CK_MERGE_NONE && g->phase != CK_MERGE_DUE))
        return ck_fail(err, 409, "vm_busy", "the VM is busy");
    if (!m->disks.n)
        return ck_fail(err, 409, "vm_state", "the VM has no disks that could be merged");
    if (stream(m, false, TOTAL_MS, err))
        return -1;
    g->cb = cb;
    g->user = user;
    return 0;
}

bool ck_machine_merge_needed(const struct ck_machine *m)
{
    for (int i = 0; i < m->disks.n; i++)
        if (!m->disks.below[i].layer[0])
            return true;
    return m->disks.n >= CK_LAYER_DISKS_MAX;
}

int ck_machine_merge_settle(struct ck_machine *m, bool wanted, unsigned ms, void (*over)(struct ck_machine *m),
                            struct ck_err *err)
{
    struct ck_machine_merge *g = &m->merge;
    if (g->phase == CK_MERGE_DUE) {
        uv_timer_stop(&g->timer);
        g->phase = CK_MERGE_NONE;
    }
    if (g->phase == CK_MERGE_NONE && !wanted)
        return 1;
    if (g->phase == CK_MERGE_NONE && stream(m, true, ms, err))
        return -1;
    if (wanted && g->phase == CK_MERGE_STREAMING) // somebody waits now
        ck_qmp_command(m->qmp, "block-job-set-speed", json_pack("{s:s, s:i}", "device", JOB, "speed", 0), -1,
                       m->command_ms, NULL, NULL, NULL);
    g->over = over;
    if (!wanted && g->phase == CK_MERGE_STREAMING)
        cancel(m);
    return 0;
}

void ck_machine_merge_perhaps(struct ck_machine *m)
{
    if (m->state != CK_MACHINE_RUNNING || m->merge.phase != CK_MERGE_NONE || m->job ||
        (m->disks.n < CK_LAYER_DISKS_MERGE && !ck_machine_merge_needed(m)))
        return;
    m->merge.phase = CK_MERGE_DUE;
    uv_timer_start(&m->merge.timer, on_timer, DUE_MS, 0);
}
