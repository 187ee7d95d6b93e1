// Follows one session over a link of its own: state events as they happen, `info` once after each
// connect. When the link breaks, the process decides: gone means dead, alive means try again.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_proc.h"
#include "common/ck_time.h"
#include "gateway/registry_internal.h"

#include <signal.h>
#include <string.h>

#define TRIES_MAX 5 // in a row without a word of the bridge

static void connect_now(struct entry *e);

const char *const registry_endings[REGISTRY_ENDINGS] = {"ok",  "error",       "timeout", "interrupted",
                                                        "oom", "kernel_died", "vm_died", "cancelled"};

static void used_grow(struct registry_used *all, const struct registry_used *had, const struct registry_used *now)
{
    // What became less is a session's lie or a slip: counters never fall.
    const int64_t *const h = (const int64_t *)had, *const n = (const int64_t *)now;
    for (size_t i = 0; i < sizeof *all / sizeof(int64_t); i++)
        if (n[i] > h[i])
            ((int64_t *)all)[i] += n[i] - h[i];
}

static enum session_state state_of(const char *word)
{
    static const enum session_state known[] = {SESSION_STARTING, SESSION_IDLE, SESSION_BUSY, SESSION_PAUSED, SESSION_DEAD};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(word, session_state_name(known[i])))
            return known[i];
    return SESSION_STARTING; // "pool": it has been claimed, and will say so
}

// A word about pausing is not for the list: what is under way says how it ended.
static void take_state(struct entry *e, const char *word, const char *reason)
{
    enum session_state state = state_of(word);
    if (state != SESSION_PAUSED && e->pub.state != SESSION_PAUSED)
        entry_set_state(e, state, reason);
}

// What the session has used since the last word. The first word of one that an earlier gateway made is where
// its counting begins: counters are since the start of this one.
static void take_usage(struct entry *e, const json_t *usage)
{
    struct registry_used *all = &e->reg->used, *had = &e->used;
    const json_t *cells = json_object_get(usage, "cells");
    if (!usage)
        return;
    struct registry_used now = {.vm_cpu_ms = ck_json_int(usage, "vm_cpu_ms", 0, NULL),
                                .wall_ms = ck_json_int(usage, "wall_ms", 0, NULL),
                                .cell_wall_ms = ck_json_int(usage, "cell_wall_ms", 0, NULL),
                                .cell_cpu_ms = ck_json_int(usage, "cell_cpu_ms", 0, NULL)};
    for (size_t i = 0; i < REGISTRY_ENDINGS; i++)
        now.cells[i] = ck_json_int(cells, registry_endings[i], 0, NULL);
    if (e->used_known)
        used_grow(all, had, &now);
    *had = now;
    e->used_known = true;
    if (e->pub.state != SESSION_PAUSED) { // what a paused one had is known and stays
        json_decref(e->pub.usage);
        e->pub.usage = json_incref((json_t *)(uintptr_t)usage);
    }
}

static void take_info(struct entry *e, const json_t *info)
{
    int64_t active = ck_json_int(info, "last_activity_us", 0, NULL);
    const json_t *kernel = ck_json_obj(info, "kernel", NULL);
    const char *accel = ck_json_str(info, "accelerator", "", NULL);
    if (active > e->pub.last_activity_us)
        e->pub.last_activity_us = active;
    e->pub.execution_count = ck_json_int(kernel, "execution_count", e->pub.execution_count, NULL);
    if (*accel)
        snprintf(e->pub.accelerator, sizeof e->pub.accelerator, "%s", accel);
    take_usage(e, ck_json_obj(info, "usage", NULL));
    take_state(e, ck_json_str(info, "state", "starting", NULL), ck_json_str(info, "reason", NULL, NULL));
}

static void on_frame(struct bridge_link *l, void *user, const json_t *header, const struct ck_frame *frame)
{
    struct entry *e = user;
    const json_t *info = ck_json_obj(header, "info", NULL);
    (void)l;
    (void)frame;
    e->follow_tries = 0;
    if (info) {
        take_info(e, info);
    } else if (!strcmp(ck_json_str(header, "ev", "", NULL), "state")) {
        e->pub.last_activity_us = ck_wall_us();
        take_usage(e, ck_json_obj(header, "usage", NULL));
        take_state(e, ck_json_str(header, "state", "", NULL), ck_json_str(header, "reason", NULL, NULL));
    }
}

static void on_closed(struct bridge_link *l, void *user, const struct ck_err *err)
{
    struct entry *e = user;
    (void)l;
    e->follow = NULL;
    if (e->pub.state == SESSION_DEAD || !life_reachable(e->pub.state, e->life.op))
        return; // what is under way finds out what it means
    if (e->proc && ck_proc_alive(e->proc->proc) && ++e->follow_tries <= TRIES_MAX) {
        ck_log(CK_LOG_WARN, "registry", "link_lost id=%s try=%d error=\"%s\"", e->pub.id, e->follow_tries, err->text);
        uv_timer_start(&e->retry, e->retry.timer_cb, (uint64_t)100 << e->follow_tries, 0);
        return;
    }
    if (life_found_paused(e)) {
        life_tell(e, SESSION_SLEEPS);
        return;
    }
    if (e->proc) // whatever is left of it serves nobody any more
        ck_proc_signal(e->proc->proc, SIGKILL, NULL);
    entry_set_state(e, SESSION_DEAD, "the session's process ended unexpectedly");
}

static void on_retry(uv_timer_t *t)
{
    connect_now(t->data);
}

static void connect_now(struct entry *e)
{
    static const struct bridge_link_events ev = {.on_frame = on_frame, .on_close = on_closed};
    struct ck_err err = CK_ERR_INIT;
    int64_t rid;
    e->follow = bridge_link_open(e->reg->loop, e->pub.socket, &ev, e, &err);
    if (!e->follow) {
        entry_set_state(e, SESSION_DEAD, err.text);
        return;
    }
    bridge_link_op(e->follow, json_pack("{s:s,s:s,s:s}", "op", "attach", "mode", "state", "from", "now"), NULL, 0, &rid);
    bridge_link_op(e->follow, json_pack("{s:s}", "op", "info"), NULL, 0, &rid);
}

void follow_start(struct entry *e)
{
    e->follow_tries = 0;
    if (!e->retry_open) {
        uv_timer_init(e->reg->loop, &e->retry);
        e->retry.data = e;
        e->retry.timer_cb = on_retry;
        e->retry_open = true;
        session_ref(&e->pub); // the timer's
    }
    connect_now(e);
}

void follow_ask(struct entry *e)
{
    int64_t rid;
    if (e->follow)
        bridge_link_op(e->follow, json_pack("{s:s}", "op", "info"), NULL, 0, &rid);
}

void follow_let_go(struct entry *e)
{
    bridge_link_close(e->follow);
    e->follow = NULL;
    if (e->retry_open)
        uv_timer_stop(&e->retry);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct entry *e = h->data;
    session_unref(&e->pub);
}

void follow_stop(struct entry *e)
{
    follow_let_go(e);
    if (e->retry_open)
        uv_close((uv_handle_t *)&e->retry, on_timer_closed);
    e->retry_open = false;
}
