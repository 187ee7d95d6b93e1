// What a checkpoint does on the thread pool. Must never leave a folder under a layer's name that is not
// complete and synced, and must do as little as it can while the VM stands still: one scan of its page
// map, one copy into memory that is there already.
#include "vmm/checkpoint.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/host.h"
#include "vmm/layer_file.h"
#include "vmm/layer_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DIRECT_CHUNK (4u << 20)       // stays in the cache between reading and writing
#define SPARE (16ull << 20)           // of disk space beyond the pages
#define MORE_PAGES 1024               // that a VM may come to own between the estimate and the stop

static int no_space(struct ck_err *err, int e, const char *what)
{
    return ck_fail_errno(err, e, e == ENOSPC ? 507 : 500, e == ENOSPC ? "no_space" : "cannot_write", "cannot %s", what);
}

// ---- before the stop --------------------------------------------------------------------------

static int make_folder(struct ck_checkpoint_job *j)
{
    if (mkdir(j->dir, 0700) && errno != EEXIST)
        return no_space(&j->work_err, errno, "make the folder of layers");
    if (mkdir(j->tmp, 0700))
        return no_space(&j->work_err, errno, "make the folder of a layer");
    j->tmp_fd = open(j->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return j->tmp_fd < 0 ? no_space(&j->work_err, errno, "open the folder of a layer") : 0;
}

static int make_next_disk(struct ck_checkpoint_job *j)
{
    if (ck_template_make_disk(j->template, j->disk_next, &j->work_err))
        return -1;
    j->next_rw = open(j->disk_next, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    j->next_ro = open(j->disk_next, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return j->next_rw < 0 || j->next_ro < 0 ? no_space(&j->work_err, errno, "open a session's next disk") : 0;
}

// The device state goes into memory: QEMU writes it while the VM stands still.
static int make_state_file(struct ck_checkpoint_job *j)
{
    char path[64];
    j->state_fd = memfd_create("cellkeep-state", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", j->state_fd);
    j->state_w = j->state_fd < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC); // QEMU asks for one of exactly this mode
    return j->state_w < 0 ? ck_fail_errno(&j->work_err, errno, 500, "no_memory", "no memory for a device state") : 0;
}

static int make_room(struct ck_checkpoint_job *j, uint64_t pages)
{
    if (j->pages)
        munmap(j->pages, j->room);
    j->pages = NULL;
    j->room = (size_t)(pages ? pages : 1) * CK_PAGE;
    void *p = mmap(NULL, j->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return ck_fail_errno(&j->work_err, errno, 503, "no_memory", "no memory to copy %llu pages of a VM",
                             (unsigned long long)pages);
    madvise(p, j->room, MADV_HUGEPAGE);
    j->pages = p;
    return 0;
}

int ck_checkpoint_prepare(struct ck_checkpoint_job *j)
{
    CK_CLEAN_BUF struct ck_buf runs = CK_BUF_INIT;
    uint64_t pages;
    if (ck_ram_find(j->pid, j->template_ram, ck_template_ram_bytes(j->template), &j->ram, &j->work_err) ||
        ck_ram_private(&j->ram, &runs, &pages, &j->work_err) || make_folder(j))
        return -1;
    uint64_t need = pages * CK_PAGE + SPARE, have = ck_host_disk_free(j->tmp);
    if (have < need)
        return ck_fail(&j->work_err, 507, "no_space", "a layer needs about %llu MiB of disk, %llu MiB are free",
                       (unsigned long long)(need >> 20), (unsigned long long)(have >> 20));
    j->direct = j->stay || pages * CK_PAGE > CK_CHECKPOINT_COPY_MAX;
    if (make_next_disk(j) || make_state_file(j) || (!j->direct && make_room(j, pages + pages / 16 + MORE_PAGES)))
        return -1;
    // The memory itself, not only the addresses: nothing of that may fall into the stop.
    for (size_t at = 0; !j->direct && at < j->room; at += CK_PAGE)
        *(volatile uint8_t *)(j->pages + at) = 0;
    return 0;
}

// ---- while the VM stands still ----------------------------------------------------------------

static int open_writer(struct ck_checkpoint_job *j, int *fd, struct ck_ram_writer **w)
{
    *fd = openat(j->tmp_fd, "ram", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (*fd < 0)
        return no_space(&j->work_err, errno, "write the memory of a layer");
    return ck_ram_writer_new(*fd, j->template_ram, j->ram.pages, j->deadline, w, &j->work_err);
}

static int copy_through(struct ck_checkpoint_job *j, struct ck_ram_writer *w)
{
    CK_CLEAN_FREE uint8_t *chunk = malloc(DIRECT_CHUNK);
    const struct ck_run *run = (const struct ck_run *)(void *)j->runs.p; // malloc'ed, and nothing but these in it
    size_t n = j->runs.n / sizeof *run;
    if (!chunk)
        return ck_fail(&j->work_err, 500, "no_memory", "no memory to copy a VM's pages");
    for (size_t i = 0; i < n; i++)
        for (uint32_t done = 0; done < run[i].count;) {
            struct ck_run part = {run[i].first + done, run[i].count - done};
            if (part.count > DIRECT_CHUNK / CK_PAGE)
                part.count = DIRECT_CHUNK / CK_PAGE;
            if (ck_ram_read(&j->ram, &part, 1, chunk, &j->work_err) ||
                ck_ram_writer_add(w, &part, 1, chunk, &j->work_err))
                return -1;
            done += part.count;
        }
    return 0; // NOLINT(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
}

static int copy_into_file(struct ck_checkpoint_job *j)
{
    struct ck_ram_writer *w = NULL;
    CK_CLEAN_FD int fd = -1;
    int rc = open_writer(j, &fd, &w) || copy_through(j, w) || ck_ram_writer_end(w, &j->made.info, &j->work_err);
    ck_ram_writer_free(w);
    return rc ? -1 : 0;
}

int ck_checkpoint_copy(struct ck_checkpoint_job *j)
{
    uint64_t pages;
    if (ck_ram_private(&j->ram, &j->runs, &pages, &j->work_err))
        return -1;
    j->made.private_pages = pages;
    if (!j->direct && pages * CK_PAGE > CK_CHECKPOINT_COPY_MAX)
        j->direct = true; // has grown since
    if (j->direct)
        return copy_into_file(j);
    if (pages * CK_PAGE > j->room && make_room(j, pages))
        return -1;
    return ck_ram_read(&j->ram, (const struct ck_run *)(void *)j->runs.p, j->runs.n / sizeof(struct ck_run), j->pages,
                       &j->work_err);
}

// ---- after it ---------------------------------------------------------------------------------

static int write_ram(struct ck_checkpoint_job *j)
{
    struct ck_ram_writer *w = NULL;
    CK_CLEAN_FD int fd = -1;
    int rc = open_writer(j, &fd, &w) ||
             ck_ram_writer_add(w, (const struct ck_run *)(void *)j->runs.p, j->runs.n / sizeof(struct ck_run), j->pages,
                               &j->work_err) ||
             ck_ram_writer_end(w, &j->made.info, &j->work_err);
    ck_ram_writer_free(w);
    return rc;
}

static int write_state(struct ck_checkpoint_job *j)
{
    struct stat st;
    if (fstat(j->state_fd, &st) || st.st_size <= 0 || st.st_size > (64 << 20))
        return ck_fail(&j->work_err, 502, "bad_qmp", "QEMU wrote no device state");
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, j->state_fd, 0);
    if (p == MAP_FAILED)
        return ck_fail_errno(&j->work_err, errno, 500, "no_memory", "no memory for a device state");
    int rc = ck_layer_put_file(j->tmp_fd, "state", p, (size_t)st.st_size, &j->made.info.state, &j->work_err);
    munmap(p, (size_t)st.st_size);
    return rc;
}

// The disk that the VM wrote until the stop. QEMU has it open and does not care for its name.
static int take_disk(struct ck_checkpoint_job *j)
{
    struct stat st;
    if (renameat(AT_FDCWD, j->disk_now, j->tmp_fd, "disk.qcow2"))
        return ck_fail_errno(&j->work_err, errno, 500, "cannot_write", "cannot move a session's disk into its layer");
    CK_CLEAN_FD int fd = openat(j->tmp_fd, "disk.qcow2", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return ck_fail(&j->work_err, 500, "cannot_write", "a session's disk is no file any more");
    if (fsync(fd))
        return no_space(&j->work_err, errno, "write the disk of a layer");
    return ck_layer_sum_file(fd, j->deadline, &j->made.info.disk, &j->work_err);
}

static int publish(struct ck_checkpoint_job *j)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf json = CK_BUF_INIT;
    j->made.info.created_us = ck_wall_us();
    if (j->session_text.n &&
        ck_layer_put_file(j->tmp_fd, "session.json", j->session_text.p, j->session_text.n, NULL, &j->work_err))
        return -1;
    if (ck_layer_print_json(&j->made.info, &json))
        return ck_fail(&j->work_err, 500, "no_memory", "no memory for layer.json");
    if (ck_layer_put_file(j->tmp_fd, "layer.json", json.p, json.n, NULL, &j->work_err) ||
        ck_path(path, sizeof path, &j->work_err, "%s/%s", j->dir, j->made.info.id))
        return -1;
    CK_CLEAN_FD int dir = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fsync(j->tmp_fd) ||
        syscall(SYS_renameat2, AT_FDCWD, j->tmp, AT_FDCWD, path, 1u /* RENAME_NOREPLACE */))
        return no_space(&j->work_err, errno, "give a layer its name");
    if (!fsync(dir))
        return 0;
    int e = errno;
    (void)!rename(path, j->tmp); // a layer that may not last is none
    return no_space(&j->work_err, e, "sync the folder of layers");
}

static int sync_ram(struct ck_checkpoint_job *j)
{
    CK_CLEAN_FD int fd = openat(j->tmp_fd, "ram", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fsync(fd) ? no_space(&j->work_err, errno, "write the memory of a layer") : 0;
}

int ck_checkpoint_write(struct ck_checkpoint_job *j)
{
    if ((!j->direct && write_ram(j)) || sync_ram(j) || write_state(j) || take_disk(j) || publish(j))
        return -1;
    j->made.total_us = ck_mono_us() - j->begun_us;
    return 0;
}

void ck_checkpoint_clean(struct ck_checkpoint_job *j)
{
    int *const fds[] = {&j->tmp_fd, &j->next_rw, &j->next_ro, &j->state_fd, &j->state_w};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    if (j->pages)
        munmap(j->pages, j->room);
    j->pages = NULL;
    ck_buf_free(&j->runs);
    ck_buf_free(&j->session_text);
    if (!j->err.status)
        return;
    ck_remove_tree(j->tmp, NULL);
    if (!j->snapshotted)
        unlink(j->disk_next);
}
