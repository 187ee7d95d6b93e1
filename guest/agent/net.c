// The guest's addresses, by ioctl. There is no default route and no route to the virtual network
// but its host end: a connect to anywhere else fails at once with "Network is unreachable". Of the way
// to the host's end only TCP may use it (the answers of kernel and agent): QEMU refuses a TCP connect by
// itself, but would swallow a datagram without a word, so a rule says "unreachable" to all the rest.
#include "guest/agent/boot.h"

#include "common/ck_clean.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stddef.h>
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

struct rule_request {
    struct nlmsghdr head;
    struct fib_rule_hdr rule;
    struct rtattr priority_attr;
    uint32_t priority;
    struct rtattr proto_attr; // left out for a rule about all protocols
    uint8_t proto, pad[3];
};

// One rule of the routing policy, for every protocol when proto is 0. The rule of the local addresses (priority 0)
// stays the first one.
static int add_rule(int fd, uint32_t priority, uint8_t action, uint8_t proto, struct ck_err *err)
{
    struct rule_request ask = {
        .head = {.nlmsg_len = proto ? sizeof ask : offsetof(struct rule_request, proto_attr),
                 .nlmsg_type = RTM_NEWRULE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK},
        .rule = {.family = AF_INET, .action = action, .table = action == FR_ACT_TO_TBL ? RT_TABLE_MAIN : 0},
        .priority_attr = {.rta_len = RTA_LENGTH(sizeof ask.priority), .rta_type = FRA_PRIORITY},
        .priority = priority,
        .proto_attr = {.rta_len = RTA_LENGTH(sizeof ask.proto), .rta_type = FRA_IP_PROTO},
        .proto = proto};
    struct {
        struct nlmsghdr head;
        struct nlmsgerr result;
        uint8_t rest[sizeof ask];
    } answer;
    if (send(fd, &ask, ask.head.nlmsg_len, 0) < 0)
        return ck_fail_errno(err, errno, 500, "network", "routing policy");
    ssize_t n = recv(fd, &answer, sizeof answer, 0);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof answer.result) || answer.head.nlmsg_type != NLMSG_ERROR)
        return ck_fail(err, 500, "network", "routing policy: no answer");
    if (answer.result.error && answer.result.error != -EEXIST)
        return ck_fail_errno(err, -answer.result.error, 500, "network", "routing policy");
    return 0;
}

static int only_tcp_leaves(struct ck_err *err)
{
    CK_CLEAN_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "network", "routing socket");
    if (add_rule(fd, 100, FR_ACT_TO_TBL, IPPROTO_TCP, err) < 0)
        return -1;
    return add_rule(fd, 101, FR_ACT_UNREACHABLE, 0, err);
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
    return host_route(fd, eth, err) < 0 ? -1 : only_tcp_leaves(err);
}
