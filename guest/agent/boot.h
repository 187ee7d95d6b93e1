// From the initramfs to a running root: what a distribution's init does, cut to this machine.
#pragma once
#include "guest/agent/bootargs.h"

// Mounts /proc, /sys, /dev and parses the command line; enough for AG_MODE_PROBE.
int ag_boot_early(struct ag_bootargs *out, struct ck_err *err);

// Loads the modules named in /etc/modules.load of the initramfs, in that order.
int ag_boot_modules(struct ck_err *err);

// Finds the disks by serial ("root": erofs, read-only; "disk": ext4), stacks them, copies the hook
// files of /hook to /run/cellkeep and makes the result "/". The initramfs is emptied.
int ag_boot_root(struct ck_err *err);

// Kernel settings of a guest that is frozen and cloned: few idle wake-ups, no swapping of the mind.
void ag_boot_tune(void);

// Importing leaves the disk's pages of hundreds of files behind. They would fill the machine, and a
// session that needs memory would have to win it back page by page, which under emulation takes
// seconds. Pages that are mapped stay.
void ag_boot_drop_cache(void);

// lo up; eth0 10.0.2.15 with a route to the host's end alone, for TCP alone, so that everything else
// is unreachable at once.
int ag_boot_network(struct ck_err *err);

// A fresh /dev/shm in the place of the present one. Constant work whatever the user left in it; memory that a
// process still maps stays with that process.
int ag_boot_shm(struct ck_err *err);

// Never returns.
_Noreturn void ag_boot_poweroff(void);
