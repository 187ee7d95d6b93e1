// A blocking agent client over libzmq and the bridge's own message codec.
#include "tests/bench/guest_call.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "kernel-bridge/agentwire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

void *guest_context(void) { return zmq_ctx_new(); }

static void *dial(void *zctx, uint16_t port)
{
    char at[64];
    int zero = 0;
    void *z = zmq_socket(zctx, ZMQ_DEALER);
    snprintf(at, sizeof at, "tcp://127.0.0.1:%u", (unsigned)port);
    zmq_setsockopt(z, ZMQ_LINGER, &zero, sizeof zero);
    zmq_connect(z, at);
    return z;
}

// Numbers only grow, over all connections: the clock.
static int ask(void *z, const uint8_t key[32], json_t *header, struct ck_slice payload, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *h = header;
    uint8_t sig[CK_SHA256_LEN];
    json_object_set_new(h, "rid", json_integer(1));
    json_object_set_new(h, "n", json_integer(ck_mono_us()));
    if (ck_json_dump(h, &text) || aw_sign(key, ck_buf_slice(&text), payload, sig) ||
        zmq_send(z, sig, sizeof sig, ZMQ_SNDMORE) < 0 || zmq_send(z, text.p, text.n, ZMQ_SNDMORE) < 0 ||
        zmq_send(z, payload.p, payload.n, 0) < 0)
        return ck_fail(err, 500, "bench", "cannot ask the agent");
    return 0;
}

static int hear(void *z, const uint8_t key[32], int64_t until, struct aw_msg *m, uint8_t *buf, size_t room,
                struct ck_err *err)
{
    struct ck_slice part[3];
    size_t at = 0;
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        int64_t left = until - ck_mono_ms();
        int ms = left > 0 ? (int)left : 0;
        zmq_setsockopt(z, ZMQ_RCVTIMEO, &ms, sizeof ms);
        int n = zmq_recv(z, buf + at, room - at, 0);
        if (n < 0 || (size_t)n > room - at)
            return ck_fail(err, 504, "bench", "the agent did not answer");
        part[i] = ck_slice(buf + at, (size_t)n);
        at += (size_t)n;
    }
    return aw_parse(part, 3, key, &last, m, err);
}

int guest_personalise(void *zctx, uint16_t port, const uint8_t key[32], int timeout_ms, struct ck_err *err)
{
    static const uint8_t first[32];
    static uint8_t buf[1 << 20];
    uint8_t entropy[64];
    char hex[65];
    struct aw_msg m = {.header = NULL};
    void *z = dial(zctx, port);
    ck_random(entropy, sizeof entropy);
    ck_hex(key, 32, hex);
    json_t *h =
        json_pack("{s:s, s:s, s:I, s:s, s:s}", "op", "personalise", "key", hex, "time_us", (json_int_t)ck_wall_us(),
                  "hostname", "bench", "machine_id", "0123456789abcdef0123456789abcdef");
    int rc = ask(z, first, h, ck_slice(entropy, sizeof entropy), err) ||
             hear(z, key, ck_mono_ms() + timeout_ms, &m, buf, sizeof buf, err) || aw_error(m.header, err);
    aw_free(&m);
    zmq_close(z);
    return rc ? -1 : 0;
}

// 1 = more to come, 0 = it is over.
static int take(const struct aw_msg *m, const char *until, char *out, size_t room, struct ck_err *err)
{
    size_t n = strlen(out);
    if (m->is_answer)
        return aw_error(m->header, err) ? -1 : 1;
    if (!strcmp(m->ev, "out") && n + m->payload.n < room) {
        memcpy(out + n, m->payload.p, m->payload.n);
        out[n + m->payload.n] = 0;
    }
    if (until)
        return !strcmp(m->ev, "exit") ? ck_fail(err, 500, "bench", "it ended: %.300s", out) : strcmp(out, until) != 0;
    return strcmp(m->ev, "exit") != 0;
}

int guest_call(void *zctx, uint16_t port, const uint8_t key[32], const char *code, const char *until, char *out,
               size_t room, int timeout_ms, struct ck_err *err)
{
    static uint8_t buf[1 << 20];
    int64_t deadline = ck_mono_ms() + timeout_ms;
    void *z = dial(zctx, port);
    out[0] = 0;
    int rc =
        ask(z, key,
            json_pack("{s:s, s:[s,s,s], s:s, s:i}", "op", "command", "argv", until ? "/usr/bin/python3" : "/bin/sh",
                      "-c", code, "cwd", "/home/user", "timeout_ms", 3600 * 1000),
            ck_slice("", 0), err);
    for (int more = 1; !rc && more == 1;) {
        struct aw_msg m = {.header = NULL};
        rc = hear(z, key, deadline, &m, buf, sizeof buf, err);
        more = rc ? 0 : take(&m, until, out, room, err);
        aw_free(&m);
        if (more < 0)
            rc = -1;
    }
    zmq_close(z);
    return rc;
}
