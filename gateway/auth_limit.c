// A bucket for each address: full at first, a failure takes one, time puts them back. The place of an address
// is a hash under a secret, so that nobody can choose addresses that push out another's.
#include "gateway/auth_limit.h"

#include "common/ck_crypto.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct bucket {
    uint64_t address; // 0 = free
    int64_t full_at;  // ck_mono_ms() at which it will be full again
};

struct auth_limit {
    int64_t step_ms, depth_ms; // what a failure costs; how much may be owed
    uint64_t secret, failures, refused;
    struct bucket set[AUTH_LIMIT_SETS][AUTH_LIMIT_WAYS];
};

struct auth_limit *auth_limit_new(int a_minute)
{
    struct auth_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->step_ms = a_minute ? 60000 / a_minute : 0;
    l->depth_ms = l->step_ms * a_minute;
    ck_random(&l->secret, sizeof l->secret);
    return l;
}

void auth_limit_free(struct auth_limit *l) { free(l); }
uint64_t auth_limit_failures(const struct auth_limit *l) { return l->failures; }
uint64_t auth_limit_refused(const struct auth_limit *l) { return l->refused; }

// splitmix64: which set; not for anything that must be hard to turn round.
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// Its bucket, or that of the one in its set that owes least.
static struct bucket *find(struct auth_limit *l, uint64_t address, int64_t now_ms)
{
    struct bucket *set = l->set[mix(address ^ l->secret) % AUTH_LIMIT_SETS], *best = &set[0];
    for (int i = 0; i < AUTH_LIMIT_WAYS; i++) {
        if (set[i].address == address)
            return &set[i];
        if (set[i].full_at < best->full_at)
            best = &set[i];
    }
    *best = (struct bucket){address, now_ms};
    return best;
}

int auth_limit_failed(struct auth_limit *l, uint64_t address, int64_t now_ms)
{
    l->failures++;
    if (!l->step_ms)
        return 0;
    struct bucket *b = find(l, address ? address : 1, now_ms);
    if (b->full_at < now_ms)
        b->full_at = now_ms;
    int64_t owed = b->full_at - now_ms + l->step_ms;
    if (owed <= l->depth_ms) {
        b->full_at += l->step_ms;
        return 0;
    }
    l->refused++;
    return (int)((owed - l->depth_ms + 999) / 1000);
}

uint64_t auth_limit_key(const struct sockaddr *peer)
{
    uint64_t key = 1;
    if (peer->sa_family == AF_INET)
        key = 1ull << 40 | ntohl(((const struct sockaddr_in *)(const void *)peer)->sin_addr.s_addr);
    else if (peer->sa_family == AF_INET6)
        memcpy(&key, ((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr.s6_addr, sizeof key);
    return key;
}
