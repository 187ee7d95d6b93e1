// A guest agent that does nothing, quickly: what is measured through it is what stands before it.
//   fastagent PORT        a port of 127.0.0.1, as the fake QEMU starts it; the key is that of the template
//
// It takes a new key when it is personalised, finds no changed files, and says yes to anything else. One
// thread; ends with its parent. It trusts its peer and is for benches alone.
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "kernel-bridge/agentwire.h"
#include "kernel-bridge/jscan.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <zmq.h>

static uint8_t key[AW_KEY_LEN];
static int64_t said;

struct request {
    zmq_msg_t part[4]; // who, signature, header, payload
    struct ck_slice slice[4];
    int n;
};

static bool receive(void *s, struct request *r)
{
    bool more = true;
    for (r->n = 0; more && r->n < 4; r->n++) {
        zmq_msg_init(&r->part[r->n]);
        if (zmq_msg_recv(&r->part[r->n], s, 0) < 0)
            return false;
        r->slice[r->n] = ck_slice(zmq_msg_data(&r->part[r->n]), zmq_msg_size(&r->part[r->n]));
        more = zmq_msg_more(&r->part[r->n]) != 0;
    }
    return r->n == 4;
}

static void answer(void *s, const struct request *r)
{
    char op[32], hex[2 * AW_KEY_LEN + 1];
    int64_t rid = 0;
    uint8_t sig[CK_SHA256_LEN];
    struct ck_slice v, header = r->slice[2];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    jscan_field_str(header, "op", op, sizeof op);
    if (jscan_field(header, "rid", &v))
        jscan_int(v, &rid);
    const char *fields = "\"ok\":true";
    if (!strcmp(op, "hello"))
        fields = "\"version\":1,\"kernel_pid\":1,\"boot_id\":\"00000000-0000-4000-8000-000000000001\"";
    else if (!strcmp(op, "changes"))
        fields = "\"files\":[],\"count\":0,\"scan_truncated\":false,"
                 "\"usage\":{\"cpu_ms\":1,\"memory_bytes\":1,\"peak_memory_bytes\":1,\"recent_peak_memory_bytes\":1}";
    else if (!strcmp(op, "personalise") && jscan_field_str(header, "key", hex, sizeof hex))
        ck_unhex(hex, 2 * AW_KEY_LEN, key);
    ck_buf_printf(&b, "{\"re\":%" PRId64 ",%s,\"n\":%" PRId64 "}", rid, fields, ++said);
    aw_sign(key, ck_buf_slice(&b), ck_slice("", 0), sig);
    zmq_send(s, r->slice[0].p, r->slice[0].n, ZMQ_SNDMORE);
    zmq_send(s, sig, sizeof sig, ZMQ_SNDMORE);
    zmq_send(s, b.p, b.n, ZMQ_SNDMORE);
    zmq_send(s, "", 0, 0);
}

int main(int argc, char **argv)
{
    char where[64];
    int one = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    if (argc != 2) {
        fprintf(stderr, "usage: fastagent PORT\n");
        return 2;
    }
    snprintf(where, sizeof where, "tcp://127.0.0.1:%d", atoi(argv[1]));
    void *s = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
    zmq_setsockopt(s, ZMQ_ROUTER_HANDOVER, &one, sizeof one);
    if (zmq_bind(s, where)) {
        fprintf(stderr, "fastagent: cannot listen on %s: %s\n", where, zmq_strerror(zmq_errno()));
        return 1;
    }
    for (;;) {
        struct request r;
        if (receive(s, &r))
            answer(s, &r);
        for (int i = 0; i < r.n; i++)
            zmq_msg_close(&r.part[i]);
    }
}
