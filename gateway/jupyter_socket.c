// The life of a Jupyter WebSocket: handshake, attachment to the session's event log, reconnection to
// the bridge, replacement by a newer socket of the same client, end of the kernel. A handshake is
// refused rather than accepted and closed, and a close never says 1000 or 1001: clients reconnect
// without pause after the one, and never after the other.
#include "gateway/jupyter_socket.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "gateway/jupyter_absent.h"
#include "gateway/jupyter_rest.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTEN_MS 500      // how long a client without session_id may stay silent before it is attached
#define RETRY_MS 100       // doubles
#define RETRY_MAX 7        // 12.7 s in all
#define LINGER_MS 1000     // between `dead` and the close
#define LEAVE_MS 100       // for a last ack
#define CLOSE_DEAD 4404
#define CLOSE_REPLACED 4409
#define CLOSE_UNREACHABLE 1011

static struct jup_socket *all; // loop thread only
static const struct bridge_link_events link_events;
static const struct ws_events socket_events;

// --- making and freeing --------------------------------------------------------------------------

static void timer_closed(uv_handle_t *h)
{
    struct jup_socket *k = h->data;
    if (--k->open_timers)
        return;
    jup_submit_free(k);
    ck_buf_free(&k->parent);
    free(k->rate);
    free(k);
}

static struct jup_socket *socket_new(struct gateway *g, struct session *s)
{
    struct jup_socket *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->g = g;
    k->session = session_ref(s);
    jup_position_init(k, g->loop);
    uv_timer_init(g->loop, &k->phase_timer);
    k->phase_timer.data = k;
    k->open_timers = 3;
    k->next = all;
    if (all)
        all->prev = k;
    all = k;
    return k;
}

// The socket's callbacks never come again: its link, its request and its timers are let go.
static void socket_free(struct jup_socket *k)
{
    if (k->freed)
        return;
    k->freed = true;
    if (k->prev)
        k->prev->next = k->next;
    else
        all = k->next;
    if (k->next)
        k->next->prev = k->prev;
    bridge_link_close(k->link);
    session_unwatch(&k->watch);
    session_unref(k->session);
    uv_close((uv_handle_t *)&k->ack_timer, timer_closed);
    uv_close((uv_handle_t *)&k->sent_timer, timer_closed);
    uv_close((uv_handle_t *)&k->phase_timer, timer_closed);
}

static void on_phase_timer(uv_timer_t *t);

static void phase(struct jup_socket *k, enum jup_phase p, uint64_t ms)
{
    k->phase = p;
    if (ms)
        uv_timer_start(&k->phase_timer, on_phase_timer, ms, 0);
    else
        uv_timer_stop(&k->phase_timer);
}

// --- attaching -----------------------------------------------------------------------------------

// from: a sequence number, or 0 to resume after what this consumer acknowledged.
static void attach(struct jup_socket *k, const char *consumer, uint64_t from)
{
    json_t *op = json_pack("{s:s,s:s,s:s}", "op", "attach", "mode", "jupyter", "consumer", consumer);
    if (op)
        json_object_set_new(op, "from", from ? json_integer((json_int_t)from) : json_string("resume"));
    bridge_link_op(k->link, op, NULL, 0, &k->attach_rid);
    jup_position_attached(k);
}

// A client without session_id may come back: under the session that it spoke, from where it was. One
// that said good-bye (1000, 1001) is not waited for.
static void remember_absent(struct jup_socket *k, int code)
{
    if (k->named || !*k->speaks || k->phase != JUP_LIVE)
        return;
    if (k->link && strcmp(k->speaks, k->consumer) != 0 && k->ack.acked)
        attach(k, k->speaks, k->ack.acked + 1);
    if (code != 1000 && code != 1001)
        jup_absent_add(k->session->id, k->speaks, ck_mono_ms());
}

// The client is gone, or another socket takes its place: what reached it is acknowledged, then the
// link goes, at the latest when the timer runs out.
static void leave(struct jup_socket *k, int code)
{
    jup_position_final(k);
    remember_absent(k, code);
    k->ws = NULL;
    session_connected(k->session, -1);
    if (k->link && bridge_link_queued(k->link)) {
        bridge_link_pause(k->link);
        phase(k, JUP_LEAVING, LEAVE_MS);
    } else {
        socket_free(k);
    }
}

