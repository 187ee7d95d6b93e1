// The limits of a session that are kept elsewhere than in this process: in its guest (processes, open files,
// disk) and in the host's scheduler. They are told when the session begins; the guest remembers them over
// pauses, forks and rollbacks, the scheduler is told for each new QEMU.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"
#include "vmm/cpu_share.h"

#define DISK_FULL (1 << 20) // left: ext4 keeps some blocks back for its own tables

json_t *br_guest_limits(const struct blimits *l)
{
    static const struct blimits usual = BLIMITS_GUEST_DEFAULTS; // what every template is made with
    if (l->pids == usual.pids && l->open_files == usual.open_files && l->disk_bytes == usual.disk_bytes)
        return NULL;
    return json_pack("{s:s,s:i,s:i,s:I}", "op", "limits", "pids", (int)l->pids, "open_files", (int)l->open_files,
                     "disk_bytes", (json_int_t)l->disk_bytes);
}

bool br_disk_full(const struct bridge *b)
{
    return b->usage.disk_free_bytes >= 0 && b->usage.disk_free_bytes < DISK_FULL;
}

void br_cpu_share(const struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (b->machine && ck_cpu_share(&b->cpu_group, ck_machine_proc(b->machine).pid, b->conf.limits.cpu_weight, &err))
        ck_log(CK_LOG_WARN, "bridge", "cpu_weight_failed id=%s text=\"%s\"", b->conf.id, err.text);
}
