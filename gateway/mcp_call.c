// One call of a tool: from its arguments to its answer, with progress in between. The answer is JSON
// when it is quick and an event stream when the client asked for progress or the call takes long: a
// proxy would take the silence for a dead connection.
#include "gateway/mcp.h"

#include "common/ck_json.h"
#include "common/ck_time.h"
#include "gateway/cell_view.h"
#include "gateway/owner.h"
#include "gateway/picture_shrink.h"

#include <stdlib.h>

#define TICK_MS 1000
#define QUICK_MS 10000  // then the answer becomes a stream
#define TELL_MS 250     // between two notifications of progress
#define BEAT_MS 5000    // at least so often there is one
#define META_SESSION "cellkeep/session"
#define META_SERVER "io.modelcontextprotocol/serverInfo"

static void timer_closed(uv_handle_t *h) { free(h->data); }

static void call_free(struct mcp_call *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        c->m->calls = c->next;
    if (c->next)
        c->next->prev = c->prev;
    mcp_session_forget(c);
    if (c->run)
        cell_run_leave(c->run);
    bridge_link_close(c->link);
    bridge_call_cancel(c->op);
    session_unref(c->s);
    mcp_call_args_free(&c->args);
    v1_text_free(&c->text[0]);
    v1_text_free(&c->text[1]);
    ck_buf_free(&c->data);
    if (c->pictures)
        pictures_free(c->pictures);
    free(c->pictures);
    json_decref(c->params);
    json_decref(c->id);
    json_decref(c->progress);
    uv_close((uv_handle_t *)&c->timer, timer_closed);
}

json_t *mcp_answer(bool modern, const json_t *id, json_t *result)
{
    if (modern && result) {
        json_t *meta = json_object_get(result, "_meta");
        if (!meta)
            json_object_set_new(result, "_meta", meta = json_object());
        json_object_set_new(meta, META_SERVER, json_pack("{s:s,s:s}", "name", "cellkeep", "version", CK_VERSION));
        json_object_set_new(result, "resultType", json_string("complete"));
    }
    return mcp_response(id, result);
}

static void send_message(struct mcp_call *c, json_t *message)
{
    struct ck_buf b = CK_BUF_INIT;
    if (!ck_json_dump(message, &b))
        http_sse_send(c->r, "message", -1, b.p, b.n);
    ck_buf_free(&b);
    json_decref(message);
}

static void add_session(struct mcp_call *c, json_t *result)
{
    json_t *content = json_object_get(result, "content");
    if (c->lost)
        json_array_insert_new(
            content, 0,
            json_pack("{s:s,s:s}", "type", "text", "text",
                      "The session of before has ended. This is a fresh one, without its variables and files."));
    if (!c->s)
        return;
    json_object_set_new(result, "_meta", json_pack("{s:s}", META_SESSION, c->s->id));
    if (c->fresh && c->args.tool != MCP_NEW_SESSION) {
        char line[128];
        snprintf(line, sizeof line, "session: %s", c->s->id);
        mcp_add_text(result, line, strlen(line));
    }
}

void mcp_call_finish(struct mcp_call *c, json_t *result)
{
    if (!result)
        result = mcp_text_result(true, "The gateway is out of memory: try again.");
    if (c->r) {
        add_session(c, result);
        json_t *answer = mcp_answer(c->modern, c->id, result);
        http_on_gone(c->r, NULL);
        if (c->streaming && !c->cancelled)
            send_message(c, json_incref(answer));
        if (c->streaming)
            http_stream_end(c->r);
        else if (c->cancelled) // nobody waits for it any more: to answer would be an error
            http_reply_empty(c->r, 202);
        else
            http_reply_json(c->r, 200, json_incref(answer));
        json_decref(answer);
    } else {
        json_decref(result);
    }
    call_free(c);
}

void mcp_call_fail(struct mcp_call *c, const struct ck_err *err)
{
    mcp_call_finish(c, mcp_text_result(true, "%s", err->text));
}

static void begin_stream(struct mcp_call *c)
{
    c->streaming = true;
    http_sse_begin(c->r);
}

void mcp_call_tell(struct mcp_call *c, const char *text, size_t n)
{
    int64_t now = ck_mono_ms();
    if (!c->r || !c->progress || (c->told_ms && now - c->told_ms < TELL_MS))
        return;
    json_t *message = json_stringn(text, n);
    if (message)
        send_message(c,
                     mcp_progress(c->progress, (double)(now - c->started_ms + 1) / 1000, json_string_value(message)));
    json_decref(message);
    c->told_ms = now;
}

