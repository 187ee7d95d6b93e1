// The file `ram` of a layer: from pages, and into a VM. Must never store what the template has already,
// nor trust a byte of the file before it is checked to lie inside of the VM's memory.
#include "vmm/layer_ram.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/layer_index.h"
#include "vmm/layer_sum.h"

#include <errno.h>

#define PIECE 256u // pages that are looked at at once: 1 MiB

// ---- writing ----------------------------------------------------------------------------------

struct ck_ram_writer {
    int fd, template_fd;
    int64_t deadline;
    struct ck_sum *sum;
    struct ck_ram_tail tail;
    uint64_t bytes;        // written
    struct ck_ram_range last; // not yet in index
    struct ck_buf index;
    unsigned nout;         // pages in out
    uint8_t below[PIECE * CK_PAGE], out[PIECE * CK_PAGE];
};

int ck_ram_writer_new(int fd, int template_fd, uint64_t guest_pages, int64_t deadline, struct ck_ram_writer **out,
                      struct ck_err *err)
{
    struct ck_ram_writer *w = malloc(sizeof *w); // not cleared: 2 MiB that are overwritten anyway
    *out = NULL;
    if (!w)
        return ck_fail(err, 500, "no_memory", "no memory to write a layer");
    w->fd = fd;
    w->template_fd = template_fd;
    w->deadline = deadline;
    w->sum = NULL;
    w->tail = (struct ck_ram_tail){.guest_pages = guest_pages};
    w->bytes = 0;
    w->last = (struct ck_ram_range){0, 0, false};
    w->index = (struct ck_buf)CK_BUF_INIT;
    w->nout = 0;
    if (ck_sum_new(&w->sum, err)) {
        ck_ram_writer_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

void ck_ram_writer_free(struct ck_ram_writer *w)
{
    if (!w)
        return;
    ck_sum_free(w->sum);
    ck_buf_free(&w->index);
    free(w);
}

static int put(struct ck_ram_writer *w, const void *p, size_t n, struct ck_err *err)
{
    if (ck_mono_ms() > w->deadline)
        return ck_fail(err, 504, "timeout", "the layer was not written in time");
    if (ck_write_all(w->fd, p, n))
        return ck_fail_errno(err, errno, errno == ENOSPC ? 507 : 500, errno == ENOSPC ? "no_space" : "cannot_write",
                             "cannot write the memory of a layer");
    w->bytes += n;
    return ck_sum_add(w->sum, p, n, err);
}

static int flush(struct ck_ram_writer *w, struct ck_err *err)
{
    size_t n = w->nout * (size_t)CK_PAGE;
    w->nout = 0;
    return n ? put(w, w->out, n, err) : 0;
}

static int end_range(struct ck_ram_writer *w, struct ck_err *err)
{
    uint8_t r[CK_RAM_RANGE];
    if (!w->last.count)
        return 0;
    ck_ram_print_range(w->last, r);
    w->last.count = 0;
    w->tail.ranges++;
    return ck_buf_add(&w->index, r, sizeof r) ? ck_fail(err, 500, "no_memory", "no memory for a layer's index") : 0;
}

static int add_page(struct ck_ram_writer *w, uint32_t page, const uint8_t *p, bool zero, struct ck_err *err)
{
    struct ck_ram_range *l = &w->last;
    if (l->count && (l->zero != zero || l->first + l->count != page || l->count == CK_RAM_COUNT_MAX) &&
        end_range(w, err))
        return -1;
    if (!l->count)
        *l = (struct ck_ram_range){page, 0, zero};
    l->count++;
    if (zero) {
        w->tail.zero_pages++;
        return 0;
    }
    w->tail.data_pages++;
    memcpy(w->out + (size_t)w->nout * CK_PAGE, p, CK_PAGE);
    return ++w->nout == PIECE ? flush(w, err) : 0;
}

static bool is_zero(const uint8_t *p) { return !p[0] && !memcmp(p, p + 1, CK_PAGE - 1); }

// read, not mmap: a hole of the template's memory is then not filled for everybody by looking at it.
static int read_template(const struct ck_ram_writer *w, uint64_t at, uint8_t *to, size_t n, struct ck_err *err)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(w->template_fd, to + got, n - got, (off_t)(at + got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return ck_fail_errno(err, k ? errno : EIO, 500, "bad_ram_fd", "the template's memory cannot be read");
        got += (size_t)k;
    }
    return 0;
}

int ck_ram_writer_add(struct ck_ram_writer *w, const struct ck_run *run, size_t n, const void *pages,
                      struct ck_err *err)
{
    const uint8_t *p = pages;
    for (size_t i = 0; i < n; i++)
        for (uint32_t done = 0; done < run[i].count;) {
            uint32_t k = run[i].count - done < PIECE ? run[i].count - done : PIECE, first = run[i].first + done;
            if (read_template(w, (uint64_t)first * CK_PAGE, w->below, (size_t)k * CK_PAGE, err))
                return -1;
            for (uint32_t j = 0; j < k; j++, p += CK_PAGE)
                if (memcmp(p, w->below + (size_t)j * CK_PAGE, CK_PAGE) != 0 &&
                    add_page(w, first + j, p, is_zero(p), err))
                    return -1;
            done += k;
        }
    return 0;
}

int ck_ram_writer_end(struct ck_ram_writer *w, struct ck_layer_info *info, struct ck_err *err)
{
    uint8_t tail[CK_RAM_TAIL];
    if (flush(w, err) || end_range(w, err))
        return -1;
    w->tail.index_at = w->bytes;
    ck_ram_print_tail(&w->tail, tail);
    if ((w->index.n && put(w, w->index.p, w->index.n, err)) || put(w, tail, sizeof tail, err))
        return -1;
    info->ram.bytes = w->bytes;
    info->data_pages = w->tail.data_pages;
    info->zero_pages = w->tail.zero_pages;
    return ck_sum_end(w->sum, info->ram.sum, err);
}

// ---- reading ----------------------------------------------------------------------------------

struct reader {
    const struct ck_ram *r;
    int fd;
    int64_t deadline;
    struct ck_ram_tail tail;
    uint8_t *index; // owned
    struct ck_sum *sum;
    uint8_t piece[PIECE * CK_PAGE];
    struct ck_run run[PIECE]; // where the pages of piece go
    size_t nrun, n;           // runs, pages
    uint64_t at;              // of the next piece in the file
};

static void reader_free(struct reader **x)
{
    if (!*x)
        return;
    free((*x)->index);
    ck_sum_free((*x)->sum);
    free(*x);
}

static int read_at(int fd, void *to, size_t n, uint64_t at, struct ck_err *err)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(fd, (char *)to + got, n - got, (off_t)(at + got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return ck_fail_errno(err, k ? errno : EIO, 422, "bad_layer", "the layer's memory cannot be read");
        got += (size_t)k;
    }
    return 0;
}

static int open_reader(struct reader *x, uint64_t bytes, uint8_t tail[CK_RAM_TAIL], struct ck_err *err)
{
    if (bytes < CK_RAM_TAIL)
        return ck_fail(err, 422, "bad_layer", "the layer's memory is cut short");
    if (read_at(x->fd, tail, CK_RAM_TAIL, bytes - CK_RAM_TAIL, err) ||
        ck_ram_parse_tail(tail, bytes, x->r->pages, &x->tail, err))
        return -1;
    size_t n = (size_t)x->tail.ranges * CK_RAM_RANGE;
    x->index = malloc(n ? n : 1);
    if (!x->index)
        return ck_fail(err, 500, "no_memory", "no memory for a layer's index");
    if (read_at(x->fd, x->index, n, x->tail.index_at, err) || ck_ram_check_index(&x->tail, x->index, err))
        return -1;
    return ck_sum_new(&x->sum, err);
}

// The pages that are promised to x->run, from the file into the VM.
static int flush_pages(struct reader *x, struct ck_err *err)
{
    size_t bytes = x->n * CK_PAGE;
    if (!x->n)
        return 0;
    if (ck_mono_ms() > x->deadline)
        return ck_fail(err, 504, "timeout", "the layer's memory was not loaded in time");
    if (read_at(x->fd, x->piece, bytes, x->at, err) || ck_sum_add(x->sum, x->piece, bytes, err) ||
        ck_ram_write(x->r, x->run, x->nrun, x->piece, err))
        return -1;
    x->at += bytes;
    x->n = x->nrun = 0;
    return 0;
}

static int apply_data(struct reader *x, struct ck_err *err)
{
    for (uint32_t i = 0; i < x->tail.ranges; i++) {
        struct ck_ram_range r = ck_ram_range_at(x->index, i);
        for (uint32_t done = 0; !r.zero && done < r.count;) {
            uint32_t k = r.count - done < PIECE - x->n ? r.count - done : (uint32_t)(PIECE - x->n);
            x->run[x->nrun++] = (struct ck_run){r.first + done, k};
            x->n += k;
            done += k;
            if (x->n == PIECE && flush_pages(x, err))
                return -1;
        }
    }
    return flush_pages(x, err);
}

static int apply_zeroes(struct reader *x, struct ck_err *err)
{
    if (!x->tail.zero_pages)
        return 0;
    memset(x->piece, 0, sizeof x->piece);
    for (uint32_t i = 0; i < x->tail.ranges; i++) {
        struct ck_ram_range r = ck_ram_range_at(x->index, i);
        for (uint32_t done = 0; r.zero && done < r.count;) {
            uint32_t k = r.count - done < PIECE ? r.count - done : PIECE;
            if (ck_ram_write(x->r, &(struct ck_run){r.first + done, k}, 1, x->piece, err))
                return -1;
            done += k;
        }
    }
    return 0;
}

// What the VM has of its own before: a QEMU that waits has not run, and has none, but a page that it
// did touch must be the template's again before the layer goes over it.
static int reset(struct reader *x, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf runs = CK_BUF_INIT;
    uint64_t pages;
    if (ck_ram_private(x->r, &runs, &pages, err))
        return -1;
    for (size_t i = 0; i < runs.n / sizeof(struct ck_run); i++) {
        struct ck_run r;
        memcpy(&r, runs.p + i * sizeof r, sizeof r);
        for (uint32_t done = 0; done < r.count;) {
            uint32_t k = r.count - done < PIECE ? r.count - done : PIECE;
            struct ck_run part = {r.first + done, k};
            if (read_at(x->r->template_fd, x->piece, (size_t)k * CK_PAGE, (uint64_t)part.first * CK_PAGE, err) ||
                ck_ram_write(x->r, &part, 1, x->piece, err))
                return -1;
            done += k;
        }
    }
    return 0;
}

int ck_ram_apply(const struct ck_ram *r, int fd, const struct ck_layer_file *file, int64_t deadline, struct ck_err *err)
{
    uint8_t tail[CK_RAM_TAIL];
    char sum[CK_LAYER_SUM_MAX];
    __attribute__((cleanup(reader_free))) struct reader *x = malloc(sizeof *x);
    if (!x)
        return ck_fail(err, 500, "no_memory", "no memory to load a layer");
    x->r = r;
    x->fd = fd;
    x->deadline = deadline;
    x->index = NULL;
    x->sum = NULL;
    x->nrun = x->n = 0;
    x->at = 0;
    if (open_reader(x, file->bytes, tail, err) || reset(x, err) || apply_data(x, err) || apply_zeroes(x, err) ||
        ck_sum_add(x->sum, x->index, (size_t)x->tail.ranges * CK_RAM_RANGE, err) ||
        ck_sum_add(x->sum, tail, sizeof tail, err) || ck_sum_end(x->sum, sum, err))
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
        return -1;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    return strcmp(sum, file->sum)
               ? ck_fail(err, 422, "bad_layer", "the layer's memory is damaged: its checksum is another")
               : 0;
}
