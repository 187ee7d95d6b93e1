// The session as a whole: its state as clients see it, its log, its death and its end. Must never
// leave a cell without an ending, nor a client without an answer, when the VM goes.
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/artifacts.h"
#include "kernel-bridge/service.h"

#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#define TELL_MS 1500 // at the end of a session: until its readers must have taken what is left for them

int br_init(struct bridge *b, int listen_fd, struct ck_err *err)
{
    const struct blimits *l = &b->conf.limits;
    b->base = b->usage = (struct usage){-1, -1, -1, -1, -1, -1, -1};
    ck_uuid4(b->own_session);
    uv_timer_init(b->loop, &b->up.timer);
    uv_timer_init(b->loop, &b->restart_timer);
    uv_timer_init(b->loop, &b->tick);
    uv_timer_init(b->loop, &b->life.deadline);
    uv_idle_init(b->loop, &b->life.turn);
    b->up.timer.data = b->restart_timer.data = b->tick.data = b->life.deadline.data = b->life.turn.data = b;
    br_health_start(b);
    b->log = evlog_new(l->log_bytes);
    b->trk = trk_new(l->queue_max, l->output_bytes);
    b->cons = cons_new();
    b->zctx = zmq_ctx_new();
    if (!b->log || !b->trk || !b->cons || !b->zctx) {
        close(listen_fd);
        return ck_fail(err, 500, "no_memory", "no memory for a session");
    }
    b->svc = svc_new(b, listen_fd, err);
    return b->svc ? 0 : -1;
}

int br_begin(struct bridge *b, struct ck_err *err)
{
    b->pool = b->conf.pool;
    if (!b->pool)
        br_account_begin(b);
    trk_limits(b->trk, b->conf.limits.queue_max, b->conf.limits.output_bytes);
    br_active(b);
    if (br_restore_begin(b, err))
        return -1;
    br_state_event(b, "");
    return 0;
}

void br_free(struct bridge *b)
{
    if (b->zctx)
        zmq_ctx_term(b->zctx); // every socket is closed with linger 0: does not wait
    evlog_free(b->log);
    trk_free(b->trk);
    cons_free(b->cons);
    cellbook_free(&b->book);
    free(b->kernel_env);
    frozen_free(&b->frozen);
    ck_layer_close(&b->layer);
    if (b->found)
        artifacts_free(b->found);
    free(b->found);
    if (b->state_fd >= 0)
        close(b->state_fd);
}

bool br_kernel_ready(const struct bridge *b) { return b->state == BR_READY && !b->doomed; }
void br_active(struct bridge *b) { b->last_activity_us = ck_wall_us(); }

const char *br_state_word(const struct bridge *b)
{
    switch (b->state) {
    case BR_STARTING:
    case BR_ROLLBACK:
    case BR_RESTARTING: return "starting";
    case BR_PAUSING:
    case BR_PAUSED: return "paused";
    case BR_READY: return b->pool ? "pool" : trk_busy(b->trk) ? "busy" : "idle";
    case BR_DEAD:
    case BR_CLOSING: break;
    }
    return "dead";
}

void br_append(struct bridge *b, const struct ev_tag *tag, struct ck_blob *frame)
{
    evlog_append(b->log, tag, frame);
    svc_wake(b->svc);
}

void br_state_event(struct bridge *b, const char *reason)
{
    const char *word = br_state_word(b);
    if (!strcmp(word, "pool")) // a session begins when it is claimed; nobody reads before
        word = "starting";
    if (!strcmp(word, b->shown) && (!reason[0] || !strcmp(reason, b->shown_reason)))
        return;
    snprintf(b->shown, sizeof b->shown, "%s", word);
    snprintf(b->shown_reason, sizeof b->shown_reason, "%s", reason);
    struct ev_tag tag = {.kind = EV_STATE, .class = EV_OTHER, .cell = "", .session = ""};
    CK_CLEAN_JSON json_t *usage = br_usage_json(b);
    br_append(b, &tag, evb_state(evlog_next(b->log), ck_wall_us() / 1000, word, reason, usage));
}

int br_check_alive(const struct bridge *b, struct ck_err *err)
{
    if (b->state == BR_DEAD || b->state == BR_CLOSING)
        return ck_fail(
            err, 410, "session_dead",
            "this session has ended (%s); its log and finished cells can still be read; delete it and create a "
            "new session to run code",
            b->reason[0] ? b->reason : "its VM is gone");
    return 0;
}

