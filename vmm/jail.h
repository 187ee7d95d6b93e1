// The jail that a bridge puts itself into before it starts QEMU, which inherits it: a table of named
// steps, each of which says what came of it. Single-threaded and before any loop, thread or ZMQ
// context exists: namespaces and credentials are a thread's own on Linux.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "vmm/cpu_share.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum ck_jail_step { // in the order in which they are applied; names: common/ck_jailnames.h
    CK_JAIL_DESCRIPTORS,  // every descriptor above 2 that is not in keep is closed
    CK_JAIL_ENVIRONMENT,  // emptied
    CK_JAIL_CGROUP,       // own control group with pids and memory limits
    CK_JAIL_RLIMITS,
    CK_JAIL_USER_NS,      // unprivileged only: the way to the namespaces below
    CK_JAIL_NET_NS,       // private network with only lo
    CK_JAIL_IPC_NS,
    CK_JAIL_UTS_NS,
    CK_JAIL_MOUNT_NS,     // private minimal file system view
    CK_JAIL_PID_NS,       // never applied yet; says why
    CK_JAIL_UID,          // root only: own uid and gid, no groups
    CK_JAIL_CAPABILITIES, // none, and none to be had (bounding and ambient sets too)
    CK_JAIL_NO_NEW_PRIVS,
    CK_JAIL_SECCOMP,      // only the system calls that the bridge and QEMU need
    CK_JAIL_STEPS,
};

enum ck_jail_result {
    CK_JAIL_UNAVAILABLE, // this host or user cannot have it
    CK_JAIL_REFUSED,     // tried, and the kernel said no
    CK_JAIL_APPLIED,
    CK_JAIL_SKIPPED,     // not asked for or not needed (e.g. user_ns for root)
};

struct ck_jail_report {
    struct {
        enum ck_jail_result result;
        char reason[160]; // in words; "" for applied without a remark
    } step[CK_JAIL_STEPS];
    // Probe alone: whether a bridge in this jail may read and write its QEMU's memory, which layers
    // (pause, checkpoint, fork) need; the reason when it may not.
    bool layers;
    char layers_reason[160];
};

#define CK_JAIL_BIT(step) (1u << (step))

struct ck_jail_opts {
    const char *id;           // the session's id: names the control group
    const char *session_dir;  // read-write in the view; given to uid when root
    const char *template_dir; // read-only in the view
    const char *image_dir;    // read-only in the view
    const char *extra_dir;    // read-only in the view, e.g. the folder of a QEMU outside /usr; may be NULL
    bool kvm;                 // /dev/kvm is needed
    uid_t uid;                // root only; 0 = ck_jail_session_ids of id
    gid_t gid;
    const int *keep;          // descriptors that stay open besides 0, 1, 2
    int nkeep;
    uint64_t memory_bytes;    // cgroup limit; 0 = no limit
    unsigned max_tasks;       // cgroup pids limit; 0 = 512
    struct ck_cpu_group *cpu_group; // filled in by the step cgroup; NULL = not wanted
    uint64_t max_file_bytes;  // RLIMIT_FSIZE; 0 = 64 GiB
    uint32_t required;        // CK_JAIL_BIT of steps without which the start must fail
    uint32_t skip;            // CK_JAIL_BIT of steps not to try (operator's wish, tests)
};

const char *ck_jail_step_name(enum ck_jail_step step);
const char *ck_jail_result_name(enum ck_jail_result result);
static inline bool ck_jail_applied(const struct ck_jail_report *r, enum ck_jail_step s)
{
    return r->step[s].result == CK_JAIL_APPLIED;
}

// Applies the steps to the calling process; cannot be undone. Fails (err names the step and the
// reason) when a required step was not applied, or when a step failed half way and going on would
// be wrong. Afterwards: ck_jail_applied(report, CK_JAIL_NET_NS) ? ck_machine_ports_fixed : ephemeral.
// All absolute paths given above mean the same inside; nothing else of the host is visible.
int ck_jail_apply(const struct ck_jail_opts *opts, struct ck_jail_report *report, struct ck_err *err);

// The same in a forked child that then ends: what would happen here. Nothing of the caller changes.
// Blocks for some milliseconds. opts as above (session_dir may be any existing folder of the caller).
int ck_jail_probe(const struct ck_jail_opts *opts, struct ck_jail_report *report, struct ck_err *err);

// A uid and gid of the session's own, out of a range that nothing else uses (0x70000000 upward).
// Pure; the same id gives the same numbers.
void ck_jail_session_ids(const char *id, uid_t *uid, gid_t *gid);

// {"net_ns":{"result":"applied","reason":"…"},…}, appended.
int ck_jail_report_json(const struct ck_jail_report *r, struct ck_buf *out);
