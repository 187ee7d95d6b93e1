// POST /v1/sessions/{id}/commands: runs a program in the session's guest, apart from its kernel, and
// answers with its exit code and output, or streams them. The command lives as long as the request:
// a client that leaves ends it. Output is kept up to a cap and counted beyond.
#include "gateway/v1.h"

#include "common/ck_json.h"
#include "gateway/v1_deadline.h"
#include "gateway/v1_text.h"

#include <stdlib.h>

#define KEEP_MAX (8u * 1024 * 1024) // bytes of stdout, and of stderr, in the answer

enum { OUT, ERR };
static const char *const stream_names[] = {"stdout", "stderr"};

struct v1_command {
    struct http_req *r;
    struct bridge_link *link;
    struct v1_deadline *deadline; // beyond the command's own
    int64_t rid;
    bool sse, streaming;
    struct v1_text text[2];
};

static void command_free(struct v1_command *c)
{
    bridge_link_close(c->link); // ends the command when it still runs
    v1_deadline_free(c->deadline);
    v1_text_free(&c->text[OUT]);
    v1_text_free(&c->text[ERR]);
    free(c);
}

static void command_fail(struct v1_command *c, const struct ck_err *err)
{
    if (c->streaming) {
        json_t *o = json_pack("{s:s,s:s,s:s}", "type", "failed", "message", err->text, "reason", err->reason);
        struct ck_buf b = CK_BUF_INIT;
        ck_json_dump(o, &b);
        json_decref(o);
        http_sse_send(c->r, "failed", -1, b.p, b.n);
        ck_buf_free(&b);
        http_stream_end(c->r);
    } else {
        v1_reply_err(c->r, err);
    }
    command_free(c);
}

static void begin_streaming(struct v1_command *c);

static void on_output(struct v1_command *c, int which, struct ck_slice piece, bool flush)
{
    struct ck_buf text = CK_BUF_INIT, b = CK_BUF_INIT;
    int got = v1_text_take(&c->text[which], piece, flush, c->sse ? &text : NULL);
    if (got > 0) {
        begin_streaming(c);
        ck_buf_printf(&b, "{\"type\":\"stream\",\"content\":{\"name\":\"%s\",\"text\":", stream_names[which]);
        if (!ck_buf_add(&b, text.p, text.n) && !ck_buf_add_str(&b, "}}") && http_sse_send(c->r, "stream", -1, b.p, b.n))
            bridge_link_pause(c->link);
    }
    ck_buf_free(&text);
    ck_buf_free(&b);
}

// Appends the finished command: the bridge's exit record with what was kept of the output.
static int finished_json(const struct v1_command *c, const json_t *h, struct ck_buf *out)
{
    json_t *o = json_object_get(h, "exit") ? json_copy(json_object_get(h, "exit")) : json_object();
    json_t *artifacts = json_object_get(h, "artifacts"), *total = json_object_get(h, "artifacts_total");
    int64_t limit_bytes = ck_json_int(o, "truncated_bytes", 0, NULL);
    json_object_del(o, "truncated_bytes");
    json_object_set_new(o, "artifacts", artifacts ? json_incref(artifacts) : json_array());
    if (total)
        json_object_set(o, "artifacts_total", total);
    if (json_object_get(h, "limits_hit"))
        json_object_set(o, "limits_hit", json_object_get(h, "limits_hit"));
    json_object_set_new(o, "truncated", json_pack("{s:I,s:I,s:I}", "stdout_bytes", (json_int_t)c->text[OUT].dropped,
                                                  "stderr_bytes", (json_int_t)c->text[ERR].dropped, "limit_bytes",
                                                  (json_int_t)limit_bytes));
    int rc = ck_json_dump(o, out);
    json_decref(o);
    out->n -= !rc;
    for (int i = OUT; i <= ERR && !rc; i++)
        rc = ck_buf_printf(out, ",\"%s\":", stream_names[i]) ||
             ck_buf_add_json_str(out, (const char *)c->text[i].kept.p, c->text[i].kept.n);
    return rc || ck_buf_add(out, "}", 1) ? -1 : 0;
}

static void on_exit_record(struct v1_command *c, const json_t *h)
{
    on_output(c, OUT, ck_slice("", 0), true);
    on_output(c, ERR, ck_slice("", 0), true);
    struct ck_buf b = CK_BUF_INIT;
    struct ck_err err = CK_ERR_INIT;
    if (finished_json(c, h, &b)) {
        ck_buf_free(&b);
        ck_fail(&err, 503, "no_memory", "the gateway is out of memory");
        command_fail(c, &err);
        return;
    }
    if (c->sse) {
        begin_streaming(c);
        http_sse_send(c->r, "done", -1, b.p, b.n);
        http_stream_end(c->r);
        ck_buf_free(&b);
    } else {
        http_reply_buf(c->r, 200, "application/json", &b);
    }
    command_free(c);
}

