// Reading and writing another process's memory. process_vm_readv and _writev rather than
// /proc/PID/mem: they take a thousand runs at a time, and ask for no more than ptrace would. Must never
// touch an address that is not inside the mapping of the template's memory.
#include "vmm/layer_ram.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_proc.h"
#include "vmm/layer_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MAPS_MAX (4u << 20)
#define IOVS 1024             // IOV_MAX
#define BATCH (64u << 20)     // bytes in one call
#define WORDS 65536           // of the page map in one read

// The memory of a process that is just ending is nobody's to look at: that is no want of permission.
static int not_allowed(struct ck_err *err, pid_t pid, int e, const char *what)
{
    struct ck_proc_id id;
    if (e == ESRCH || e == ENOENT || ck_proc_identify(pid, &id))
        return ck_fail(err, 502, "vm_died", "the VM ended while its memory was looked at");
    return ck_fail_errno(err, e, 501, "no_layers", "cannot %s the memory of a VM here", what);
}

int ck_ram_find(pid_t pid, int template_fd, uint64_t bytes, struct ck_ram *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    char path[64];
    struct stat st;
    *out = (struct ck_ram){.pid = pid, .template_fd = template_fd, .pages = bytes / CK_PAGE};
    if (fstat(template_fd, &st))
        return ck_fail_errno(err, errno, 500, "bad_ram_fd", "the template's memory cannot be found");
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    errno = 0;
    if (ck_read_file(path, MAPS_MAX, &text, NULL))
        return not_allowed(err, pid, errno ? errno : EIO, "find");
    out->nareas = text.n ? ck_maps_find((char *)text.p, st.st_dev, st.st_ino, bytes, out->area) : -1;
    return out->nareas > 0 ? 0 : ck_fail(err, 502, "vm_died", "the VM's memory is not where it should be");
}

// ---- private pages ----------------------------------------------------------------------------

static int read_words(int fd, uint64_t at, uint64_t *words, size_t n)
{
    size_t got = 0;
    while (got < n * 8) {
        ssize_t k = pread(fd, (char *)words + got, n * 8 - got, (off_t)(at + got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            errno = k ? errno : ESRCH; // the process has no memory any more
            return -1;
        }
        got += (size_t)k;
    }
    return 0;
}

int ck_ram_private(const struct ck_ram *r, struct ck_buf *runs, uint64_t *pages, struct ck_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)r->pid);
    CK_CLEAN_FREE uint64_t *words = malloc(WORDS * sizeof *words);
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    *pages = 0;
    if (fd < 0 || !words)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
        return not_allowed(err, r->pid, fd < 0 ? errno : ENOMEM, "map");
    for (int i = 0; i < r->nareas; i++) {
        const struct ck_area *a = &r->area[i];
        for (uint64_t at = 0; at < a->bytes / CK_PAGE; at += WORDS) {
            size_t n = a->bytes / CK_PAGE - at < WORDS ? (size_t)(a->bytes / CK_PAGE - at) : WORDS;
            if (read_words(fd, (a->start / CK_PAGE + at) * 8, words, n))
                return not_allowed(err, r->pid, errno, "map");
            if (ck_pagemap_runs(words, n, (uint32_t)(a->offset / CK_PAGE + at), runs, pages))
                return ck_fail(err, 500, "no_memory", "no memory for the list of a VM's pages");
        }
    }
    return 0; // NOLINT(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
}

// ---- copying ----------------------------------------------------------------------------------

struct batch {
    const struct ck_ram *r;
    bool write;
    struct iovec remote[IOVS];
    unsigned long n;
    size_t bytes;
    char *local;
};

static int flush(struct batch *b, struct ck_err *err)
{
    struct iovec local = {b->local, b->bytes};
    if (!b->n)
        return 0;
    ssize_t k = b->write ? process_vm_writev(b->r->pid, &local, 1, b->remote, b->n, 0)
                         : process_vm_readv(b->r->pid, &local, 1, b->remote, b->n, 0);
    if (k < 0)
        return not_allowed(err, b->r->pid, errno, b->write ? "write" : "read");
    if ((size_t)k != b->bytes)
        return ck_fail(err, 502, "vm_died", "a part of the VM's memory cannot be %s", b->write ? "written" : "read");
    b->local += b->bytes;
    b->bytes = 0;
    b->n = 0;
    return 0;
}

// Where a page lies in the process, and how many bytes follow it without a break.
static uint64_t place(const struct ck_ram *r, uint64_t page, uint64_t *follow)
{
    for (int i = 0; i < r->nareas; i++) {
        const struct ck_area *a = &r->area[i];
        uint64_t at = page * CK_PAGE;
        if (at >= a->offset && at - a->offset < a->bytes) {
            *follow = a->bytes - (at - a->offset);
            return a->start + (at - a->offset);
        }
    }
    return 0;
}

static int copy(const struct ck_ram *r, const struct ck_run *run, size_t n, void *p, bool write, struct ck_err *err)
{
    CK_CLEAN_FREE struct batch *b = malloc(sizeof *b);
    if (!b)
        return ck_fail(err, 500, "no_memory", "no memory to copy a VM's pages");
    b->r = r;
    b->write = write;
    b->n = 0;
    b->bytes = 0;
    b->local = p;
    for (size_t i = 0; i < n; i++)
        for (uint64_t done = 0; done < (uint64_t)run[i].count * CK_PAGE;) {
            uint64_t follow = 0, left = (uint64_t)run[i].count * CK_PAGE - done;
            uint64_t at = place(r, run[i].first + done / CK_PAGE, &follow);
            if (!at)
                return ck_fail(err, 422, "bad_layer", "a page lies outside of the VM's memory");
            if (left > follow)
                left = follow;
            if (left > BATCH)
                left = BATCH;
            if ((b->n == IOVS || b->bytes + left > BATCH) && flush(b, err))
                return -1;
            b->remote[b->n++] = (struct iovec){(void *)(uintptr_t)at, left};
            b->bytes += left;
            done += left;
        }
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    return flush(b, err);
}

int ck_ram_read(const struct ck_ram *r, const struct ck_run *run, size_t n, void *p, struct ck_err *err)
{
    return copy(r, run, n, p, false, err);
}

int ck_ram_write(const struct ck_ram *r, const struct ck_run *run, size_t n, const void *p, struct ck_err *err)
{
    return copy(r, run, n, (void *)(uintptr_t)p, true, err); // process_vm_writev only reads it
}
