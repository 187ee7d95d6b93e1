// Resumes and forks: started a few at a time for every processor, so that a hundred of them take turns
// and do not starve each other. A restore is loaded in milliseconds and is then the guest's first steps,
// which under emulation are translated afresh: processor time, that no order of doing things saves.
// Resumes come first: somebody waits for each.
#include "gateway/launcher_internal.h"

#include <stdio.h>
#include <string.h>

#define RESTORES_PER_CPU 4

// Those that run may leave some; when there are none, waiting would be for nothing.
static bool may_begin(struct launcher *l, struct launch *x)
{
    int64_t have;
    if (l->nrestoring >= RESTORES_PER_CPU * (size_t)uv_available_parallelism())
        return false;
    if (launcher_has_room(l, &have))
        return true;
    if (!l->nrestoring)
        ck_fail(&x->stopped, 503, "no_capacity", "the host has too little memory left for this (%lld MiB, of which %d are kept "
                "free); pause or delete other sessions, or try again later", (long long)have, l->config->memory_reserve_mb);
    return !l->nrestoring;
}

// Whose turn is next: the oldest that waits, resumes before forks, but first those that shall not begin.
static struct launch *first_waiting(const struct launcher *l)
{
    struct launch *best = NULL; // the list begins with the newest
    for (struct launch *x = l->launches; x; x = x->next) {
        if (!x->waiting)
            continue;
        if (x->stopped.status)
            return x;
        if (!best || best->kind == LAUNCH_FORK || x->kind == LAUNCH_RESUME)
            best = x;
    }
    return best;
}

void launch_next(struct launcher *l)
{
    struct launch *x;
    while ((x = first_waiting(l)) && (x->stopped.status || may_begin(l, x))) {
        x->waiting = false;
        if (x->stopped.status) {
            x->err = x->stopped;
            launch_give_up(x);
            continue;
        }
        x->counted = true;
        l->nrestoring++;
        launch_begin(x);
    }
}

void launch_turn_over(struct launch *x)
{
    if (x->counted)
        x->l->nrestoring--;
    x->counted = false;
    launch_next(x->l);
}

static struct launch *restore(struct launcher *l, enum launch_kind kind, struct bridge_proc *p, const char *layer,
                              json_t *limits, launch_done done, void *user)
{
    struct launch *x = launch_new(l, kind, p, done, user);
    snprintf(x->layer, sizeof x->layer, "%s", layer);
    x->limits = limits;
    x->waiting = true;
    launch_next(l);
    return x;
}

struct launch *launcher_resume(struct launcher *l, struct bridge_proc *p, const char *layer, json_t *limits,
                               launch_done done, void *user)
{
    return restore(l, LAUNCH_RESUME, p, layer, limits, done, user);
}

struct launch *launcher_fork(struct launcher *l, const char *id, const char *layer, json_t *limits, launch_done done,
                             void *user)
{
    return restore(l, LAUNCH_FORK, launch_proc_new(l, id), layer, limits, done, user);
}
