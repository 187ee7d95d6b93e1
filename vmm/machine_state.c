// The life-cycle of a machine: one table, no I/O. Must stay pure, so that every path through it can
// be tested without QEMU.
#include "vmm/machine_state.h"

#include <assert.h>
#include <stddef.h>

#define BIT(x) (1u << (x))

static const struct {
    const char *name;
    unsigned ops;
} states[] = {
    [CK_MACHINE_NEW] = {"new", BIT(CK_MOP_START)},
    [CK_MACHINE_STARTING] = {"starting", 0},
    [CK_MACHINE_PREPARED] = {"prepared", BIT(CK_MOP_RESTORE) | BIT(CK_MOP_QUIT)},
    [CK_MACHINE_LOADING] = {"loading", 0},
    [CK_MACHINE_STOPPED] = {"stopped", BIT(CK_MOP_CONT) | BIT(CK_MOP_SAVE) | BIT(CK_MOP_CHECKPOINT) | BIT(CK_MOP_QUIT) |
                                           BIT(CK_MOP_CONSOLE)},
    [CK_MACHINE_RUNNING] = {"running",
                            BIT(CK_MOP_STOP) | BIT(CK_MOP_CHECKPOINT) | BIT(CK_MOP_QUIT) | BIT(CK_MOP_CONSOLE)},
    [CK_MACHINE_QUITTING] = {"quitting", 0},
    [CK_MACHINE_GONE] = {"gone", 0},
};
static_assert(sizeof states / sizeof *states == CK_MACHINE_GONE + 1, "every state has a name and its operations");

static const char *const op_names[] = {
    [CK_MOP_START] = "start", [CK_MOP_RESTORE] = "restore", [CK_MOP_CONT] = "cont",       [CK_MOP_STOP] = "stop",
    [CK_MOP_SAVE] = "save",   [CK_MOP_QUIT] = "quit",       [CK_MOP_CONSOLE] = "console",
    [CK_MOP_CHECKPOINT] = "checkpoint",
};
static_assert(sizeof op_names / sizeof *op_names == CK_MOP_CHECKPOINT + 1, "every operation has a name");

static const struct {
    enum ck_machine_event event;
    unsigned from; // bits of states
    enum ck_machine_state to;
} transitions[] = {
    {CK_MEV_SPAWNED, BIT(CK_MACHINE_NEW), CK_MACHINE_STARTING},
    {CK_MEV_QMP_INCOMING, BIT(CK_MACHINE_STARTING), CK_MACHINE_PREPARED},
    {CK_MEV_QMP_RUNNING, BIT(CK_MACHINE_STARTING), CK_MACHINE_RUNNING},
    {CK_MEV_LOAD, BIT(CK_MACHINE_PREPARED), CK_MACHINE_LOADING},
    {CK_MEV_LOADED, BIT(CK_MACHINE_LOADING), CK_MACHINE_STOPPED},
    {CK_MEV_LOAD_FAILED, BIT(CK_MACHINE_LOADING), CK_MACHINE_QUITTING}, // half-loaded: good for nothing
    {CK_MEV_RESUMED, BIT(CK_MACHINE_STOPPED) | BIT(CK_MACHINE_RUNNING), CK_MACHINE_RUNNING},
    {CK_MEV_PAUSED, BIT(CK_MACHINE_STOPPED) | BIT(CK_MACHINE_RUNNING), CK_MACHINE_STOPPED},
    {CK_MEV_QUIT,
     BIT(CK_MACHINE_STARTING) | BIT(CK_MACHINE_PREPARED) | BIT(CK_MACHINE_LOADING) | BIT(CK_MACHINE_STOPPED) |
         BIT(CK_MACHINE_RUNNING) | BIT(CK_MACHINE_QUITTING),
     CK_MACHINE_QUITTING},
    {CK_MEV_EXITED,
     BIT(CK_MACHINE_STARTING) | BIT(CK_MACHINE_PREPARED) | BIT(CK_MACHINE_LOADING) | BIT(CK_MACHINE_STOPPED) |
         BIT(CK_MACHINE_RUNNING) | BIT(CK_MACHINE_QUITTING),
     CK_MACHINE_GONE},
};

bool ck_machine_next(enum ck_machine_state *state, enum ck_machine_event event)
{
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
        if (transitions[i].event == event && (transitions[i].from & BIT(*state))) {
            *state = transitions[i].to;
            return true;
        }
    return false;
}

bool ck_machine_allows(enum ck_machine_state state, enum ck_machine_op op)
{
    return (states[state].ops & BIT(op)) != 0;
}

const char *ck_machine_state_name(enum ck_machine_state state) { return states[state].name; }
const char *ck_machine_op_name(enum ck_machine_op op) { return op_names[op]; }
