// Inside of a checkpoint: its job, and the parts of it that run on the thread pool. machine_checkpoint.c
// drives them from the loop; checkpoint.c is what they do.
#pragma once
#include "vmm/layer_ram.h"
#include "vmm/machine_int.h"

struct ck_checkpoint_job {
    struct ck_machine_job job; // first: what the machine knows
    struct ck_machine *m;
    uv_work_t work;
    char dir[PATH_MAX], tmp[PATH_MAX], disk_now[PATH_MAX], disk_next[PATH_MAX];
    struct ck_template *template; // the machine's, which outlives the job
    pid_t pid;                    // while the machine is borrowed
    int template_ram;             // borrowed from the machine
    bool stay, was_running, snapshotted, direct;
    int (*session)(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err);
    ck_checkpoint_frozen_cb frozen;
    ck_checkpoint_done_cb done;
    void *user;
    int64_t deadline, begun_us, stopped_us; // ck_mono_ms, ck_mono_us
    int node, state_set;                    // numbers of the next disk, and of the state's descriptors
    int waiting;                            // answers: of the device state, of the copy
    bool tidying, written; // done comes after both: QEMU has let go of what it could write, all is on disk
    struct ck_err err;                      // the first failure; the loop's
    struct ck_err work_err;                 // of what the thread pool does now
    bool work_done;                         // it came to its good end: nothing less counts

    int tmp_fd, next_rw, next_ro, state_fd, state_w; // owned; -1 = none
    struct ck_ram ram;
    uint8_t *pages; // mapped; NULL = none
    size_t room;    // bytes of it
    struct ck_buf runs, session_text;
    struct ck_checkpoint made;
};

// Each blocks; negative with job->work_err on failure.
int ck_checkpoint_prepare(struct ck_checkpoint_job *j); // folder, next disk, descriptors, room for the pages
int ck_checkpoint_copy(
    struct ck_checkpoint_job *j); // the VM stands still: its pages into memory (direct: into the file)
int ck_checkpoint_write(struct ck_checkpoint_job *j);   // everything into the folder, synced, renamed
void ck_checkpoint_clean(struct ck_checkpoint_job *j);   // gives up what is held; after a failure removes what was made
