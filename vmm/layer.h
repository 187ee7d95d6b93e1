// Layers: a session's memory, device state and disk, frozen at one stop and immutable from then on.
// A pause, a checkpoint, a fork and a rollback are all "make a layer" and "restore a layer".
//
//   DIR/<id>/  layer.json  ram  state  disk.qcow2        (docs/PROTOCOL.md section 6)
//
// Made by a running machine, restored into a prepared one (a QEMU that waits, pooled or fresh, with a
// disk of its own as always):
//
//   checkpoint  ck_machine_checkpoint(m, {.dir, .id}, frozen, done, me, &err)
//   pause       the same with .stay = true, then ck_machine_quit in done
//   resume      ck_layer_open(dir, id, &l, &err) or ck_layer_take(fds…); ck_machine_new; start;
//               ck_machine_restore_layer(m, &l, restored, me, &err); then ck_machine_cont
//   fork        resume, as often as wanted, from one layer: its files are only read
//   rollback    resume into a new machine, then close the old one
//
// What is restored is a clone of the past: before it serves anyone it must be personalised again
// (clock, entropy, keys: see kernel-bridge/setup.c), and that is not this module's work.
//
// RAM is stored as what differs from the template's RAM, complete in every layer: layers do not chain
// in memory. Disks do chain: template's disk <- disks of earlier layers <- this layer's disk. The chain
// is kept short by merging in the background of the running VM (see below).
//
// Threads: everything that takes a loop is called on the loop's thread; copying, comparing, checksums,
// writing and syncing run on libuv's thread pool. Functions marked "blocks" are for command lines,
// thread-pool work and what runs before a loop. Errors: 409 "layer_mismatch" (names what differs),
// 422 "bad_layer" (damaged or not ours), 507 "no_space", 501 "no_layers" (this host does not let a
// bridge read its QEMU's memory; `cellkeep doctor` says so too), 504 "timeout", 409 "vm_state"/"vm_busy",
// 502 "vm_died".
#pragma once
#include "common/ck_crypto.h"
#include "vmm/machine.h"

#define CK_LAYER_VERSION 1
#define CK_LAYER_SUM_MAX 33     // 32 hex digits and NUL
#define CK_LAYER_DISKS_MAX   8 // disks of layers between the template's disk and a session's own (a layer's own counts)
#define CK_LAYER_DISKS_MERGE 4  // from here on a running machine merges them
#define CK_LAYER_JSON_MAX 65536

// ---- what a layer is --------------------------------------------------------------------------

struct ck_layer_file {
    uint64_t bytes;
    // A 128-bit GMAC under a fixed, public key. It is to find damage, not malice (who can write the
    // file can write layer.json too), and GMAC does so at memory speed: a SHA-256 of 200 MB would be
    // a tenth of a second, or half of one where the CPU has no instructions for it, in every resume.
    char sum[CK_LAYER_SUM_MAX];
};

struct ck_layer_info {
    char id[CK_UUID_MAX];
    char template[CK_HASH_MAX]; // of the template whose RAM and disk it builds on
    int64_t template_us;        // when that was built: a template built again has another RAM
    char image[CK_HASH_MAX];
    char qemu[128]; // version text
    char cpu[64];
    enum ck_vm_accel accel;
    unsigned memory_mb;
    int layout; // CK_VM_LAYOUT_VERSION
    int64_t created_us;
    uint64_t data_pages, zero_pages; // of 4 KiB: stored; all zero (stored as ranges)
    struct ck_layer_file ram, state, disk;
    int nbelow; // layers whose disks lie below this one's, next first; the template's disk is the last
    char below[CK_LAYER_DISKS_MAX - 1][CK_UUID_MAX];
};

// layer.json. Pure. Parsing refuses another magic or version and anything out of range ("bad_layer").
int ck_layer_parse_json(const void *p, size_t n, struct ck_layer_info *out, struct ck_err *err);
int ck_layer_print_json(const struct ck_layer_info *info, struct ck_buf *out);

// 0 when a machine of this template can restore it; else 409 "layer_mismatch" with what differs. Pure.
int ck_layer_check(const struct ck_layer_info *info, const struct ck_template *t, struct ck_err *err);

// An opened layer: descriptors, all read-only, all owned.
struct ck_layer {
    struct ck_layer_info info;
    int ram, state;
    int disk[CK_LAYER_DISKS_MAX]; // [0] its own, then those of info.below in order
    int ndisk;
    uint64_t disk_size; // as the guest sees it
};
#define CK_LAYER_INIT {.ram = -1, .state = -1, .ndisk = 0}

