// How often one address may come with a wrong token. Only those who come with a wrong one are ever told to
// wait: a right token is let in whoever else sits behind the same address, so nobody can lock out anybody.
// What makes guessing hopeless is the length of tokens; this makes it slow, cheap for us and visible.
// Constant memory: a table of the addresses that failed lately, in which the oldest give way. Loop thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct auth_limit;

// a_minute: failures of one address that are answered as such, in a burst and again a minute; 0 = any number.
// NULL = out of memory.
struct auth_limit *auth_limit_new(int a_minute);
void auth_limit_free(struct auth_limit *l); // NULL is fine

// Notes a failure. address: as of auth_limit_key(). 0 = it is told that the token is wrong, else the seconds
// after which it may try again.
int auth_limit_failed(struct auth_limit *l, uint64_t address, int64_t now_ms);

// The client of a connected socket: an IPv4 address, or the /64 of an IPv6 one, which is one client's.
struct sockaddr;
uint64_t auth_limit_key(const struct sockaddr *peer);

uint64_t auth_limit_failures(const struct auth_limit *l); // since the start
uint64_t auth_limit_refused(const struct auth_limit *l);  // of them, told to wait
#define AUTH_LIMIT_SETS 1024
#define AUTH_LIMIT_WAYS 4
