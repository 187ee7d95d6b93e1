// The kernel's four sockets. The shell, control and stdin sockets share one routing id, because the
// kernel sends input requests to whoever executed. Must never believe a message before its
// signature, nor keep one that is over the cap.
#include "kernel-bridge/kclient.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"

#include <stdlib.h>
#include <zmq.h>

struct call {
    char msg_id[CK_UUID_MAX];
    kc_reply_cb done;
    void *user;
    int64_t at; // deadline
};

struct wire {
    struct kc *k;
    enum jw_channel channel;
    struct zs *z;
};

struct kc {
    struct kc_opts o;
    char key[KC_KEY_MAX], old_key[KC_KEY_MAX], session[CK_UUID_MAX], identity[KC_IDENTITY_MAX];
    struct wire wire[JW_CHANNELS];
    struct call call[KC_CALLS_MAX];
    unsigned calls;
    uv_timer_t timer;
    bool closed;
    uint64_t bad;
};

static void bad_message(struct kc *k, const char *reason)
{
    k->bad++;
    ck_log(CK_LOG_WARN, "bridge", "kernel_message_dropped reason=%s count=%llu", reason, (unsigned long long)k->bad);
    if (k->bad == KC_BAD_MAX)
        k->o.on_hostile(k->o.user);
}

static void arm(struct kc *k);

static void expire(uv_timer_t *t)
{
    struct kc *k = t->data;
    int64_t now = ck_mono_ms();
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "kernel_timeout", "the kernel did not answer in time");
    for (unsigned i = 0; i < k->calls && !k->closed;) {
        if (k->call[i].at > now) {
            i++;
            continue;
        }
        struct call c = k->call[i];
        k->call[i] = k->call[--k->calls];
        c.done(c.user, NULL, &err);
        i = 0; // the table may have changed
    }
    if (!k->closed)
        arm(k);
}

