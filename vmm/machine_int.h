// Inside of a machine; shared by machine.c (operations) and machine_proc.c (the process). Nobody
// else includes it.
#pragma once
#include "vmm/machine.h"
#include "vmm/qmp.h"
#include "vmm/spawn.h"

#define CK_MACHINE_LOG_MAX 4096 // QEMU's last output, for the reason of an exit

struct ck_machine_watch {
    uv_poll_t poll;
    int fd; // owned; -1 = none
    bool open;
};

struct ck_machine {
    uv_loop_t *loop;
    enum ck_machine_state state;
    enum ck_vm_use use;
    struct ck_vm_argv argv;
    uint16_t host_port[CK_VM_PORTS];
    int ram_fd; // borrowed; -1 = none
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

// machine.c
void ck_machine_finish(struct ck_machine *m, const struct ck_err *err); // ends the pending operation
void ck_machine_qmp_ready(void *user);
void ck_machine_qmp_event(const char *name, json_t *data, void *user);
void ck_machine_qmp_down(const struct ck_err *err, void *user);