static void drop_vm_clients(struct bridge *b, const struct ck_err *err)
{
    struct ac *ac = b->ac;
    struct kc *kc = b->kc;
    b->ac = NULL;
    b->kc = NULL;
    ac_fail_all(ac, err);
    ac_close(ac);
    kc_close(kc);
}

void br_dead(struct bridge *b, const char *reason)
{
    if (b->state == BR_DEAD || b->state == BR_CLOSING)
        return;
    bool starting = b->on_setup != NULL;
    ck_log(CK_LOG_ERROR, "bridge", "session_dead id=%s reason=\"%s\"", b->conf.id, reason);
    b->state = BR_DEAD;
    b->doomed = false;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
    struct ck_err err = CK_ERR_INIT, gone = CK_ERR_INIT;
    ck_fail(&gone, 502, "vm_died", "%s", reason);
    br_check_alive(b, &err);
    br_kernel_up_stop(b);
    uv_timer_stop(&b->restart_timer);
    br_restart_fail(b, &err);
    drop_vm_clients(b, &err);
    br_commands_vm_died(b, &err);
    br_cells_vm_died(b);
    br_fail_jupyter(b, "VMDied", reason);
    br_inject_status(b, "dead");
    br_parked_drop(b);
    br_state_event(b, reason);
    if (b->machine)
        ck_machine_kill(b->machine);
    if (starting) {
        void (*tell)(struct bridge *, const struct ck_err *) = b->on_setup;
        b->on_setup = NULL;
        tell(b, &gone);
    }
}

struct closer {
    struct bridge *b;
    uv_timer_t deadline;
    bool machine_gone, told; // told: the readers have all there is, or their time is up
    void (*closed)(void *user);
    void *user;
};

static void free_closer(uv_handle_t *h) { free(h->data); }

static void step_closing(struct closer *c)
{
    if (!c->machine_gone || !c->told || uv_is_closing((uv_handle_t *)&c->deadline))
        return;
    svc_close(c->b->svc);
    c->closed(c->user);
    uv_close((uv_handle_t *)&c->deadline, free_closer);
}

static void machine_closed(void *user)
{
    struct closer *c = user;
    c->machine_gone = true;
    step_closing(c);
}

static void readers_told(void *user)
{
    struct closer *c = user;
    c->told = true;
    step_closing(c);
}

static void on_tell_deadline(uv_timer_t *t) { readers_told(t->data); }

// Every cell gets its ending while somebody can still be told.
static void end_session(struct bridge *b, const char *why)
{
    bool alive = b->state != BR_DEAD && b->state != BR_PAUSED;
    struct ck_err err = CK_ERR_INIT;
    if (alive)
        snprintf(b->reason, sizeof b->reason, "%s", why);
    b->state = BR_CLOSING;
    b->on_setup = NULL;
    ck_fail(&err, 410, "session_dead", "%s", why);
    br_kernel_up_stop(b);
    br_restart_fail(b, &err);
    drop_vm_clients(b, &err);
    br_commands_vm_died(b, &err);
    if (alive) {
        br_cells_shut_down(b, why);
        br_fail_jupyter(b, "SessionEnded", why);
        br_inject_status(b, "dead");
        br_state_event(b, why);
    }
    br_parked_drop(b);
}

void br_close(struct bridge *b, const char *why, void (*closed)(void *user), void *user)
{
    struct closer *c = calloc(1, sizeof *c);
    end_session(b, why);
    uv_close((uv_handle_t *)&b->up.timer, NULL);
    uv_close((uv_handle_t *)&b->restart_timer, NULL);
    uv_close((uv_handle_t *)&b->tick, NULL);
    uv_close((uv_handle_t *)&b->health, NULL);
    br_life_close(b);
    if (!c) // nothing left to wait with: the process ends and QEMU dies with it
        _exit(1);
    c->b = b;
    c->closed = closed;
    c->user = user;
    uv_timer_init(b->loop, &c->deadline);
    c->deadline.data = c;
    uv_timer_start(&c->deadline, on_tell_deadline, TELL_MS, 0);
    svc_flush(b->svc, readers_told, c);
    struct ck_machine *m = b->machine;
    b->machine = NULL;
    if (m)
        ck_machine_close(m, machine_closed, c);
    else // nothing was started
        machine_closed(c);
}