static void arm(struct kc *k)
{
    int64_t at = INT64_MAX, now = ck_mono_ms();
    for (unsigned i = 0; i < k->calls; i++)
        if (k->call[i].at < at)
            at = k->call[i].at;
    if (at == INT64_MAX)
        uv_timer_stop(&k->timer);
    else
        uv_timer_start(&k->timer, expire, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void answer_call(struct kc *k, const struct kc_message *m)
{
    for (unsigned i = 0; i < k->calls; i++)
        if (!strcmp(k->call[i].msg_id, m->parent.msg_id)) {
            struct call c = k->call[i];
            k->call[i] = k->call[--k->calls];
            arm(k);
            c.done(c.user, &m->msg.part[JW_CONTENT], NULL);
            return;
        }
}

static bool check_heads(struct jw_msg *m)
{
    for (int i = JW_HEADER; i <= JW_PARENT; i++)
        if (!ck_json_valid(m->part[i].p, m->part[i].n, NULL))
            return false;
    return true;
}

static void deliver(struct kc *k, struct kc_message *m)
{
    struct ck_buf scratch[4] = {CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT};
    struct ck_err err = CK_ERR_INIT;
    bool oversize = m->msg.bytes > k->o.message_max;
    if (oversize ? !check_heads(&m->msg) : jw_check(&m->msg, scratch, &err) != 0) {
        bad_message(k, "not_json");
    } else {
        jw_read_head(m->msg.part[JW_HEADER], &m->head);
        jw_read_head(m->msg.part[JW_PARENT], &m->parent);
        if (!oversize && m->channel != JW_IOPUB && !strcmp(m->parent.session, k->session))
            answer_call(k, m);
        if (!k->closed)
            (oversize ? k->o.on_oversize : k->o.on_message)(k->o.user, m);
    }
    for (int i = 0; i < 4; i++)
        ck_buf_free(&scratch[i]);
}

static void on_message(void *user, const struct ck_slice *parts, size_t nparts, bool truncated)
{
    struct wire *w = user;
    struct kc *k = w->k;
    struct kc_message m = {.channel = w->channel};
    struct ck_err err = CK_ERR_INIT;
    if (w->channel == JW_STDIN) // what was printed before a question was sent before it, over another connection
        zs_drain(k->wire[JW_IOPUB].z);
    if (k->closed)
        return;
    if (truncated || jw_parse(parts, nparts, ck_slice_str(k->key), &m.msg, &err)) {
        // What was on its way when the key changed is nobody's fault, and nobody's message any more.
        if (truncated || !k->old_key[0] || jw_parse(parts, nparts, ck_slice_str(k->old_key), &m.msg, &err))
            bad_message(k, truncated ? "too_many_parts" : err.reason);
    } else {
        deliver(k, &m);
    }
}

static int open_wires(struct kc *k, struct ck_err *err)
{
    static const struct {
        enum jw_channel channel;
        int type, port;
    } wires[] = {
        {JW_SHELL, ZMQ_DEALER, 0}, {JW_IOPUB, ZMQ_SUB, 1}, {JW_STDIN, ZMQ_DEALER, 2}, {JW_CONTROL, ZMQ_DEALER, 3}};
    for (unsigned i = 0; i < sizeof wires / sizeof *wires; i++) {
        struct wire *w = &k->wire[wires[i].channel];
        *w = (struct wire){k, wires[i].channel, NULL};
        struct zs_opts o = {.loop = k->o.loop, .zctx = k->o.zctx, .type = wires[i].type,
                            .identity = wires[i].type == ZMQ_DEALER ? k->identity : NULL,
                            .topic = k->o.topic,
                            .port = k->o.port[wires[i].port], .max_parts = JW_PARTS_MAX,
                            // iopub: few in flight, so that a flood waits in the guest and not in our memory
                            .receive_hwm = 128, .send_hwm = 256, .on_message = on_message, .user = w};
        w->z = zs_open(&o, err);
        if (!w->z)
            return -1;
    }
    return 0;
}

struct kc *kc_open(const struct kc_opts *o, struct ck_err *err)
{
    struct kc *k = calloc(1, sizeof *k);
    if (!k) {
        ck_fail(err, 500, "no_memory", "no memory for a kernel client");
        return NULL;
    }
    uint8_t id[16];
    ck_random(id, sizeof id);
    ck_hex(id, sizeof id, k->identity);
    if (o->identity)
        snprintf(k->identity, sizeof k->identity, "%s", o->identity);
    k->o = *o;
    strncpy(k->session, o->session, sizeof k->session - 1);
    kc_set_key(k, o->key);
    uv_timer_init(o->loop, &k->timer);
    k->timer.data = k;
    int rc = open_wires(k, err);
    k->o.key = k->o.session = k->o.identity = k->o.topic = NULL; // borrowed until here
    if (rc) {
        kc_close(k);
        return NULL;
    }
    return k;
}

static void on_closed(uv_handle_t *h)
{
    struct kc *k = h->data;
    explicit_bzero(k, sizeof *k);
    free(k);
}

void kc_close(struct kc *k)
{
    if (!k || k->closed)
        return;
    struct ck_err gone = CK_ERR_INIT;
    ck_fail(&gone, 503, "kernel_gone", "the kernel ended before it answered");
    k->closed = true;
    while (k->calls) {
        struct call c = k->call[--k->calls];
        c.done(c.user, NULL, &gone);
    }
    for (unsigned i = 0; i < JW_CHANNELS; i++) {
        zs_close(k->wire[i].z);
        k->wire[i].z = NULL;
    }
    uv_close((uv_handle_t *)&k->timer, on_closed); // the loop frees it after the callbacks that are running
}

void kc_set_key(struct kc *k, const char *key)
{
    memcpy(k->old_key, k->key, sizeof k->old_key);
    memset(k->key, 0, sizeof k->key);
    strncpy(k->key, key, sizeof k->key - 1);
}

void kc_drain(struct kc *k)
{
    static const enum jw_channel order[] = {JW_IOPUB, JW_SHELL}; // output before the end
    for (unsigned i = 0; k && i < sizeof order / sizeof *order && !k->closed; i++)
        zs_drain(k->wire[order[i]].z);
}

uint64_t kc_received(const struct kc *k)
{
    return k && !k->closed ? zs_received(k->wire[JW_IOPUB].z) + zs_received(k->wire[JW_SHELL].z) : 0;
}

void kc_set_message_max(struct kc *k, uint64_t bytes) { k->o.message_max = bytes; }
uint64_t kc_bad(const struct kc *k) { return k->bad; }
unsigned kc_pending(const struct kc *k) { return k->calls; }
const char *kc_key(const struct kc *k) { return k->key; }
const char *kc_identity(const struct kc *k) { return k->identity; }

int kc_send(struct kc *k, enum jw_channel ch, const struct ck_slice part[4], const struct ck_slice *buffers,
            uint32_t nbuffers, struct ck_err *err)
{
    char sig[JW_SIG_HEX];
    if (!k || k->closed)
        return ck_fail(err, 503, "kernel_gone", "the kernel has ended");
    struct ck_slice few[16], *all = few;
    size_t n = 6 + (size_t)nbuffers;
    if (jw_sign(ck_slice_str(k->key), part, sig))
        return ck_fail(err, 500, "no_crypto", "could not sign a message");
    if (n > 16 && !(all = malloc(n * sizeof *all)))
        return ck_fail(err, 500, "no_memory", "no memory to send a message");
    all[0] = ck_slice_str("<IDS|MSG>");
    all[1] = ck_slice_str(sig);
    memcpy(all + 2, part, 4 * sizeof *all);
    if (nbuffers)
        memcpy(all + 6, buffers, nbuffers * sizeof *all);
    int rc = zs_send(k->wire[ch].z, all, n, err);
    if (all != few)
        free(all);
    return rc;
}

int kc_request(struct kc *k, enum jw_channel ch, const char *msg_id, const char *type, struct ck_slice content,
               struct ck_err *err)
{
    char fresh[CK_UUID_MAX];
    CK_CLEAN_BUF struct ck_buf header = CK_BUF_INIT;
    if (!k || k->closed)
        return ck_fail(err, 503, "kernel_gone", "the kernel has ended");
    if (!msg_id) {
        ck_uuid4(fresh);
        msg_id = fresh;
    }
    if (jw_make_header(&header, msg_id, k->session, type, ck_wall_us()))
        return ck_fail(err, 500, "no_memory", "no memory to send a message");
    struct ck_slice part[4] = {ck_buf_slice(&header), ck_slice_str("{}"), ck_slice_str("{}"), content};
    return kc_send(k, ch, part, NULL, 0, err);
}

int kc_call(struct kc *k, enum jw_channel ch, const char *type, struct ck_slice content, unsigned deadline_ms,
            kc_reply_cb done, void *user, struct ck_err *err)
{
    if (!k || k->closed)
        return ck_fail(err, 503, "kernel_gone", "the kernel has ended");
    if (k->calls == KC_CALLS_MAX)
        return ck_fail(err, 503, "kernel_busy", "too many questions to the kernel are unanswered");
    struct call *c = &k->call[k->calls];
    *c = (struct call){.done = done, .user = user, .at = ck_mono_ms() + deadline_ms};
    ck_uuid4(c->msg_id);
    if (kc_request(k, ch, c->msg_id, type, content, err))
        return -1;
    k->calls++;
    arm(k);
    return 0;
}
