// A Jupyter kernel that does nothing, quickly: what is measured through it is the server before it.
//   fastkernel CONNECTION_FILE                       as a kernelspec starts it
//   fastkernel SHELL IOPUB STDIN CONTROL HB KEY      ports of 127.0.0.1, as the fake QEMU starts it
//
// A cell `stream:N:BYTES` prints N messages of BYTES, any other one is its own result. One thread; ends
// with its parent. It trusts its peers and is for benches alone.
#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "kernel-bridge/jscan.h"
#include "kernel-bridge/jwire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <zmq.h>

enum { SHELL, IOPUB, STDIN, CONTROL, HB, SOCKETS };
static const int types[SOCKETS] = {ZMQ_ROUTER, ZMQ_PUB, ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_REP};

static void *sock[SOCKETS];
static char key[256], session[CK_UUID_MAX];
static int64_t count;

struct request {
    zmq_msg_t part[64];
    struct ck_slice slice[64];
    size_t n, nident;
    struct jw_msg msg;
    struct jw_head head;
};

static void put(void *s, const void *p, size_t n, bool more) { zmq_send(s, n ? p : "", n, more ? ZMQ_SNDMORE : 0); }

// A message of this kernel; ident: the request whose sender gets it, or NULL for the topic of iopub.
static void say(void *s, const struct request *ident, const char *type, struct ck_slice parent, struct ck_slice content)
{
    char id[CK_UUID_MAX], sig[JW_SIG_HEX];
    CK_CLEAN_BUF struct ck_buf header = CK_BUF_INIT;
    ck_uuid4(id);
    jw_make_header(&header, id, session, type, ck_wall_us());
    struct ck_slice part[4] = {ck_buf_slice(&header), parent, ck_slice_str("{}"), content};
    jw_sign(ck_slice_str(key), part, sig);
    for (size_t i = 0; ident && i < ident->nident; i++)
        put(s, ident->slice[i].p, ident->slice[i].n, true);
    if (!ident)
        put(s, type, strlen(type), true);
    put(s, "<IDS|MSG>", 9, true);
    put(s, sig, strlen(sig), true);
    for (int i = 0; i < 4; i++)
        put(s, part[i].p, part[i].n, i < 3);
}

static void iopub(const struct request *r, const char *type, const char *content)
{
    say(sock[IOPUB], NULL, type, r->msg.part[JW_HEADER], ck_slice_str(content));
}

static void stream(const struct request *r, const char *code)
{
    char *end;
    long n = strtol(code + 7, &end, 10), bytes = *end == ':' ? strtol(end + 1, NULL, 10) : 1;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    ck_buf_add_str(&text, "{\"name\":\"stdout\",\"text\":\"");
    for (long i = 0; i < bytes; i++)
        ck_buf_add(&text, "x", 1);
    ck_buf_add(&text, "\"}\0", 3);
    for (long i = 0; i < n; i++)
        iopub(r, "stream", (const char *)text.p);
}

static void execute(void *s, const struct request *r)
{
    char code[4096], text[8400];
    bool silent = false;
    struct ck_slice v;
    if (!jscan_field_str(r->msg.part[JW_CONTENT], "code", code, sizeof code))
        code[0] = 0;
    if (jscan_field(r->msg.part[JW_CONTENT], "silent", &v))
        silent = jscan_true(v);
    count += !silent;
    if (!silent) {
        snprintf(text, sizeof text, "{\"code\":\"\",\"execution_count\":%lld}", (long long)count);
        iopub(r, "execute_input", text);
        if (!strncmp(code, "stream:", 7)) {
            stream(r, code);
        } else {
            snprintf(text, sizeof text, "{\"data\":{\"text/plain\":\"%lld\"},\"metadata\":{},\"execution_count\":%lld}",
                     (long long)count, (long long)count);
            iopub(r, "execute_result", text);
        }
    }
    snprintf(text, sizeof text, "{\"status\":\"ok\",\"execution_count\":%lld,\"payload\":[],\"user_expressions\":{}}",
             (long long)count);
    say(s, r, "execute_reply", r->msg.part[JW_HEADER], ck_slice_str(text));
}

static void personalise(void *s, const struct request *r)
{
    jscan_field_str(r->msg.part[JW_CONTENT], "key", key, sizeof key);
    ck_uuid4(session);
    say(s, r, "cellkeep_personalise_reply", r->msg.part[JW_HEADER], ck_slice_str("{\"status\":\"ok\"}"));
}

