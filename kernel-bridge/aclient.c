// The agent's socket and the table of what it was asked. Every request has a deadline: a guest that
// says nothing costs a bounded wait, never a hang.
#include "kernel-bridge/aclient.h"

#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/zsock.h"

#include <stdlib.h>
#include <zmq.h>

// One routing id for ever: an agent that was restored from a snapshot lets go of the connection that
// is no more, and what it has to tell goes to the one that is there now.
#define IDENTITY "bridge"

struct request {
    int64_t rid, at;
    ac_answer_cb cb;
    void *user;
};

struct ac {
    struct ac_opts o;
    struct zs *z;
    uv_timer_t timer;
    bool closed;
    uint8_t key[AW_KEY_LEN], next_key[AW_KEY_LEN];
    bool key_changing; // personalise is under way: its answer carries next_key
    int64_t out_n, in_n, rid;
    struct request request[AC_REQUESTS_MAX];
    unsigned requests;
    uint64_t bad;
};

static void arm(struct ac *a);

static struct request take(struct ac *a, unsigned i)
{
    struct request r = a->request[i];
    a->request[i] = a->request[--a->requests];
    return r;
}

static void expire(uv_timer_t *t)
{
    struct ac *a = t->data;
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "agent_timeout", "the agent in the VM did not answer in time");
    int64_t now = ck_mono_ms();
    for (unsigned i = 0; i < a->requests && !a->closed;) {
        if (a->request[i].at > now) {
            i++;
            continue;
        }
        struct request r = take(a, i);
        ck_log(CK_LOG_WARN, "bridge", "agent_timeout rid=%lld", (long long)r.rid);
        r.cb(r.user, NULL, ck_slice("", 0), &err);
        i = 0; // the table may have changed
    }
    if (!a->closed)
        arm(a);
}

static void arm(struct ac *a)
{
    int64_t at = INT64_MAX, now = ck_mono_ms();
    for (unsigned i = 0; i < a->requests; i++)
        if (a->request[i].at < at)
            at = a->request[i].at;
    if (at == INT64_MAX)
        uv_timer_stop(&a->timer);
    else
        uv_timer_start(&a->timer, expire, at > now ? (uint64_t)(at - now) : 0, 0);
}

static int parse(struct ac *a, const struct ck_slice *parts, size_t n, struct aw_msg *m, struct ck_err *err)
{
    if (a->key_changing) { // the new key counts from the start
        int64_t fresh = 0;
        if (!aw_parse(parts, n, a->next_key, &fresh, m, err)) {
            memcpy(a->key, a->next_key, sizeof a->key);
            a->in_n = fresh;
            a->key_changing = false;
            return 0;
        }
        aw_free(m);
    }
    return aw_parse(parts, n, a->key, &a->in_n, m, err);
}

static void answer(struct ac *a, const struct aw_msg *m)
{
    struct ck_err err = CK_ERR_INIT;
    for (unsigned i = 0; i < a->requests; i++)
        if (a->request[i].rid == m->rid) {
            struct request r = take(a, i);
            bool failed = aw_error(m->header, &err);
            r.cb(r.user, failed ? NULL : m->header, m->payload, failed ? &err : NULL);
            break;
        }
    if (!a->closed)
        arm(a);
}

static void on_message(void *user, const struct ck_slice *parts, size_t nparts, bool truncated)
{
    struct ac *a = user;
    struct aw_msg m = {.header = NULL};
    struct ck_err err = CK_ERR_INIT;
    // DEALER and ROUTER: what comes is exactly the three parts
    if (truncated || parse(a, parts, nparts, &m, &err)) {
        a->bad++;
        ck_log(CK_LOG_WARN, "bridge", "agent_message_dropped reason=%s count=%llu",
               truncated ? "too_many_parts" : err.reason, (unsigned long long)a->bad);
        if (a->bad == AC_BAD_MAX)
            a->o.on_hostile(a->o.user);
    } else if (m.is_answer) {
        answer(a, &m);
    } else {
        a->o.on_push(a->o.user, m.ev, m.header, m.payload);
    }
    aw_free(&m);
}

static void on_closed(uv_handle_t *h) { free(h->data); }

