// Follows /dev/kmsg without waking up for it: the log is read when a child has died, not before.
#include "guest/agent/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define VICTIMS 64
#define RECORD_MAX 8192

struct ag_kmsg {
    int fd;
    int victim[VICTIMS]; // a ring: old ones that nobody asked for fall out
    unsigned next;
};

struct ag_kmsg *ag_kmsg_open(void)
{
    struct ag_kmsg *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (k->fd < 0) {
        free(k);
        return NULL;
    }
    lseek(k->fd, 0, SEEK_END);
    return k;
}

void ag_kmsg_close(struct ag_kmsg *k)
{
    if (!k)
        return;
    close(k->fd);
    free(k);
}

static void drain(struct ag_kmsg *k)
{
    char record[RECORD_MAX];
    for (int i = 0; i < 4096; i++) {
        ssize_t n = read(k->fd, record, sizeof record);
        if (n < 0 && errno == EPIPE)
            continue; // overwritten before we read it; the next read goes on
        if (n <= 0)
            return;
        int pid = ag_kmsg_victim(record, (size_t)n);
        if (pid)
            k->victim[k->next++ % VICTIMS] = pid;
    }
}

bool ag_kmsg_was_victim(struct ag_kmsg *k, int pid)
{
    if (!k || pid <= 0)
        return false;
    drain(k);
    for (int i = 0; i < VICTIMS; i++)
        if (k->victim[i] == pid) {
            k->victim[i] = 0;
            return true;
        }
    return false;
}