static void on_tick(uv_timer_t *t)
{
    struct mcp_call *c = t->data;
    int64_t now = ck_mono_ms(), s = (now - c->started_ms) / 1000;
    char line[64];
    if (c->r && !c->streaming && now - c->started_ms >= QUICK_MS)
        begin_stream(c);
    if (now - (c->told_ms ? c->told_ms : c->started_ms) >= BEAT_MS)
        mcp_call_tell(c, line,
                      (size_t)snprintf(line, sizeof line, "%s for %lld s", c->start ? "starting a session" : "running",
                                       (long long)s));
}

// Its end is on its way, and nobody looks at the pictures.
static void hurry(struct mcp_call *c)
{
    if (c->view)
        cell_view_hurry(c->view);
    else
        picture_shrink_hurry(c->shrink);
}

void mcp_call_cancel(struct mcp_call *c)
{
    if (c->converting) {
        hurry(c);
        return;
    }
    if (c->cancelled)
        return;
    c->cancelled = true;
    if (c->run)
        cell_run_cancel(c->run);
    else
        mcp_call_finish(c, mcp_text_result(true, "The call was cancelled."));
}

struct mcp_call *mcp_call_find(struct mcp *m, const struct mcp_peer *peer, const json_t *id)
{
    for (struct mcp_call *c = m->calls; c; c = c->next)
        if (c->peer == peer && json_equal(c->id, id))
            return c;
    return NULL;
}

static void on_gone(struct http_req *r, void *user)
{
    (void)r;
    struct mcp_call *c = user;
    c->r = NULL;
    if (c->converting) {
        hurry(c);
        return;
    }
    if (c->m->gw->draining)
        call_free(c);
    else if (c->modern)
        mcp_call_cancel(c);
}

void mcp_call_go(struct mcp_call *c)
{
    switch (c->args.tool) {
    case MCP_RUN_PYTHON:
        mcp_python(c);
        return;
    case MCP_RUN_COMMAND:
        mcp_command(c);
        return;
    case MCP_READ_FILE:
        mcp_read_file(c);
        return;
    case MCP_WRITE_FILE:
        mcp_write_file(c);
        return;
    case MCP_LIST_FILES:
        mcp_list_files(c);
        return;
    default: {
        json_t *result = mcp_text_result(false, "session: %s", c->s->id);
        json_object_set_new(result, "structuredContent",
                            json_pack("{s:s,s:s}", "session", c->s->id, "name", c->s->name));
        mcp_call_finish(c, result);
    }
    }
}

static struct mcp_call *call_new(struct mcp *m, struct http_req *r, struct mcp_peer *peer,
                                 const struct mcp_message *msg)
{
    struct mcp_call *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->m = m;
    c->r = r;
    c->peer = peer;
    c->modern = msg->modern;
    c->params = json_incref(msg->params);
    c->id = json_incref(msg->id);
    c->progress = json_incref(msg->progress);
    snprintf(c->owner, sizeof c->owner, "%s", http_owner(r));
    c->owner_max = owner_max_sessions(r, c->owner);
    c->started_ms = ck_mono_ms();
    c->rid = -1;
    c->next = m->calls;
    if (m->calls)
        m->calls->prev = c;
    m->calls = c;
    uv_timer_init(m->gw->loop, &c->timer);
    c->timer.data = c;
    return c;
}

void mcp_call_begin(struct mcp *m, struct http_req *r, struct mcp_peer *peer, const struct mcp_message *msg,
                    const char *base, bool links)
{
    struct ck_err err = CK_ERR_INIT;
    struct mcp_call *c = call_new(m, r, peer, msg);
    if (!c) {
        http_reply_json(r, 503,
                        mcp_error(msg->id, MCP_INTERNAL_ERROR, "the gateway is out of memory: try again", NULL));
        return;
    }
    snprintf(c->base, sizeof c->base, "%s", base);
    c->links = links;
    http_set_user(r, c);
    int rc = mcp_call_args_parse(c->params, m->gw->config->command_timeout_ms, &c->args, &err);
    if (rc == 2) {
        mcp_call_fail(c, &err);
    } else if (rc) {
        http_reply_json(r, 200, mcp_error(c->id, MCP_INVALID_PARAMS, err.text, NULL));
        call_free(c);
    } else {
        http_on_gone(r, on_gone);
        if (c->progress)
            begin_stream(c);
        uv_timer_start(&c->timer, on_tick, TICK_MS, TICK_MS);
        if (c->args.tool == MCP_CLOSE_SESSION)
            mcp_session_close(c);
        else
            mcp_session_need(c);
    }
}
