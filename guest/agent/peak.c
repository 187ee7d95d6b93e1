// Reads and sets back the high-water marks. Everything may be gone by the time it is read: then it
// counts as nothing. Must never take long, however many processes there are.
#include "guest/agent/peak.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USER "/sys/fs/cgroup/user"
#define FILE_MAX (64 * 1024)

static const struct ag_peak_proc *find(const struct ag_peak *p, int pid)
{
    for (int i = 0; i < p->procs; i++)
        if (p->proc[i].pid == pid)
            return &p->proc[i];
    return NULL;
}

// Notes the process for the next span. Returns by how much it grew in this one.
static uint64_t look_at(const struct ag_peak *then, struct ag_peak *next, int pid)
{
    char path[40];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (ck_read_file(path, FILE_MAX, &text, NULL) < 0)
        return 0;
    uint64_t mark = ag_peak_field(ck_buf_slice(&text), "VmHWM"), held = ag_peak_field(ck_buf_slice(&text), "VmRSS");
    snprintf(path, sizeof path, "/proc/%d/clear_refs", pid);
    CK_CLEAN_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "5", 1) != 1)
        return 0; // its mark is that of its whole life: of no use
    next->proc[next->procs++] = (struct ag_peak_proc){pid, held};
    const struct ag_peak_proc *before = find(then, pid);
    return before && mark > before->resident ? mark - before->resident : 0;
}

static uint64_t look_into(const struct ag_peak *then, struct ag_peak *next, const char *group)
{
    char path[300];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    snprintf(path, sizeof path, USER "/%s/cgroup.procs", group);
    if (ck_read_file(path, FILE_MAX, &text, NULL) < 0 || !text.n)
        return 0;
    uint64_t grown = 0;
    for (char *at = (char *)text.p, *end; next->procs < AG_PEAK_PROCS; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at || pid <= 0)
            break;
        grown += look_at(then, next, (int)pid);
    }
    return grown;
}

uint64_t ag_peak_since(struct ag_peak *p, const struct ag_usage *now)
{
    struct ag_peak next = {.life = now->peak_memory_bytes, .held = now->memory_bytes};
    uint64_t grown = 0;
    DIR *dir = opendir(USER);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            grown += look_into(p, &next, e->d_name);
    if (dir)
        closedir(dir);
    uint64_t peak = ag_peak_of_span(p, now, grown);
    *p = next;
    return peak;
}
