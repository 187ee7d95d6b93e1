// A machine for any use of argv.h: what the template builder and the accelerator probe need beyond
// machine.h, which is for sessions.
#pragma once
#include "vmm/machine.h"

struct ck_machine_vm_opts {
    uv_loop_t *loop;
    const struct ck_vm_spec *spec; // read during the call; its descriptor numbers are set by the machine
    int ram_fd;                    // session only; borrowed, must stay open until started when there is no template
    const struct ck_template *template; // session only: for layers; copied; may be NULL (no layers then)
    ck_machine_exit_cb on_exit;
    // Raw bytes of a booting VM's console; may end or close the machine.
    void (*on_console)(struct ck_machine *m, const void *p, size_t n, void *user);
    void *user;
    unsigned start_ms, restore_ms, command_ms, quit_ms; // 0 = defaults of machine.h
};
int ck_machine_new_vm(const struct ck_machine_vm_opts *opts, struct ck_machine **out, struct ck_err *err);
