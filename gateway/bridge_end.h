// Ending a bridge for good: its process, its VM, its folder. Loop thread only.
#pragma once
#include "common/ck_proc.h"

#include <uv.h>

// Asks the bridge to shut down (why: in words, for the cells that this ends; NULL = do not ask), waits for
// its process, kills it when it does not go (its QEMU dies with it), then removes the folder. proc.pid 0 = there is no process. done is called
// from the loop, never from inside the call, when nothing is left or nothing more can be done.
// All strings are copied. dir NULL = the folder stays.
void bridge_end(uv_loop_t *loop, const char *dir, const char *socket_path, struct ck_proc_id proc, const char *why,
                void (*done)(void *user), void *user);

// Waits a few seconds for a process that should end by itself; with force it is killed when it does not.
// Its folder stays.
void bridge_await(uv_loop_t *loop, struct ck_proc_id proc, bool force, void (*done)(void *user), void *user);

// Kills at once every process that is being ended; what is left of their folders is removed by the
// next gateway. For a gateway that is told to stop at once.
void bridge_end_kill_all(void);
