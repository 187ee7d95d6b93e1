// How QEMU opens the session's disks: the same words on its command line and in QMP, since a reopen
// must repeat every option. Pure.
#pragma once
#include <jansson.h>
#include <stddef.h>

#define CK_BLOCKDEV_BASE "base" // node of the template's disk
#define CK_BLOCKDEV_TOP "disk"  // node of the disk that a session starts with
#define CK_BLOCKDEV_NODE_MAX 24

// The path under which QEMU finds descriptors of its set number n (add-fd).
void ck_blockdev_fdset(int n, char out[CK_BLOCKDEV_NODE_MAX]);
void ck_blockdev_node(int n, char out[CK_BLOCKDEV_NODE_MAX]); // "disk" for 0, else "d<n>"

// A qcow2 that is only read. What its header says about a backing file is never followed: backing
// names the node, NULL = none. New reference; NULL when out of memory.
json_t *ck_blockdev_frozen(const char *node, const char *file, const char *backing);
// The one that the guest writes. Never synced to the host's disk: an active disk is worth as much as
// the RAM of its VM, which a crash of the host takes as well; layers are synced when they are made.
json_t *ck_blockdev_active(const char *node, const char *file, const char *backing);