// One client has one socket: a browser that lost its connection comes back before the server has
// noticed, and its old socket would go on taking its messages.
static void replace_older(struct jup_socket *k)
{
    for (struct jup_socket *o = all, *next; o; o = next) {
        next = o->next;
        if (o == k || !o->ws || strcmp(o->consumer, k->consumer) || strcmp(o->session->id, k->session->id))
            continue;
        ck_log(CK_LOG_INFO, "jupyter", "socket_replaced kernel=%s", k->session->id);
        struct ws_conn *w = o->ws;
        jup_position_final(o);
        ws_set_user(w, NULL);
        ws_close(w, CLOSE_REPLACED, "replaced by a newer connection of the same session_id");
        leave(o, CLOSE_REPLACED);
    }
    jup_absent_remove(k->session->id, k->consumer);
}

// A name of any length as one that the bridge takes.
static void short_name(const char *name, char out[JUP_CONSUMER_MAX])
{
    uint8_t sum[CK_SHA256_LEN];
    size_t n = strlen(name);
    if (n < JUP_CONSUMER_MAX) {
        memcpy(out, name, n + 1);
        return;
    }
    if (ck_sha256(ck_slice_str(name), sum))
        ck_random(sum, sizeof sum);
    ck_hex(sum, sizeof sum, out);
}

// Attaches as the consumer of that name, and goes on where it was.
static void continue_as(struct jup_socket *k, const char *consumer)
{
    short_name(consumer, k->consumer);
    replace_older(k);
    phase(k, JUP_LIVE, 0);
    attach(k, k->consumer, 0);
}

void jup_socket_spoke(struct jup_socket *k, const char *session)
{
    if (k->named || (*k->speaks && !k->guessed))
        return;
    k->guessed = false;
    short_name(session, k->speaks);
    if (k->phase == JUP_LISTENING)
        continue_as(k, session);
}

// Nothing was said so far: a client that came back and has nothing to say, or one that only listens.
static void attach_silent(struct jup_socket *k)
{
    const char *guess = jup_absent_guess(k->session->id, ck_mono_ms());
    if (guess) {
        k->guessed = true;
        short_name(guess, k->speaks);
        continue_as(k, k->speaks);
        return;
    }
    ck_uuid4(k->consumer);
    phase(k, JUP_LIVE, 0);
    attach(k, k->consumer, k->first_seq); // what happened from its connection on
}

// --- the handshake -------------------------------------------------------------------------------

static void refuse(struct jup_socket *k, const struct ck_err *err)
{
    struct http_req *r = k->req;
    k->req = NULL;
    k->link = NULL;
    http_reply_err(r, err);
    socket_free(k);
}

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    struct jup_socket *k = user;
    k->req = NULL;
    socket_free(k);
}

static void accept_client(struct jup_socket *k)
{
    struct http_req *r = k->req;
    bool v1 = http_ws_offered(r, JUP_SUBPROTOCOL);
    k->dialect = v1 ? JUP_V1 : JUP_LEGACY;
    k->req = NULL;
    k->ws = http_ws_accept(r, v1 ? JUP_SUBPROTOCOL : NULL, &socket_events, k);
    ws_set_max_message(k->ws, (size_t)k->g->config->max_message_mb << 20);
    session_connected(k->session, 1);
    if (k->named)
        phase(k, JUP_LIVE, 0);
    else
        phase(k, JUP_LISTENING, LISTEN_MS);
}

// The first word on a link during the handshake.
static void introduce(struct jup_socket *k)
{
    if (k->named)
        attach(k, k->consumer, 0);
    else
        bridge_link_op(k->link, json_pack("{s:s}", "op", "info"), NULL, 0, &k->attach_rid);
}

static void on_watch(struct session_watch *w, enum session_event what);

