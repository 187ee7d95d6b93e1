// One QEMU process as a life-cycle: start, restore, cont, stop, save, quit. Asynchronous on the
// caller's libuv loop; one thread. Everything has a deadline; the process dies with its parent.
//
//   struct ck_machine_opts o = {.loop = loop, .template = &t, .disk = "…/disk.qcow2", .ram_fd = fd};
//   ck_machine_ports_fixed(o.host_port);                  // inside a private network namespace
//   ck_machine_new(&o, &m, &err);  ck_machine_start(m, started, me, &err);
//   started:  ck_machine_restore(m, state_fd, restored, me, &err)   // pool: wait here
//   restored: ck_machine_cont(m, running, me, &err)
//   later:    ck_machine_quit(m, gone, me, &err); … ck_machine_close(m, closed, me)
#pragma once
#include "common/ck_error.h"
#include "common/ck_proc.h"
#include "vmm/argv.h"
#include "vmm/machine_state.h"
#include "vmm/template.h"

#include <uv.h>

struct ck_machine;

// err NULL = done. Never called from inside the function that started the operation. The machine
// may be operated on or closed from inside it.
typedef void (*ck_machine_cb)(struct ck_machine *m, const struct ck_err *err, void *user);

struct ck_machine_exit {
    bool expected;    // after quit, kill or close
    int exit_code;    // -1 when ended by a signal
    int signal;       // 0 when it exited
    char reason[256]; // one line: what happened, with QEMU's last message
};
// Called once, when the process is gone (never before a successful start of the process). Pending
// operations have already failed with "vm_died".
typedef void (*ck_machine_exit_cb)(struct ck_machine *m, const struct ck_machine_exit *how, void *user);

struct ck_machine_opts {
    uv_loop_t *loop;                    // must outlive the machine
    const struct ck_template *template; // copied
    const char *disk;                   // the session's disk.qcow2, absolute; copied
    int ram_fd;                         // sealed memfd (ck_ramfd_check'ed here); borrowed during ck_machine_new
    uint16_t host_port[CK_VM_PORTS];
    ck_machine_exit_cb on_exit;         // may be NULL
    void *user;                         // of on_exit
    unsigned start_ms, restore_ms, command_ms, quit_ms; // deadlines; 0 = 20 s, 20 s, 10 s, 5 s
};

void ck_machine_ports_fixed(uint16_t port[CK_VM_PORTS]); // the guest's own numbers
// Free loopback ports of this moment, for a bridge without a private network namespace. Another
// process may take one before QEMU binds it: then the start fails and may be tried again.
int ck_machine_ports_ephemeral(uint16_t port[CK_VM_PORTS], struct ck_err *err);

int ck_machine_new(const struct ck_machine_opts *opts, struct ck_machine **out, struct ck_err *err);

// One operation at a time: an operation that the state does not allow, or while another one is
// pending, fails at once with 409 "vm_busy" or "vm_state" and calls nothing. A negative return means
// that the callback will not be called.
int ck_machine_start(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err);
// Loads a device state; takes state_fd over in every case. Ends stopped: call ck_machine_cont.
int ck_machine_restore(struct ck_machine *m, int state_fd, ck_machine_cb cb, void *user, struct ck_err *err);
int ck_machine_cont(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err);
int ck_machine_stop(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err);
// Device state without RAM of a stopped machine into a new file that QEMU creates.
int ck_machine_save(struct ck_machine *m, const char *path, ck_machine_cb cb, void *user, struct ck_err *err);
// Asks QEMU to end and kills it after the deadline (at once when an operation is pending, which then
// fails with "vm_died"). Done when the process is gone. 1 = there is no process, cb will not be called.
int ck_machine_quit(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err);
void ck_machine_kill(struct ck_machine *m); // SIGKILL; on_exit follows

// The tail of the serial console of a session (at most CK_VM_CONSOLE_RING bytes of hostile text),
// for a diagnosis. text is valid during the call, not NUL-terminated; NULL with err on failure.
typedef void (*ck_machine_console_cb)(struct ck_machine *m, const char *text, size_t n, const struct ck_err *err,
                                      void *user);
int ck_machine_console(struct ck_machine *m, ck_machine_console_cb cb, void *user, struct ck_err *err);

enum ck_machine_state ck_machine_state(const struct ck_machine *m);
bool ck_machine_busy(const struct ck_machine *m);
struct ck_proc_id ck_machine_proc(const struct ck_machine *m); // pid 0 when there is none
uint16_t ck_machine_port(const struct ck_machine *m, int index);

// Kills what still runs, waits for it, frees everything, then calls closed (may be NULL). Callbacks
// of pending operations are not called any more, on_exit neither. NULL is fine.
void ck_machine_close(struct ck_machine *m, void (*closed)(void *user), void *user);
