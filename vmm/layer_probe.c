// Trying the calls that layers need, on a child: a private mapping of a memfd, one page of it changed.
// What a policy (Yama, seccomp, a container) says about it is not to be known otherwise.
#include "vmm/layer_ram.h"

#include "common/ck_clean.h"
#include "common/ck_time.h"
#include "vmm/layer_index.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PAGES 8u
#define PROBE_MS 5000

static _Noreturn void child(int ram, int ready)
{
    // Dumpable as QEMU is, which is executed afresh and keeps nothing of our change of user.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        _exit(1);
    char *p = mmap(NULL, (size_t)PAGES * CK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram, 0);
    if (p == MAP_FAILED)
        _exit(1);
    memcpy(p + (size_t)3 * CK_PAGE, "mine", 5);
    if (write(ready, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static bool is_ready(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t end = ck_mono_ms() + PROBE_MS, left;
    int n = -1;
    while ((left = end - ck_mono_ms()) > 0 && (n = poll(&ready, 1, (int)left)) < 0 && errno == EINTR)
        ;
    return n == 1 && (ready.revents & POLLIN);
}

static int look(pid_t pid, int ram, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf runs = CK_BUF_INIT;
    struct ck_ram r;
    uint64_t pages;
    char page[CK_PAGE];
    const struct ck_run want = {3, 1};
    if (ck_ram_find(pid, ram, (uint64_t)PAGES * CK_PAGE, &r, err) || ck_ram_private(&r, &runs, &pages, err))
        return -1;
    if (pages != 1 || runs.n != sizeof want || memcmp(runs.p, &want, sizeof want) != 0)
        return ck_fail(err, 501, "no_layers", "the kernel does not tell a process's own pages from those of a file");
    if (ck_ram_read(&r, &want, 1, page, err) || ck_ram_write(&r, &want, 1, page, err))
        return -1;
    return strcmp(page, "mine") ? ck_fail(err, 501, "no_layers", "a child's memory reads as something else") : 0;
}

int ck_layer_probe(struct ck_err *err)
{
    int p[2];
    CK_CLEAN_FD int ram = memfd_create("cellkeep-probe", MFD_CLOEXEC);
    if (ram < 0 || ftruncate(ram, (off_t)PAGES * CK_PAGE) || pipe2(p, O_CLOEXEC))
        return ck_fail_errno(err, errno, 501, "no_layers", "cannot try to read a child's memory");
    // Without the handlers of fork: libuv's closes, by their numbers, descriptors that it had, and where a jail has
    // closed those before, the numbers are ours now.
    pid_t pid = _Fork();
    if (pid == 0)
        child(ram, p[1]);
    close(p[1]);
    int rc = pid > 0 && is_ready(p[0]) ? look(pid, ram, err)
                                       : ck_fail(err, 501, "no_layers", "cannot try to read a child's memory");
    close(p[0]);
    if (pid > 0)
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return rc;
}
