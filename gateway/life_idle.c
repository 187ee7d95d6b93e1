// What time does to sessions: those at rest for idle_s are paused, those paused for delete_s deleted,
// and nobody waits for a resume for ever. Also the pausing of all sessions when the gateway ends.
#include "gateway/life_internal.h"

#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/registry_internal.h"
#include "gateway/registry_run.h"

#include <stdlib.h>

#define SWEEP_MS 1000
#define USAGE_MS 10000 // between two looks at what a busy session has used
#define BUSY_RETRY_MIN_S 5   // a session that was in use is asked again after its idle_s, within these bounds
#define BUSY_RETRY_MAX_S 60
#define ALL_AT_ONCE 3        // pauses of the drain
#define ALL_MS 60000         // and how long no new one begins after their first

static void on_idle_paused(void *user, struct session *s, const struct ck_err *err)
{
    (void)user;
    struct entry *e = (struct entry *)s;
    if (!s || !err)
        return;
    int64_t s_again = entry_limit_s(e, "idle_s", e->reg->config->idle_s);
    s_again = s_again < BUSY_RETRY_MIN_S ? BUSY_RETRY_MIN_S : s_again > BUSY_RETRY_MAX_S ? BUSY_RETRY_MAX_S : s_again;
    e->life.look_after_us = ck_wall_us() + s_again * 1000000;
}

static void nothing(void *user, const struct ck_err *err)
{
    (void)user;
    (void)err;
}

// May delete e.
static void look_at(struct entry *e, int64_t now_us)
{
    struct ck_err err = CK_ERR_INIT;
    int64_t idle_us = 1000000 * entry_limit_s(e, "idle_s", e->reg->config->idle_s);
    int64_t delete_us = 1000000 * entry_limit_s(e, "delete_s", e->reg->config->delete_s);
    const struct session *s = &e->pub;
    if (e->life.op != LIFE_NONE || e->closing)
        return;
    if (s->state == SESSION_PAUSED && delete_us && now_us - s->paused_us >= delete_us) {
        ck_log(CK_LOG_INFO, "life", "deleted_after_pause id=%s seconds=%lld", s->id,
               (long long)((now_us - s->paused_us) / 1000000));
        registry_delete(e->reg, &e->pub, nothing, NULL);
        return;
    }
    if (s->state == SESSION_IDLE && idle_us && now_us - s->last_activity_us >= idle_us && now_us >= e->life.look_after_us &&
        links_at_rest(e) && life_pause(e, idle_us, on_idle_paused, NULL, &err) < 0)
        e->life.look_after_us = now_us + BUSY_RETRY_MIN_S * 1000000;
}

static void on_sweep(uv_timer_t *t)
{
    struct registry *r = t->data;
    int64_t now_us = ck_wall_us(), now_ms = ck_mono_ms();
    for (struct entry *e = r->first, *next; e; e = next) {
        next = e->next;
        links_expire(e, now_ms);
        if (e->pub.state == SESSION_BUSY && now_ms - e->asked_ms >= USAGE_MS) { // a long cell must not count only at its end
            e->asked_ms = now_ms;
            follow_ask(e);
        }
        if (!r->draining && !r->pausing)
            look_at(e, now_us);
    }
}

void life_idle_start(struct registry *r)
{
    uv_timer_init(r->loop, &r->life_timer);
    r->life_timer.data = r;
    r->life_open = true;
    uv_timer_start(&r->life_timer, on_sweep, SWEEP_MS, SWEEP_MS);
}

void life_idle_stop(struct registry *r)
{
    if (r->life_open)
        uv_close((uv_handle_t *)&r->life_timer, NULL);
    r->life_open = false;
}

// --- the drain -----------------------------------------------------------------------------------------

struct pausing {
    struct registry *r;
    size_t under_way, paused, kept;
    int64_t until_ms;
    void (*done)(void *user);
    void *user;
};

static void pause_more(struct pausing *p);

static void keep(struct pausing *p, const struct session *s, const char *why)
{
    p->kept++;
    ck_log(CK_LOG_WARN, "life", "kept_running id=%s state=%s error=\"%s\"", s->id, session_state_name(s->state), why);
}

static void on_one_paused(void *user, struct session *s, const struct ck_err *err)
{
    struct pausing *p = user;
    p->under_way--;
    if (s && err)
        keep(p, s, err->text);
    else
        p->paused++;
    pause_more(p);
}

// Begins one pause, when the session is one to be paused.
static void pause_one(struct pausing *p, struct entry *e)
{
    struct ck_err err = CK_ERR_INIT;
    if (e->pub.state == SESSION_PAUSED || e->pub.state == SESSION_DEAD)
        return;
    if (e->pub.state != SESSION_IDLE)
        ck_fail(&err, 409, "session_busy", "it is in use");
    else if (ck_mono_ms() > p->until_ms)
        ck_fail(&err, 503, "no_time", "pausing the others took %d s", ALL_MS / 1000);
    p->under_way++;
    if (err.status || life_pause(e, 0, on_one_paused, p, &err)) {
        p->under_way--;
        keep(p, &e->pub, err.text);
    }
}

static void pause_more(struct pausing *p)
{
    struct entry *e = p->r->first;
    while (e && p->under_way < ALL_AT_ONCE) {
        if (e->life.pause_tried) {
            e = e->next;
            continue;
        }
        e->life.pause_tried = true;
        pause_one(p, e);
    }
    if (p->under_way || e)
        return;
    ck_log(CK_LOG_INFO, "life", "drain_paused paused=%zu kept=%zu", p->paused, p->kept);
    p->done(p->user);
    free(p);
}

void registry_pause_all(struct registry *r, void (*done)(void *user), void *user)
{
    struct pausing *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct pausing){.r = r, .until_ms = ck_mono_ms() + ALL_MS, .done = done, .user = user};
    r->pausing = true;
    pause_more(p);
}
