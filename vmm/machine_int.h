// Inside of a machine; shared by machine*.c alone: machine.c (operations), machine_proc.c (the
// process), machine_checkpoint.c and machine_layer.c (layers out of and into it), machine_disk.c.
#pragma once
#include "vmm/layer.h"
#include "vmm/machine.h"
#include "vmm/qmp.h"
#include "vmm/qmp_script.h"
#include "vmm/spawn.h"

#define CK_MACHINE_LOG_MAX 4096 // QEMU's last output, for the reason of an exit

struct ck_machine_watch {
    uv_poll_t poll;
    int fd; // owned; -1 = none
    bool open;
};

// The disks: base (the template's) <- below[n-1] … below[0] <- the active one.
struct ck_machine_disks {
    char first[PATH_MAX]; // the file that the machine began with; later ones are <first>.<node>
    int node;             // of the active one: its name is ck_blockdev_node's, its descriptors' set has that number
    int last;             // highest number given to a node or a set of descriptors
    int n;
    struct {
        char layer[CK_UUID_MAX]; // "" = its layer failed: it is nowhere but in QEMU and must be merged
        int node;
    } below[CK_LAYER_DISKS_MAX];
};

enum ck_merge_phase { CK_MERGE_NONE, CK_MERGE_DUE, CK_MERGE_STREAMING, CK_MERGE_CANCELLING, CK_MERGE_CLEANING };

struct ck_machine_merge {
    enum ck_merge_phase phase;
    uv_timer_t timer;
    ck_machine_cb cb;                    // the caller's
    void *user;
    void (*over)(struct ck_machine *m);  // a checkpoint waits for the end, whatever it is
};

// Something that lasts longer than one QMP command: a checkpoint or the restore of a layer. Owned by
// itself; it sets m->job to NULL when it is over.
struct ck_machine_job {
    bool working; // on the thread pool: it will come back to the loop by itself
    // The machine is being closed, no work is under way and no answer will come: clean up, call nothing.
    void (*abandon)(struct ck_machine *m);
    // QEMU is: answers that the operation did not wait for will not come. May be NULL.
    void (*gone)(struct ck_machine *m);
};

struct ck_machine {
    uv_loop_t *loop;
    enum ck_machine_state state;
    enum ck_vm_use use;
    struct ck_vm_argv argv;
    uint16_t host_port[CK_VM_PORTS];
    int ram_fd; // owned; -1 = none
    struct ck_template *template; // owned; NULL for machines that are no sessions
    struct ck_machine_disks disks;
    struct ck_machine_merge merge;
    struct ck_machine_job *job;
    struct ck_qmp_script *scripts; // under way
    int borrowed;                  // uses of the process's pid on other threads: it is not reaped
    bool exit_due;                 // it ended while borrowed
    unsigned start_ms, restore_ms, command_ms, quit_ms;
    ck_machine_exit_cb on_exit;
    void (*on_console)(struct ck_machine *m, const void *p, size_t n, void *user);
    void *user;

    struct ck_proc_id proc;
    struct ck_machine_watch pid, output, console;
    struct ck_qmp *qmp;
    uv_timer_t timer;     // the operation's deadline, or the one of dying
    int handles;          // open libuv handles
    char log[CK_MACHINE_LOG_MAX];
    size_t log_n;
    char deadline_reason[128]; // what becomes of kill_reason when the timer fires
    char kill_reason[128];     // why we ended it ("" = it ended by itself)
    char shutdown[64];     // QEMU's own word for the reason, from its SHUTDOWN event
    bool expected;         // somebody asked for the end
    bool loaded_early;     // "completed" came before the answer to migrate-incoming

    bool op_pending;
    enum ck_machine_op op;
    ck_machine_cb op_cb;
    void *op_user;
    ck_machine_console_cb console_cb;
    ck_machine_cb quit_cb;
    void *quit_user;

    bool closing;
    void (*closed)(void *user);
    void *closed_user;
};

// machine_proc.c
int ck_machine_proc_start(struct ck_machine *m, struct ck_err *err);
void ck_machine_deadline(struct ck_machine *m, unsigned ms, const char *reason); // kills with that reason
void ck_machine_deadline_clear(struct ck_machine *m);
void ck_machine_end(struct ck_machine *m, const char *reason); // SIGKILL, the exit follows
void ck_machine_free_when_done(struct ck_machine *m);
// Between the two the pid is this process's, dead or alive.
void ck_machine_borrow(struct ck_machine *m);
void ck_machine_return(struct ck_machine *m);

// machine.c
int ck_machine_begin(struct ck_machine *m, enum ck_machine_op op, ck_machine_cb cb, void *user, struct ck_err *err);
int ck_machine_give_up(struct ck_machine *m); // the function that began fails: no callback. Returns -1
// The VM is of no use any more: it gets a moment to end by itself, then it is killed.
void ck_machine_dying(struct ck_machine *m, const char *reason);
// migrate-incoming of a state; the pending operation is a restore. Takes state_fd over.
int ck_machine_load_state(struct ck_machine *m, int state_fd, struct ck_err *err);
void ck_machine_forget(struct ck_machine *m);   // frees the memory
void ck_machine_job_over(struct ck_machine *m); // m->job has gone
void ck_machine_finish(struct ck_machine *m, const struct ck_err *err); // ends the pending operation
void ck_machine_qmp_ready(void *user);
void ck_machine_qmp_event(const char *name, json_t *data, void *user);
void ck_machine_qmp_down(const struct ck_err *err, void *user);

// machine_disk.c
void ck_machine_merge_event(struct ck_machine *m, const char *name, json_t *data);
void ck_machine_merge_perhaps(struct ck_machine *m); // a running machine with many disks: in a while
// Brings a merge to its end: done = called when there is none any more (never from inside). wanted: its
// result is needed, so it is waited for, else cancelled. 0 = done will be called, 1 = nothing to wait for.
int ck_machine_merge_settle(struct ck_machine *m, bool wanted, unsigned ms, void (*over)(struct ck_machine *m),
                            struct ck_err *err);
bool ck_machine_merge_needed(const struct ck_machine *m); // before another layer can be made
void ck_machine_merge_gone(struct ck_machine *m);         // the process is gone