void jup_channels(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    struct gateway *g = http_gateway(r);
    struct session *s = jup_find_kernel(r);
    if (!s)
        return;
    if (s->state == SESSION_DEAD) {
        http_reply_error(r, 404, "kernel_dead", "the kernel has ended: delete it and start a new one");
        return;
    }
    if (g->draining) {
        http_reply_error(r, 503, "draining", "the gateway is stopping, try again later");
        return;
    }
    const char *name = http_query(r, "session_id");
    struct jup_socket *k = socket_new(g, s);
    if (!k)
        ck_fail(&err, 503, "out_of_memory", "the gateway has no room for this connection, try again later");
    if (!k || !(k->link = session_link_open(s, SESSION_LINK_FEED, &link_events, k, &err))) {
        if (k)
            socket_free(k);
        http_reply_err(r, &err);
        return;
    }
    session_watch(s, &k->watch, on_watch);
    k->req = r;
    http_set_user(r, k);
    http_on_gone(r, on_gone);
    if (name && *name) {
        k->named = true;
        short_name(name, k->consumer);
        replace_older(k);
    }
    introduce(k);
}

// --- the bridge's side ---------------------------------------------------------------------------

void jup_socket_end(struct jup_socket *k)
{
    if (k->phase == JUP_ENDING)
        return;
    jup_say_dead(k);
    phase(k, JUP_ENDING, LINGER_MS);
}

static void give_up(struct jup_socket *k)
{
    ck_log(CK_LOG_WARN, "jupyter", "bridge_unreachable kernel=%s", k->session->id);
    phase(k, JUP_ENDING, 0);
    ws_close(k->ws, CLOSE_UNREACHABLE, "the session's bridge cannot be reached");
}

static void answered(struct jup_socket *k, const json_t *h)
{
    struct ck_err err = CK_ERR_INIT;
    bool failed = bridge_error(h, &err);
    int64_t rid = ck_json_int(h, "re", 0, NULL);
    if (rid != k->attach_rid) {
        if (failed)
            jup_submit_failed(k, rid, &err);
        return;
    }
    if (failed) {
        struct bridge_link *l = k->link;
        ck_log(CK_LOG_WARN, "jupyter", "attach_failed kernel=%s reason=%s", k->session->id, err.reason);
        if (k->req) {
            bridge_link_close(l);
            refuse(k, &err);
        } else {
            give_up(k);
        }
        return;
    }
    k->retries = 0;
    if (k->req) {
        int64_t last = ck_json_int(json_object_get(h, "info"), "last_seq", 0, NULL);
        k->first_seq = (uint64_t)last + 1;
        accept_client(k);
    }
}

static void on_frame(struct bridge_link *l, void *user, const json_t *header, const struct ck_frame *frame)
{
    (void)l;
    struct jup_socket *k = user;
    if (k->phase == JUP_LEAVING)
        return;
    if (json_object_get(header, "re"))
        answered(k, header);
    else if (k->phase == JUP_LIVE && k->ws)
        jup_deliver(k, header, frame);
}

static void on_link_drain(struct bridge_link *l, void *user)
{
    (void)l;
    struct jup_socket *k = user;
    if (k->ws)
        ws_resume(k->ws);
}

static bool kernel_gone(const struct jup_socket *k) { return k->session->deleted || k->session->state == SESSION_DEAD; }

static void retry_later(struct jup_socket *k)
{
    k->link = NULL;
    if (kernel_gone(k)) {
        jup_socket_end(k);
    } else if (k->retries >= RETRY_MAX) {
        give_up(k);
    } else {
        ws_pause(k->ws);
        phase(k, JUP_RETRYING, (uint64_t)RETRY_MS << k->retries++);
    }
}

// The session is paused. unserved: why what the client sent could not resume it; NULL = it sent nothing.
static void fall_asleep(struct jup_socket *k, const struct ck_err *unserved)
{
    bridge_link_close(k->link);
    k->link = NULL;
    phase(k, JUP_ASLEEP, 0);
    if (unserved)
        jup_submit_none_served(k, unserved);
    if (!session_settling(k->session))
        ws_resume(k->ws);
}

static void on_link_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct jup_socket *k = user;
    struct ck_err again = CK_ERR_INIT;
    bool paused = session_wait_ms(k->session) > 0, gone = !strncmp(err->reason, "bridge_", 7); // else the resume failed
    k->link = NULL;
    if (k->phase == JUP_LIVE && !paused)
        ck_log(CK_LOG_WARN, "jupyter", "bridge_lost kernel=%s reason=%s", k->session->id, err->reason);
    if (k->req && paused && gone && (k->link = session_link_open(k->session, SESSION_LINK_FEED, &link_events, k, &again)))
        introduce(k); // it was paused during the handshake
    else if (k->req)
        refuse(k, again.status ? &again : err);
    else if (k->phase == JUP_LEAVING)
        socket_free(k);
    else if (k->phase != JUP_ENDING && paused)
        fall_asleep(k, gone ? NULL : err);
    else if (k->phase != JUP_ENDING)
        retry_later(k);
}

