// Finds the victim in one record of the kernel log. Pure. Only the message of the record counts:
// a process name cannot forge a line, because the kernel writes it in parentheses after the pid,
// and user space cannot write to the log (it needs root).
#include "guest/agent/kmsg.h"

#include <string.h>

int ag_kmsg_victim(const char *record, size_t n)
{
    static const char want[] = "Killed process ";
    const char *semi = memchr(record, ';', n);
    const char *end = record + n;
    const char *nl = semi ? memchr(semi, '\n', (size_t)(end - semi)) : NULL;
    if (!semi)
        return 0;
    if (nl)
        end = nl; // continuation lines are properties
    const char *at = memmem(semi, (size_t)(end - semi), want, sizeof want - 1);
    if (!at || memchr(semi, '(', (size_t)(at - semi)))
        return 0;
    long pid = 0;
    for (at += sizeof want - 1; at < end && *at >= '0' && *at <= '9' && pid < 10000000; at++)
        pid = pid * 10 + (*at - '0');
    return at < end && *at == ' ' ? (int)pid : 0;
}
