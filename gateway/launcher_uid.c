// The range of uids for bridges, as a ring: a freed uid comes last.
#include "gateway/launcher_uid.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS 8192

struct uid_pool {
    int base, next;
    bool used[SLOTS];
};

static void exclude(struct uid_pool *p, unsigned id)
{
    int slot = uid_pool_slot(p, id);
    if (slot >= 0)
        p->used[slot] = true;
}

struct uid_pool *uid_pool_new(int base)
{
    struct uid_pool *p = calloc(1, sizeof *p);
    const struct passwd *pw;
    const struct group *gr;
    if (!p)
        return NULL;
    p->base = base;
    // Gateways of one host share the range without knowing of each other: each begins elsewhere.
    p->next = (int)((unsigned)getpid() * 64 % SLOTS);
    setpwent();
    while ((pw = getpwent()))
        exclude(p, pw->pw_uid);
    endpwent();
    setgrent();
    while ((gr = getgrent()))
        exclude(p, gr->gr_gid);
    endgrent();
    return p;
}

void uid_pool_free(struct uid_pool *p)
{
    free(p);
}

int uid_pool_take(struct uid_pool *p)
{
    for (int i = 0; i < SLOTS; i++) {
        int slot = (p->next + i) % SLOTS;
        if (p->used[slot])
            continue;
        p->used[slot] = true;
        p->next = (slot + 1) % SLOTS;
        return slot;
    }
    return -1;
}

bool uid_pool_mark(struct uid_pool *p, int slot)
{
    if (p->used[slot])
        return false;
    p->used[slot] = true;
    return true;
}

void uid_pool_release(struct uid_pool *p, int slot)
{
    if (slot >= 0)
        p->used[slot] = false;
}

uid_t uid_pool_uid(const struct uid_pool *p, int slot)
{
    return (uid_t)(p->base + slot);
}

int uid_pool_slot(const struct uid_pool *p, uid_t uid)
{
    long long slot = (long long)uid - p->base;
    return slot >= 0 && slot < SLOTS ? (int)slot : -1;
}

bool uid_is_idle(uid_t uid)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    struct stat st;
    bool idle = true;
    if (!d)
        return true;
    while (idle && (e = readdir(d)))
        if (isdigit((unsigned char)e->d_name[0]) && !fstatat(dirfd(d), e->d_name, &st, 0) && st.st_uid == uid)
            idle = false;
    closedir(d);
    return idle;
}