struct ac *ac_open(const struct ac_opts *o, struct ck_err *err)
{
    struct ac *a = calloc(1, sizeof *a);
    if (!a) {
        ck_fail(err, 500, "no_memory", "no memory for an agent client");
        return NULL;
    }
    a->o = *o;
    a->o.key = NULL; // borrowed until here
    if (o->key)
        memcpy(a->key, o->key, sizeof a->key);
    a->out_n = a->rid = o->number; // no late answer to somebody before us can look like one of ours
    uv_timer_init(o->loop, &a->timer);
    a->timer.data = a;
    struct zs_opts z = {.loop = o->loop, .zctx = o->zctx, .type = ZMQ_DEALER, .identity = IDENTITY, .port = o->port,
                        .max_parts = 3, .receive_hwm = 128, .send_hwm = AC_REQUESTS_MAX, .on_message = on_message,
                        .user = a};
    a->z = zs_open(&z, err);
    if (!a->z) {
        ac_close(a);
        return NULL;
    }
    return a;
}

void ac_close(struct ac *a)
{
    if (!a || a->closed)
        return;
    a->closed = true;
    a->requests = 0;
    zs_close(a->z);
    a->z = NULL;
    memset(a->key, 0, sizeof a->key);
    memset(a->next_key, 0, sizeof a->next_key);
    uv_close((uv_handle_t *)&a->timer, on_closed); // freed by the loop, after running callbacks
}

void ac_fail_all(struct ac *a, const struct ck_err *err)
{
    while (a && a->requests && !a->closed) {
        struct request r = take(a, a->requests - 1);
        r.cb(r.user, NULL, ck_slice("", 0), err);
    }
}

static int64_t send_request(struct ac *a, json_t *header, struct ck_slice payload, unsigned deadline_ms,
                            ac_answer_cb cb, void *user, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    uint8_t sig[CK_SHA256_LEN];
    if (!header || a->closed || a->requests == AC_REQUESTS_MAX)
        return ck_fail(err, 503, "agent_busy", "too many requests to the VM's agent are unanswered");
    int64_t rid = ++a->rid;
    if (json_object_set_new(header, "rid", json_integer(rid)) ||
        json_object_set_new(header, "n", json_integer(++a->out_n)) || ck_json_dump(header, &text))
        return ck_fail(err, 500, "no_memory", "no memory for a request");
    if (text.n > AW_REQUEST_HEADER_MAX || payload.n > AW_PAYLOAD_MAX)
        return ck_fail(err, 413, "request_too_large", "the request is too large for the VM's agent");
    if (aw_sign(a->key, ck_buf_slice(&text), payload, sig))
        return ck_fail(err, 500, "no_crypto", "could not sign a request");
    struct ck_slice parts[3] = {ck_slice(sig, sizeof sig), ck_buf_slice(&text), payload};
    if (zs_send(a->z, parts, 3, err))
        return -1;
    a->request[a->requests++] = (struct request){rid, ck_mono_ms() + deadline_ms, cb, user};
    arm(a);
    return rid;
}

int64_t ac_request(struct ac *a, json_t *header, struct ck_slice payload, unsigned deadline_ms, ac_answer_cb cb,
                   void *user, struct ck_err *err)
{
    int64_t rid = a ? send_request(a, header, payload, deadline_ms, cb, user, err)
                    : ck_fail(err, 503, "agent_busy", "the VM's agent is not connected");
    json_decref(header);
    return rid;
}

int64_t ac_personalise(struct ac *a, json_t *header, struct ck_slice entropy, const uint8_t key[AW_KEY_LEN],
                       unsigned deadline_ms, ac_answer_cb cb, void *user, struct ck_err *err)
{
    int64_t rid = ac_request(a, header, entropy, deadline_ms, cb, user, err);
    if (rid > 0) {
        memcpy(a->next_key, key, sizeof a->next_key);
        a->key_changing = true; // our own numbers simply go on growing
    }
    return rid;
}

const uint8_t *ac_key(const struct ac *a) { return a->key; }
int64_t ac_number(const struct ac *a) { return a->out_n; }
unsigned ac_pending(const struct ac *a) { return a->requests; }

void ac_cancel(struct ac *a, int64_t id)
{
    for (unsigned i = 0; a && i < a->requests; i++)
        if (a->request[i].rid == id) {
            take(a, i);
            arm(a);
            return;
        }
}
