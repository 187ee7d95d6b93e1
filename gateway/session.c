// One session as the gateway sees it: life of the object, its state, its JSON.
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/registry_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const STATE_NAMES[] = {
    [SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle", [SESSION_BUSY] = "busy", [SESSION_PAUSED] = "paused", [SESSION_DEAD] = "dead",
};
static_assert(sizeof STATE_NAMES / sizeof STATE_NAMES[0] == SESSION_DEAD + 1, "a name for every state");

const char *session_state_name(enum session_state s)
{
    return STATE_NAMES[s];
}

static struct entry *entry_of(struct session *s)
{
    return (struct entry *)s; // pub is the first member
}

struct entry *entry_new(struct registry *r, const char *id)
{
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->reg = r;
    e->refs = 1;
    snprintf(e->pub.id, sizeof e->pub.id, "%s", id);
    e->pub.metadata = json_object();
    e->pub.timeouts = json_object();
    e->pub.state = SESSION_STARTING;
    return e;
}

struct session *session_ref(struct session *s)
{
    entry_of(s)->refs++;
    return s;
}

void session_unref(struct session *s)
{
    if (!s || --entry_of(s)->refs)
        return;
    free(s->name);
    free(s->template_name);
    free(s->reason);
    json_decref(s->metadata);
    json_decref(s->timeouts);
    json_decref(s->usage);
    checkpoints_free(entry_of(s));
    free(s);
}

struct entry **entry_bucket(struct registry *r, const char *id)
{
    uint32_t h = 2166136261u;
    for (; *id; id++)
        h = (h ^ (uint8_t)(*id | 0x20)) * 16777619u;
    return &r->bucket[h % REGISTRY_BUCKETS];
}

void entry_link(struct entry *e)
{
    struct registry *r = e->reg;
    struct entry **bucket = entry_bucket(r, e->pub.id);
    e->same = *bucket;
    *bucket = e;
    e->prev = r->last;
    if (r->last)
        r->last->next = e;
    else
        r->first = e;
    r->last = e;
    if (e->pub.state != SESSION_DEAD)
        r->nlive++;
}

void entry_unlink(struct entry *e)
{
    struct registry *r = e->reg;
    struct entry **at = entry_bucket(r, e->pub.id);
    while (*at != e)
        at = &(*at)->same;
    *at = e->same;
    if (e->prev)
        e->prev->next = e->next;
    else
        r->first = e->next;
    if (e->next)
        e->next->prev = e->prev;
    else
        r->last = e->prev;
    e->next = e->prev = NULL;
    if (e->pub.state != SESSION_DEAD)
        r->nlive--;
    e->pub.deleted = true;
}

void entry_set_state(struct entry *e, enum session_state state, const char *reason)
{
    struct session *s = &e->pub;
    if (s->state == SESSION_DEAD || s->deleted || (s->state == state && !reason))
        return; // dead is for ever
    s->state = state;
    free(s->reason);
    s->reason = reason && *reason ? strdup(reason) : NULL;
    if (state != SESSION_DEAD)
        return;
    e->reg->nlive--;
    e->reg->died++;
    ck_log(CK_LOG_WARN, "registry", "session_dead id=%s reason=\"%s\"", s->id, s->reason ? s->reason : "");
    store_put_session(e->reg->store, s, NULL, NULL);
}

void entry_paused(struct entry *e, const char *layer, int64_t since_us)
{
    struct session *s = &e->pub;
    memcpy(e->life.layer, layer, CK_UUID_MAX);
    if (e->proc)
        e->proc->proc = (struct ck_proc_id){0, 0};
    entry_set_state(e, SESSION_PAUSED, NULL);
    s->paused_us = since_us;
    if (!s->deleted)
        store_put_session(e->reg->store, s, NULL, NULL);
}

void session_connected(struct session *s, int delta)
{
    s->connections += delta;
}

void session_touch(struct session *s)
{
    s->last_activity_us = ck_wall_us();
}

int64_t session_cell_ms(const struct session *s, int64_t asked_ms)
{
    const int64_t no_end_s = 7 * 24 * 3600, max_ms = ((const struct entry *)s)->reg->config->max_cell_timeout_ms;
    int64_t own_s = ck_json_int(s->timeouts, "cell_s", -1, NULL);
    if (asked_ms || own_s < 0)
        return asked_ms;
    return own_s ? own_s * 1000 : max_ms ? max_ms : no_end_s * 1000;
}

json_t *session_json(const struct session *s)
{
    char created[CK_ISO8601_MAX], active[CK_ISO8601_MAX];
    ck_iso8601_us(s->created_us, created);
    ck_iso8601_us(s->last_activity_us, active);
    json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:s,s:O}", "id", s->id, "name", s->name, "state",
                          session_state_name(s->state), "template", s->template_name, "memory_mb", s->memory_mb,
                          "accelerator", s->accelerator, "created_at", created, "last_activity", active, "metadata", s->metadata);
    if (j && s->reason && s->state == SESSION_DEAD)
        json_object_set_new(j, "reason", json_string(s->reason));
    if (j && json_object_size(s->timeouts))
        json_object_set(j, "timeouts", s->timeouts);
    if (j)
        json_object_set_new(j, "limits", caps_json(&s->caps));
    return j;
}