static void other(void *s, const struct request *r)
{
    static const char info[] = "{\"status\":\"ok\",\"protocol_version\":\"5.3\",\"implementation\":\"fast\","
                               "\"implementation_version\":\"1\",\"banner\":\"\",\"help_links\":[],\"language_info\":{"
                               "\"name\":\"python\",\"version\":\"3\",\"mimetype\":\"text/x-python\",\"file_extension\":\".py\"}}";
    char type[JW_TYPE_MAX];
    size_t n = strlen(r->head.type);
    if (n < 8 || strcmp(r->head.type + n - 8, "_request") != 0)
        return;
    snprintf(type, sizeof type, "%.*s_reply", (int)(n - 8), r->head.type);
    say(s, r, type, r->msg.part[JW_HEADER],
        ck_slice_str(!strcmp(type, "kernel_info_reply") ? info : "{\"status\":\"ok\"}"));
}

static void handle(void *s, const struct request *r)
{
    if (!strcmp(r->head.type, "cellkeep_personalise")) {
        personalise(s, r);
        return;
    }
    iopub(r, "status", "{\"execution_state\":\"busy\"}");
    if (!strcmp(r->head.type, "execute_request"))
        execute(s, r);
    else
        other(s, r);
    iopub(r, "status", "{\"execution_state\":\"idle\"}");
    if (!strcmp(r->head.type, "shutdown_request"))
        exit(0);
}

static bool receive(void *s, struct request *r)
{
    r->n = 0;
    do {
        zmq_msg_t *m = &r->part[r->n];
        zmq_msg_init(m);
        if (zmq_msg_recv(m, s, ZMQ_DONTWAIT) < 0)
            return r->n > 0;
        r->slice[r->n] = ck_slice(zmq_msg_data(m), zmq_msg_size(m));
        r->n++;
    } while (zmq_msg_more(&r->part[r->n - 1]) && r->n < 64);
    return true;
}

static void serve(void *s, bool heartbeat)
{
    static struct request r;
    while (receive(s, &r)) {
        struct ck_err err = CK_ERR_INIT;
        if (heartbeat) {
            put(s, r.slice[0].p, r.slice[0].n, false);
        } else if (!jw_parse(r.slice, r.n, ck_slice_str(key), &r.msg, &err)) {
            for (r.nident = 0; !ck_slice_is(r.slice[r.nident], "<IDS|MSG>");)
                r.nident++;
            jw_read_head(r.msg.part[JW_HEADER], &r.head);
            handle(s, &r);
        }
        for (size_t i = 0; i < r.n; i++)
            zmq_msg_close(&r.part[i]);
    }
}

static int ports_of(int argc, char **argv, int port[SOCKETS])
{
    static const char *const names[SOCKETS] = {"shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"};
    if (argc == 7) {
        for (int i = 0; i < SOCKETS; i++)
            port[i] = atoi(argv[i + 1]);
        snprintf(key, sizeof key, "%s", argv[6]);
        return 0;
    }
    CK_CLEAN_JSON json_t *j = argc == 2 ? json_load_file(argv[1], 0, NULL) : NULL;
    for (int i = 0; j && i < SOCKETS; i++)
        port[i] = (int)json_integer_value(json_object_get(j, names[i]));
    snprintf(key, sizeof key, "%s", j ? ck_json_str(j, "key", "", NULL) : "");
    return j ? 0 : -1;
}

int main(int argc, char **argv)
{
    int port[SOCKETS], none = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    if (ports_of(argc, argv, port)) {
        fprintf(stderr, "usage: fastkernel CONNECTION_FILE | SHELL IOPUB STDIN CONTROL HB KEY\n");
        return 2;
    }
    ck_uuid4(session);
    void *ctx = zmq_ctx_new();
    zmq_pollitem_t item[SOCKETS];
    for (int i = 0; i < SOCKETS; i++) {
        char where[64];
        snprintf(where, sizeof where, "tcp://127.0.0.1:%d", port[i]);
        sock[i] = zmq_socket(ctx, types[i]);
        zmq_setsockopt(sock[i], ZMQ_SNDHWM, &none, sizeof none);
        if (zmq_bind(sock[i], where)) {
            fprintf(stderr, "fastkernel: cannot listen on %s: %s\n", where, zmq_strerror(zmq_errno()));
            return 1;
        }
        item[i] = (zmq_pollitem_t){sock[i], 0, i == IOPUB ? 0 : ZMQ_POLLIN, 0};
    }
    for (;;) {
        zmq_poll(item, SOCKETS, -1);
        for (int i = 0; i < SOCKETS; i++)
            if (item[i].revents & ZMQ_POLLIN)
                serve(sock[i], i == HB);
    }
}
