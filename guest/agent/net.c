// The guest's addresses, by ioctl. There is no default route and no route to the virtual network
// but its host end: a connect to anywhere else fails at once with "Network is unreachable".
#include "guest/agent/boot.h"

#include "common/ck_clean.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUEST "10.0.2.15"
#define HOST_END "10.0.2.2"

static struct sockaddr addr(const char *ip)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr out;
    inet_pton(AF_INET, ip, &in.sin_addr);
    memcpy(&out, &in, sizeof out);
    return out;
}

static int up(int fd, const char *name, struct ck_err *err)
{
    struct ifreq r = {.ifr_flags = 0};
    snprintf(r.ifr_name, IFNAMSIZ, "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &r) < 0)
        return ck_fail_errno(err, errno, 500, "network", "no interface %s", name);
    r.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &r) < 0)
        return ck_fail_errno(err, errno, 500, "network", "%s up", name);
    return 0;
}

static int set_address(int fd, const char *name, struct ck_err *err)
{
    struct ifreq r = {.ifr_flags = 0};
    snprintf(r.ifr_name, IFNAMSIZ, "%s", name);
    r.ifr_addr = addr(GUEST);
    if (ioctl(fd, SIOCSIFADDR, &r) < 0)
        return ck_fail_errno(err, errno, 500, "network", "%s address", name);
    r.ifr_netmask = addr("255.255.255.255");
    if (ioctl(fd, SIOCSIFNETMASK, &r) < 0)
        return ck_fail_errno(err, errno, 500, "network", "%s netmask", name);
    return 0;
}

static int host_route(int fd, char *name, struct ck_err *err)
{
    struct rtentry rt = {.rt_dst = addr(HOST_END),
                         .rt_genmask = addr("255.255.255.255"),
                         .rt_flags = RTF_UP | RTF_HOST,
                         .rt_dev = name};
    if (ioctl(fd, SIOCADDRT, &rt) < 0 && errno != EEXIST)
        return ck_fail_errno(err, errno, 500, "network", "route to the host's end");
    return 0;
}

int ag_boot_network(struct ck_err *err)
{
    char eth[] = "eth0";
    CK_CLEAN_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "network", "socket");
    CK_CLEAN_FD int v6 = open("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", O_WRONLY | O_CLOEXEC);
    if (v6 >= 0 && write(v6, "1", 1) != 1)
        return ck_fail_errno(err, errno, 500, "network", "no IPv6 on eth0");
    if (up(fd, "lo", err) < 0 || set_address(fd, eth, err) < 0 || up(fd, eth, err) < 0)
        return -1;
    return host_route(fd, eth, err);
}