// A program that is not there or cannot be run is an ending, not an error: as in a shell, 127 (126 when
// it is there) with the reason on stderr. True when err was such an ending.
static bool not_runnable(struct v1_command *c, const struct ck_err *err)
{
    static const char denied[] = "Permission denied";
    if (strcmp(err->reason, "no_such_program"))
        return false;
    size_t n = strlen(err->text), d = strlen(denied);
    bool there = n >= d && !strcmp(err->text + n - d, denied);
    char line[CK_ERR_TEXT_MAX + 1];
    snprintf(line, sizeof line, "%s\n", err->text);
    on_output(c, ERR, ck_slice_str(line), true);
    json_t *h = json_pack("{s:{s:i,s:b,s:i}}", "exit", "exit_code", there ? 126 : 127, "timed_out", 0, "wall_ms", 0);
    on_exit_record(c, h);
    json_decref(h);
    return true;
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct v1_command *c = user;
    struct ck_err err = CK_ERR_INIT;
    if (ck_json_int(h, "re", -1, NULL) != c->rid)
        return;
    const char *out = ck_json_str(h, "out", NULL, NULL);
    if (bridge_error(h, &err)) {
        if (!not_runnable(c, &err))
            command_fail(c, &err);
    } else if (out) {
        on_output(c, !strcmp(out, "stderr"), f->nparts > 1 ? ck_frame_part(f, 1) : ck_slice("", 0), false);
    } else if (json_object_get(h, "exit")) {
        on_exit_record(c, h);
    } else {
        begin_streaming(c); // accepted
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct v1_command *c = user;
    c->link = NULL;
    command_fail(c, err);
}

static const struct bridge_link_events link_events = {.on_frame = on_frame, .on_close = on_close};

static void expired(void *user, const struct ck_err *err) { command_fail(user, err); }

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    command_free(user);
}

static void on_drain(struct http_req *r, void *user)
{
    (void)r;
    bridge_link_resume(((struct v1_command *)user)->link);
}

static void begin_streaming(struct v1_command *c)
{
    if (!c->sse || c->streaming)
        return;
    c->streaming = true;
    http_sse_begin(c->r);
    http_on_drain(c->r, on_drain);
}

static json_t *command_op(const struct http_req *r, const struct v1_command_body *b)
{
    json_t *op = json_pack("{s:s,s:s,s:I,s:s}", "op", "command", "cwd", b->cwd, "timeout_ms",
                           (json_int_t)b->timeout_ms, "url_prefix", http_base_url(r));
    if (b->cmd)
        json_object_set_new(op, "cmd", json_string(b->cmd));
    else
        json_object_set(op, "argv", b->argv);
    if (b->env)
        json_object_set(op, "env", b->env);
    return op;
}

static void start(struct http_req *r, struct session *s, const struct v1_command_body *b, struct ck_err *err)
{
    struct v1_command *c = calloc(1, sizeof *c);
    if (c)
        c->link = session_link_open(s, SESSION_LINK_REQUEST, &link_events, c, err);
    if (!c || !c->link) {
        if (!c)
            ck_fail(err, 503, "no_memory", "the gateway is out of memory: try again");
        free(c);
        http_reply_err(r, err);
        return;
    }
    c->r = r;
    c->sse = v1_wants_sse(r);
    v1_text_init(&c->text[OUT], KEEP_MAX);
    v1_text_init(&c->text[ERR], KEEP_MAX);
    struct ck_slice in = {(const uint8_t *)b->stdin_text, b->stdin_n};
    if (bridge_link_op(c->link, command_op(r, b), &in, b->stdin_n ? 1 : 0, &c->rid) < 0) {
        ck_fail(err, 413, "too_large", "command, folder and environment together are over 256 KiB");
        command_fail(c, err);
        return;
    }
    bridge_link_watch(c->link, true);
    session_touch(s);
    if (b->timeout_ms > 0) { // 0: the configuration allows commands without an end
        c->deadline = v1_deadline_new(http_gateway(r)->loop, expired, c);
        v1_deadline_arm_after(c->deadline, b->timeout_ms + session_wait_ms(s));
    }
    http_set_user(r, c);
    http_on_gone(r, on_gone);
}

void v1_commands_run(struct http_req *r)
{
    struct session *s = v1_session(r, true);
    if (!s)
        return;
    struct ck_err err = CK_ERR_INIT;
    struct v1_command_body b;
    if (v1_command_body_parse(http_body(r), http_gateway(r)->config->command_timeout_ms, &b, &err))
        http_reply_err(r, &err);
    else
        start(r, s, &b, &err);
    v1_command_body_free(&b);
}
