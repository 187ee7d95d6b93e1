// Is the VM still there? QEMU tells of its own end, but not of a guest that hangs. The agent answers
// within milliseconds whatever the kernel does; when it has been silent for a while it is asked, and
// a VM that leaves several questions in a row unanswered has died.
#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"

#define INTERVAL_MS 15000
#define ANSWER_MS 20000
#define MISSES_MAX 3

static void answered(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)answer;
    (void)payload;
    b->ping_under_way = false;
    if (!err || err->status != 504) {
        b->pings_missed = 0;
        return;
    }
    ck_log(CK_LOG_WARN, "bridge", "vm_silent id=%s times=%u", b->conf.id, ++b->pings_missed);
    if (b->pings_missed == MISSES_MAX)
        br_dead(b, "the VM did not answer for a minute, so it was stopped");
}

static void check(uv_timer_t *t)
{
    struct bridge *b = t->data;
    struct ck_err err = CK_ERR_INIT;
    evlog_settle(b->log);
    if ((b->state != BR_READY && b->state != BR_RESTARTING) || b->ping_under_way)
        return;
    b->ping_under_way =
        ac_request(b->ac, json_pack("{s:s}", "op", "ping"), ck_slice("", 0), ANSWER_MS, answered, b, &err) > 0;
}

void br_health_start(struct bridge *b)
{
    uv_timer_init(b->loop, &b->health);
    b->health.data = b;
    uv_timer_start(&b->health, check, INTERVAL_MS, INTERVAL_MS);
}
