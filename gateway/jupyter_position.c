// How far a Jupyter client is, as the bridge is told: where it goes on after whatever happens.
//
// Two numbers. `seq` is sure: the client's library has taken everything up to it (it answered a ping
// that was sent behind it). `sent` is what would be true if this process died now: what left for the
// client's host arrives without us. The bridge uses `sent` only when the gateway dies without a word;
// while we live, the last thing said about a client is jup_position_final(), with what is known then.
// A client's library may answer pings only when its program asks for the next message, so without
// `sent` a killed gateway repeats the last message to it every time.
//
// Must never let a message count as sent that a vanished client did not get: as soon as its host does
// not acknowledge within FRESH_MS, `sent` is taken back to what it did acknowledge.
#include "gateway/jupyter_socket.h"

#include "common/ck_time.h"

#define ACK_MS 20    // at most so often is the bridge told what is sure
#define SENT_MS 2    // at most so often is the bridge told what was sent
#define FRESH_MS 80  // hosts delay acknowledgements by up to 40 ms
#define LATE_MAX 4   // FRESH_MS doubles so often for a host that does not acknowledge

static void tell(struct jup_socket *k, uint64_t sent)
{
    uint64_t seq = k->ack.acked;
    k->sent.told = sent > seq ? sent : seq;
    if (k->link)
        bridge_link_op(k->link, json_pack("{s:s,s:I,s:I}", "op", "ack", "seq", (json_int_t)seq, "sent",
                                          (json_int_t)k->sent.told), NULL, 0, NULL);
}

// --- what is sure ----------------------------------------------------------------------------------

void jup_position_given(struct jup_socket *k)
{
    if (!k->ws || !jup_ack_pending(&k->ack))
        return;
    if (k->said > ws_confirmed(k->ws))
        ws_confirm(k->ws);
    else
        jup_position_confirmed(k); // an event that the client does not get, behind what it has
}

static void on_ack_timer(uv_timer_t *t)
{
    struct jup_socket *k = t->data;
    k->acked_ms = ck_mono_ms();
    tell(k, k->sent.told);
}

// There is no hurry: while we live, the bridge needs to know when the client has gone.
void jup_position_confirmed(struct jup_socket *k)
{
    int64_t wait = k->acked_ms + ACK_MS - ck_mono_ms();
    if (!jup_ack_reached(&k->ack, ws_confirmed(k->ws)) || uv_is_active((uv_handle_t *)&k->ack_timer))
        return;
    if (wait > 0)
        uv_timer_start(&k->ack_timer, k->ack_timer.timer_cb, (uint64_t)wait, 0);
    else
        on_ack_timer(&k->ack_timer);
}

// --- what was sent ---------------------------------------------------------------------------------

static void look(struct jup_socket *k)
{
    int64_t now = ck_mono_ms();
    uint64_t written = jup_ack_at(&k->ack, ws_written(k->ws)), arrived = jup_ack_at(&k->ack, ws_arrived(k->ws));
    k->sent.looked_ms = now;
    if (arrived >= k->sent.sample) { // the client's host keeps up
        k->sent.sample = written;
        k->sent.sample_ms = now;
        k->sent.late = 0;
    }
    bool late = arrived < written && now - k->sent.sample_ms > FRESH_MS;
    uint64_t sent = late ? arrived : written;
    if (sent != k->sent.told)
        tell(k, sent);
    if (arrived == written)
        return;
    uint64_t wait = (uint64_t)FRESH_MS << k->sent.late;
    k->sent.late += late && k->sent.late < LATE_MAX;
    uv_timer_start(&k->sent_timer, k->sent_timer.timer_cb, wait + 1, 0);
}

static void on_sent_timer(uv_timer_t *t)
{
    struct jup_socket *k = t->data;
    if (k->ws && k->link)
        look(k);
}

void jup_position_written(struct jup_socket *k)
{
    int64_t wait = k->sent.looked_ms + SENT_MS - ck_mono_ms();
    if (!k->link || !jup_ack_pending(&k->ack))
        return;
    if (wait <= 0)
        look(k);
    else if (!uv_is_active((uv_handle_t *)&k->sent_timer) || uv_timer_get_due_in(&k->sent_timer) > (uint64_t)wait)
        uv_timer_start(&k->sent_timer, k->sent_timer.timer_cb, (uint64_t)wait, 0);
}

// --- beginning and end -----------------------------------------------------------------------------

void jup_position_init(struct jup_socket *k, uv_loop_t *loop)
{
    uv_timer_init(loop, &k->ack_timer);
    uv_timer_init(loop, &k->sent_timer);
    k->ack_timer.data = k->sent_timer.data = k;
    k->ack_timer.timer_cb = on_ack_timer;
    k->sent_timer.timer_cb = on_sent_timer;
}

void jup_position_attached(struct jup_socket *k) { k->sent.told = 0; }

void jup_position_again(struct jup_socket *k)
{
    jup_ack_reached(&k->ack, ws_confirmed(k->ws));
    if (k->ack.acked)
        tell(k, 0);
}

void jup_position_final(struct jup_socket *k)
{
    uint64_t sure = ws_settle(k->ws);
    bool told = !uv_is_active((uv_handle_t *)&k->ack_timer);
    uv_timer_stop(&k->ack_timer);
    if (jup_ack_reached(&k->ack, sure) || !told || k->sent.told > k->ack.acked)
        tell(k, k->ack.acked);
}