static void reconnect(struct jup_socket *k)
{
    struct ck_err err = CK_ERR_INIT;
    if (!kernel_gone(k))
        k->link = session_link_open(k->session, SESSION_LINK_FEED, &link_events, k, &err);
    if (!k->link) {
        retry_later(k);
        return;
    }
    ws_resume(k->ws);
    jup_submit_forget(k);
    if (*k->consumer) {
        phase(k, JUP_LIVE, 0);
        attach(k, k->consumer, k->last_seq ? k->last_seq + 1 : 0); // exactly after what this socket has seen
        jup_position_again(k);
    } else {
        phase(k, JUP_LISTENING, LISTEN_MS);
    }
}

void jup_socket_wake(struct jup_socket *k) { reconnect(k); }

static void on_watch(struct session_watch *w, enum session_event what)
{
    struct jup_socket *k = (struct jup_socket *)((char *)w - offsetof(struct jup_socket, watch));
    bool asleep = k->phase == JUP_ASLEEP;
    if (!k->ws || k->phase == JUP_ENDING || k->phase == JUP_LEAVING)
        return; // also during the handshake: its link waits, or is opened again
    switch (what) {
    case SESSION_SETTLES:
        ws_pause(k->ws); // what the client sends now is read when it is clear what becomes of it
        break;
    case SESSION_SLEEPS:
        fall_asleep(k, NULL);
        ws_resume(k->ws);
        break;
    case SESSION_GOES_ON:
        if (k->link)
            ws_resume(k->ws);
        else if (asleep)
            reconnect(k);
        break;
    case SESSION_RUNS:
        if (asleep)
            reconnect(k);
        break;
    case SESSION_ENDED:
        if (asleep)
            jup_socket_end(k);
        break;
    }
}

static void on_phase_timer(uv_timer_t *t)
{
    struct jup_socket *k = t->data;
    switch (k->phase) {
    case JUP_LISTENING:
        attach_silent(k);
        break;
    case JUP_RETRYING:
        reconnect(k);
        break;
    case JUP_ENDING:
        ws_close(k->ws, CLOSE_DEAD, "the kernel has ended");
        break;
    case JUP_LEAVING:
        socket_free(k);
        break;
    case JUP_OPENING:
    case JUP_LIVE:
    case JUP_ASLEEP:
        break;
    }
}

static const struct bridge_link_events link_events = {
    .on_frame = on_frame, .on_drain = on_link_drain, .on_close = on_link_close};

// --- the client's side ---------------------------------------------------------------------------

static void on_message(struct ws_conn *w, void *user, bool binary, struct ck_slice msg)
{
    (void)w;
    struct jup_socket *k = user;
    if (k && k->phase != JUP_ENDING)
        jup_submit(k, binary, msg);
}

static void on_too_large(struct ws_conn *w, void *user, bool binary, struct ck_slice start)
{
    (void)w;
    struct jup_socket *k = user;
    if (k && k->phase != JUP_ENDING)
        jup_submit_too_large(k, binary, start);
}

static void on_socket_drain(struct ws_conn *w, void *user)
{
    (void)w;
    struct jup_socket *k = user;
    if (k && k->link)
        bridge_link_resume(k->link);
}

static void on_confirmed(struct ws_conn *w, void *user)
{
    (void)w;
    if (user)
        jup_position_confirmed(user);
}

static void on_written(struct ws_conn *w, void *user)
{
    (void)w;
    if (user)
        jup_position_written(user);
}

static void on_socket_close(struct ws_conn *w, void *user, int code)
{
    (void)w;
    if (user)
        leave(user, code);
}

static const struct ws_events socket_events = {
    .on_message = on_message,
    .on_too_large = on_too_large,
    .on_drain = on_socket_drain,
    .on_confirmed = on_confirmed,
    .on_written = on_written,
    .on_close = on_socket_close,
};