// Opens DIR/<id> and the disks below it: each is DIR/<id>/<its id>.qcow2, so that a layer's folder can be
// complete in itself, or else DIR/<its id>/disk.qcow2. Follows no links. Checks names, sizes and headers;
// blocks for some small reads.
int ck_layer_open(const char *dir, const char *id, struct ck_layer *out, struct ck_err *err);
// The same from descriptors that somebody else opened (a bridge's jail does not show the layers):
// layer.json, ram, state, then its own disk and those below. All are taken over in every case.
int ck_layer_take(int json, int ram, int state, const int *disk, int ndisk, struct ck_layer *out, struct ck_err *err);
void ck_layer_close(struct ck_layer *l); // leaves CK_LAYER_INIT; a half-opened one is fine

// Reads everything and compares the checksums, the disk's too (a restore checks all but the disk's
// contents). Blocks for the time of reading.
int ck_layer_verify(const struct ck_layer *l, struct ck_err *err);

// ---- making one -------------------------------------------------------------------------------

struct ck_checkpoint_opts {
    const char *dir;  // DIR/<id> appears at the end, whole or not at all; same file system as the session's disk
    const char *id;   // a new uuid
    bool stay;        // pause: the VM stays stopped
    // May be NULL: called from the loop while the VM stands still, appends what DIR/<id>/session.json is to
    // hold; negative = the checkpoint fails (err filled). The caller's own words about that instant.
    int (*session)(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err);
    unsigned deadline_ms; // of all of it; 0 = 120 s
};

struct ck_checkpoint {
    struct ck_layer_info info;
    uint64_t private_pages; // that the VM had of its own, before equal and zero ones were dropped
    int64_t stall_us;       // from "stop" to "runs again" (stay: to everything copied or written)
    int64_t total_us;       // from the call to a synced layer under its name
};

// frozen (may be NULL): the VM runs again, or stays stopped, and may be operated on; when err is set
// the VM runs on as if nothing had been asked (if it lives). done: the layer is there and synced, or
// err. Exactly once each, in this order, from the loop; a machine that dies after frozen does not matter
// to done. Closing the machine gives the layer up and calls neither any more.
typedef void (*ck_checkpoint_frozen_cb)(struct ck_machine *m, const struct ck_err *err, void *user);
typedef void (*ck_checkpoint_done_cb)(const struct ck_checkpoint *made, const struct ck_err *err, void *user);

// Of a running or stopped machine (a stopped one stays stopped). One at a time: 409 "vm_busy" until
// done of the one before. The stall copies memory into memory; comparing, checksums, writing and
// syncing come after it. A VM with more than CK_CHECKPOINT_COPY_MAX private bytes stays stopped while they
// are written, instead of taking that much memory of the host. A failure leaves no folder and a VM
// that goes on; the disk that was frozen for it is merged before the next one begins.
#define CK_CHECKPOINT_COPY_MAX (256ull << 20)
int ck_machine_checkpoint(struct ck_machine *m, const struct ck_checkpoint_opts *opts, ck_checkpoint_frozen_cb frozen,
                          ck_checkpoint_done_cb done, void *user, struct ck_err *err);

// ---- restoring one ----------------------------------------------------------------------------

// A prepared machine becomes the layer's VM, stopped: pages, disks, device state. Takes the layer's
// descriptors over in every case (*l is CK_LAYER_INIT afterwards); check it against the template before
// (done here too). A failure ends the machine: half-restored is good for nothing. Then ck_machine_cont.
int ck_machine_restore_layer(struct ck_machine *m, struct ck_layer *l, ck_machine_cb cb, void *user,
                             struct ck_err *err);

// ---- disks ------------------------------------------------------------------------------------

// How many frozen disks lie between the machine's own and the template's.
int ck_machine_disk_depth(const struct ck_machine *m);
// Copies what they hold into the machine's own disk while it runs (QEMU's block-stream), then forgets
// them: the next layer needs none of them. A running machine does so by itself after a checkpoint or
// restore that leaves CK_LAYER_DISKS_MERGE or more; calling it is for tests and for the impatient. A
// checkpoint that comes meanwhile cancels it (409 "merge_cancelled"), what was copied stays copied.
int ck_machine_merge(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err);

// ---- host -------------------------------------------------------------------------------------

// Whether this process could read and write the memory of a QEMU that it started: tries it on a child
// that it forks. Blocks for milliseconds. 0 = yes, else 501 "no_layers" with the reason.
int ck_layer_probe(struct ck_err *err);
