// The tool run_command. The command is killed when the call is cancelled: its link is closed.
#include "gateway/mcp.h"

#include "common/ck_json.h"

#define KEEP_MAX (4u * 1024 * 1024) // bytes of stdout, and of stderr

static void finished(struct mcp_call *c, const json_t *h)
{
    struct mcp_origin origin = {c->base, c->links};
    mcp_call_finish(c, mcp_command_result(json_object_get(h, "exit"), json_object_get(h, "artifacts"),
                                          ck_buf_slice(&c->text[0].kept), ck_buf_slice(&c->text[1].kept), &origin));
}

// As in a shell: the reason is on stderr.
static void not_runnable(struct mcp_call *c, const struct ck_err *err)
{
    mcp_call_finish(c, mcp_text_result(true, "%s\nexit code 127", err->text));
}

static void on_frame(struct bridge_link *l, void *user, const json_t *h, const struct ck_frame *f)
{
    (void)l;
    struct mcp_call *c = user;
    struct ck_err err = CK_ERR_INIT;
    const char *out = ck_json_str(h, "out", NULL, NULL);
    if (ck_json_int(h, "re", -1, NULL) != c->rid)
        return;
    if (bridge_error(h, &err)) {
        if (!strcmp(err.reason, "no_such_program"))
            not_runnable(c, &err);
        else
            mcp_call_fail(c, &err);
    } else if (out && f->nparts > 1) {
        v1_text_take(&c->text[!strcmp(out, "stderr")], ck_frame_part(f, 1), false, NULL);
    } else if (json_object_get(h, "exit")) {
        finished(c, h);
    }
}

static void on_close(struct bridge_link *l, void *user, const struct ck_err *err)
{
    (void)l;
    struct mcp_call *c = user;
    c->link = NULL;
    mcp_call_fail(c, err);
}

static const struct bridge_link_events events = {.on_frame = on_frame, .on_close = on_close};

void mcp_command(struct mcp_call *c)
{
    struct ck_err err = CK_ERR_INIT;
    const struct v1_command_body *b = &c->args.command;
    c->link = session_link_open(c->s, SESSION_LINK_REQUEST, &events, c, &err);
    if (!c->link) {
        mcp_call_fail(c, &err);
        return;
    }
    v1_text_init(&c->text[0], KEEP_MAX);
    v1_text_init(&c->text[1], KEEP_MAX);
    json_t *op = json_pack("{s:s,s:s,s:s,s:I,s:s}", "op", "command", "cmd", b->cmd, "cwd", b->cwd, "timeout_ms",
                           (json_int_t)b->timeout_ms, "url_prefix", c->r ? http_base_url(c->r) : "");
    struct ck_slice in = {(const uint8_t *)b->stdin_text, b->stdin_n};
    if (bridge_link_op(c->link, op, &in, b->stdin_n ? 1 : 0, &c->rid) < 0) {
        ck_fail(&err, 413, "too_large", "the command is too long");
        mcp_call_fail(c, &err);
        return;
    }
    bridge_link_watch(c->link, true);
    session_touch(c->s);
}
