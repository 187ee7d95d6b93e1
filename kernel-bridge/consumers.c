// Two small tables: consumers and sessions. A session remembers its owner and how far its replies
// were acknowledged, so that a client which comes back under another name (a new socket of a
// notebook server, say) gets the reply that its old socket missed. Must never grow past its caps.
#include "kernel-bridge/consumers.h"

#include <stdlib.h>

#define BUCKETS 1024

struct session {
    struct session *next; // in its bucket
    struct session *newer, *older;
    struct consumer *owner; // NULL when forgotten
    uint64_t acked;
    char id[];
};

struct consumer {
    char name[CONS_NAME_MAX];
    struct consumers *table;
    uint64_t acked, used;
    void *holder;
};

struct consumers {
    struct consumer *all[CONS_MAX];
    unsigned count, sessions;
    struct session *bucket[BUCKETS];
    struct session *newest, *oldest;
    uint64_t clock;
};

struct consumers *cons_new(void) { return calloc(1, sizeof(struct consumers)); }

void cons_free(struct consumers *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->count; i++)
        free(t->all[i]);
    for (struct session *s = t->newest, *next; s; s = next) {
        next = s->older;
        free(s);
    }
    free(t);
}

static unsigned hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    return h % BUCKETS;
}

static struct session *find(const struct consumers *t, const char *id)
{
    struct session *s = t->bucket[hash(id)];
    while (s && strcmp(s->id, id))
        s = s->next;
    return s;
}

static void unlink_lru(struct consumers *t, struct session *s)
{
    *(s->newer ? &s->newer->older : &t->newest) = s->older;
    *(s->older ? &s->older->newer : &t->oldest) = s->newer;
}

static void link_newest(struct consumers *t, struct session *s)
{
    s->newer = NULL;
    s->older = t->newest;
    *(t->newest ? &t->newest->newer : &t->oldest) = s;
    t->newest = s;
}

static void session_remove(struct consumers *t, struct session *s)
{
    struct session **at = &t->bucket[hash(s->id)];
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    unlink_lru(t, s);
    t->sessions--;
    free(s);
}

static struct session *session_add(struct consumers *t, const char *id, uint64_t acked)
{
    if (t->sessions >= CONS_SESSIONS_MAX)
        session_remove(t, t->oldest);
    size_t n = strlen(id) + 1;
    struct session *s = calloc(1, sizeof *s + n);
    if (!s)
        return NULL;
    memcpy(s->id, id, n);
    s->acked = acked;
    s->next = t->bucket[hash(id)];
    t->bucket[hash(id)] = s;
    link_newest(t, s);
    t->sessions++;
    return s;
}

static bool forget_oldest(struct consumers *t)
{
    unsigned victim = t->count;
    for (unsigned i = 0; i < t->count; i++)
        if (!t->all[i]->holder && (victim == t->count || t->all[i]->used < t->all[victim]->used))
            victim = i;
    if (victim == t->count)
        return false;
    struct consumer *c = t->all[victim];
    for (struct session *s = t->newest; s; s = s->older)
        if (s->owner == c)
            s->owner = NULL;
    free(c);
    t->all[victim] = t->all[--t->count];
    return true;
}

struct consumer *cons_get(struct consumers *t, const char *name, bool *is_new)
{
    *is_new = false;
    for (unsigned i = 0; i < t->count; i++)
        if (!strcmp(t->all[i]->name, name)) {
            t->all[i]->used = ++t->clock;
            return t->all[i];
        }
    size_t n = strlen(name);
    if (n >= CONS_NAME_MAX || (t->count == CONS_MAX && !forget_oldest(t)))
        return NULL;
    struct consumer *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    memcpy(c->name, name, n + 1);
    c->table = t;
    c->used = ++t->clock;
    t->all[t->count++] = c;
    *is_new = true;
    return c;
}

uint64_t cons_acked(const struct consumer *c) { return c->acked; }
void *cons_holder(const struct consumer *c) { return c->holder; }

void cons_ack(struct consumers *t, struct consumer *c, uint64_t seq)
{
    if (seq <= c->acked)
        return;
    c->acked = seq;
    for (struct session *s = t->newest; s; s = s->older)
        if (s->owner == c && seq > s->acked)
            s->acked = seq;
}

void cons_set_holder(struct consumers *t, struct consumer *c, void *holder, uint64_t now_seq)
{
    c->holder = holder;
    c->used = ++t->clock;
    if (now_seq > c->acked)
        c->acked = now_seq;
}

unsigned cons_attached(const struct consumers *t)
{
    unsigned n = 0;
    for (unsigned i = 0; i < t->count; i++)
        n += t->all[i]->holder != NULL;
    return n;
}

int cons_learn(struct consumers *t, struct consumer *c, const char *session, uint64_t *from)
{
    struct session *s = find(t, session);
    c->used = ++t->clock;
    if (s) {
        unlink_lru(t, s);
        link_newest(t, s);
        if (s->owner == c)
            return 0;
        // An owner that is attached has been delivered to; one that went away has missed something.
        bool missed = !s->owner || !s->owner->holder;
        s->owner = c;
        *from = s->acked;
        return missed ? 1 : 0;
    }
    s = session_add(t, session, c->acked);
    if (!s)
        return -1;
    s->owner = c;
    *from = c->acked;
    return 1;
}

bool cons_owns(const struct consumer *c, const char *session)
{
    const struct session *s = session[0] ? find(c->table, session) : NULL;
    return s && s->owner == c;
}

bool cons_owns_any(const void *consumer, const char *session) { return cons_owns(consumer, session); }

unsigned cons_count(const struct consumers *t) { return t->count; }
unsigned cons_sessions(const struct consumers *t) { return t->sessions; }

void cons_at(const struct consumers *t, unsigned i, struct cons_seen *out)
{
    *out = (struct cons_seen){t->all[i]->name, t->all[i]->acked, t->all[i]->used, -1};
}

int cons_each_session(const struct consumers *t, cons_session_fn fn, void *user)
{
    int rc = 0;
    for (const struct session *s = t->oldest; s && !rc; s = s->newer) {
        int owner = s->owner ? (int)t->count - 1 : -1;
        while (owner >= 0 && t->all[owner] != s->owner)
            owner--;
        rc = fn(user, &(struct cons_seen){s->id, s->acked, 0, owner});
    }
    return rc;
}

int cons_restore(struct consumers *t, const struct cons_seen *seen)
{
    bool is_new = false;
    struct consumer *c = t->count < CONS_MAX ? cons_get(t, seen->name, &is_new) : NULL;
    if (!c || !is_new)
        return -1;
    c->acked = seen->acked;
    c->used = seen->used;
    if (seen->used > t->clock)
        t->clock = seen->used;
    return 0;
}

int cons_restore_session(struct consumers *t, const struct cons_seen *seen)
{
    if (!seen->name[0] || seen->owner >= (int)t->count || t->sessions >= CONS_SESSIONS_MAX || find(t, seen->name))
        return -1;
    struct session *s = session_add(t, seen->name, seen->acked);
    if (!s)
        return -1;
    s->owner = seen->owner >= 0 ? t->all[seen->owner] : NULL;
    return 0;
}
