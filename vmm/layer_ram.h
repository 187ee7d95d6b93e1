// The memory of a VM from outside: which of its pages are its own, reading them, writing them, and the
// file `ram` of a layer from and into it. Everything blocks for the time of copying: thread pool.
//
// Whose memory: a QEMU that is our child, named by its pid. The caller must see to it that the pid is
// not reaped meanwhile (machine_int.h, ck_machine_borrow), or it could be another process's.
#pragma once
#include "vmm/layer.h"
#include "vmm/layer_maps.h"

struct ck_ram {
    pid_t pid;
    int template_fd; // borrowed: the template's memory, which QEMU maps privately
    uint64_t pages;
    int nareas;
    struct ck_area area[CK_AREAS_MAX];
};

// "no_layers" when this process may not look, "vm_died" when there is nothing to look at.
int ck_ram_find(pid_t pid, int template_fd, uint64_t bytes, struct ck_ram *out, struct ck_err *err);
// Appends its private runs (struct ck_run, ascending) to runs.
int ck_ram_private(const struct ck_ram *r, struct ck_buf *runs, uint64_t *pages, struct ck_err *err);
// The pages of n runs, one behind the other in p.
int ck_ram_read(const struct ck_ram *r, const struct ck_run *run, size_t n, void *p, struct ck_err *err);
int ck_ram_write(const struct ck_ram *r, const struct ck_run *run, size_t n, const void *p, struct ck_err *err);

// Writes a file `ram`: pages in, those that differ from the template's out.
struct ck_ram_writer; // opaque
int ck_ram_writer_new(int fd, int template_fd, uint64_t guest_pages, int64_t deadline, struct ck_ram_writer **out,
                      struct ck_err *err); // fd and template_fd borrowed; deadline of ck_mono_ms
// Runs ascending over all calls; p as ck_ram_read fills it.
int ck_ram_writer_add(struct ck_ram_writer *w, const struct ck_run *run, size_t n, const void *p, struct ck_err *err);
// Index and tail; no fsync. Fills ram, data_pages and zero_pages of *info.
int ck_ram_writer_end(struct ck_ram_writer *w, struct ck_layer_info *info, struct ck_err *err);
void ck_ram_writer_free(struct ck_ram_writer *w); // NULL is fine

// Makes r's memory what a file `ram` says, over the template's. Compares the checksum on the way: after
// a failure the memory is no VM's.
int ck_ram_apply(const struct ck_ram *r, int fd, const struct ck_layer_file *file, int64_t deadline,
                 struct ck_err *err);
