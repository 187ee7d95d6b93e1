// How much memory the host has left: so that sessions are refused in words before the host swaps or
// its OOM killer ends one. An estimate; must never be the reason why nothing starts where /proc is odd.
#include "gateway/host_memory.h"

#include "common/ck_clean.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t host_memory_parse(const char *text)
{
    static const char key[] = "MemAvailable:";
    const char *at = strstr(text, key);
    char *end;
    if (!at || (at != text && at[-1] != '\n'))
        return -1;
    long long kib = strtoll(at + sizeof key - 1, &end, 10);
    return end == at + sizeof key - 1 || kib < 0 || strncmp(end, " kB", 3) != 0 ? -1 : kib / 1024;
}

int64_t host_memory_available_mb(void)
{
    char text[4096];
    CK_CLEAN_FD int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return host_memory_parse(text);
}
