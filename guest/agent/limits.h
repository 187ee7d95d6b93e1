// What the session may use of this machine, as the host said when the session began: processes, open files,
// room on the disk. It is the guest's own bookkeeping and holds honest code; what a hostile root of the
// guest cannot get past are the sizes of the machine itself. Main thread only, but for
// ag_limits_refused(), which any thread may call.
#pragma once
#include "guest/agent/server.h"

#include <stdint.h>
#include <sys/types.h>

#define AG_PIDS_DEFAULT 256 // under emulation each process of a fork bomb takes 0.1 s to die
#define AG_PIDS_MIN 32
#define AG_PIDS_MAX 4096
#define AG_FILES_DEFAULT 65536
#define AG_FILES_MIN 256
#define AG_DISK_MIN (16u << 20)

struct ag_kernel;

// Processes and threads (all that run count): of the kernel with what it started; of one command, so that what
// runs wild in it leaves the kernel some; of both and all commands together.
unsigned ag_limits_kernel_pids(void);
unsigned ag_limits_command_pids(void);
unsigned ag_limits_all_pids(void);
unsigned ag_limits_open_files(void); // of each process of the user's

// Bounds the open files of a process that runs already, and of what it starts from now on.
void ag_limits_apply_to(pid_t pid);

// {"pids"?, "open_files"?, "disk_bytes"?}: takes effect at once, for the kernel that runs, too. disk_bytes 0 = all
// that the disk has.
void ag_op_limits(struct ag_kernel *k, struct ag_request *req);

// How often the kernel of now, or what it started, was refused a process. The kernel's name is told by kernel.c.
void ag_limits_watch(unsigned kernel_serial);
uint64_t ag_limits_refused(void);

struct ag_disk {
    uint64_t used, left; // bytes; left: until the session's limit
};
void ag_limits_disk(struct ag_disk *out);
