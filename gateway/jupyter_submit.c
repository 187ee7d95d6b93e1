// From a Jupyter client to the bridge: a frame is decoded and checked, its parts go on verbatim.
// What is wrong with it is told to the client, the connection lives on: the next cell is innocent.
#include "gateway/jupyter_socket.h"

#include "common/ck_log.h"

#include <stdio.h>
#include <string.h>

static void remember(struct jup_socket *k, const struct jup_in *m, int64_t rid)
{
    struct jup_sent *s = &k->asked[k->asked_at++ % JUP_SENT_MAX];
    s->rid = rid;
    s->channel = m->channel;
    s->header.n = 0;
    if (m->part[0].n > JUP_PARENT_MAX || ck_buf_add(&s->header, m->part[0].p, m->part[0].n))
        s->rid = 0;
}

void jup_submit_forget(struct jup_socket *k)
{
    for (unsigned i = 0; i < JUP_SENT_MAX; i++)
        k->asked[i].rid = 0;
}

void jup_submit_none_served(struct jup_socket *k, const struct ck_err *err)
{
    for (unsigned i = 0; i < JUP_SENT_MAX; i++) { // in the order in which they came
        int64_t rid = k->asked[(k->asked_at + i) % JUP_SENT_MAX].rid;
        if (rid)
            jup_submit_failed(k, rid, err);
    }
}

void jup_submit_free(struct jup_socket *k)
{
    for (unsigned i = 0; i < JUP_SENT_MAX; i++)
        ck_buf_free(&k->asked[i].header);
}

void jup_submit_failed(struct jup_socket *k, int64_t rid, const struct ck_err *err)
{
    struct jup_head head;
    for (unsigned i = 0; i < JUP_SENT_MAX; i++) {
        struct jup_sent *s = &k->asked[i];
        if (rid && s->rid == rid && !jup_head_of(ck_buf_slice(&s->header), &head, NULL)) {
            jup_say_refused(k, s->channel, &head, ck_buf_slice(&s->header), "CellkeepError", err->text);
            s->rid = 0;
            return;
        }
    }
    ck_log(CK_LOG_WARN, "jupyter", "request_failed kernel=%s reason=%s", k->session->id, err->reason);
}

static void refuse(struct jup_socket *k, const struct jup_in *m, const char *ename, const char *evalue)
{
    struct ck_slice header = m->part[0].n <= JUP_PARENT_MAX ? m->part[0] : ck_slice("", 0);
    jup_say_refused(k, m->channel < JUP_IOPUB ? m->channel : JUP_SHELL, &m->head, header, ename, evalue);
}

static void forward(struct jup_socket *k, const struct jup_in *m)
{
    int64_t rid = 0;
    json_t *op = json_pack("{s:s,s:s}", "op", "send", "ch", jup_channel_name(m->channel));
    int rc = op ? bridge_link_op(k->link, op, m->part, m->nparts, &rid) : -1;
    if (rc < 0) {
        refuse(k, m, "MessageTooLarge", "the gateway could not queue this message for the kernel: too much is waiting");
        return;
    }
    remember(k, m, rid);
    session_touch(k->session);
    if (rc == 1)
        ws_pause(k->ws); // until the link drains
}

// Told under the message's own id; one whose id cannot be read is for the log alone: clients do not
// expect messages that answer nothing.
static void refuse_malformed(struct jup_socket *k, bool binary, struct ck_slice msg, struct jup_in *m, const char *why)
{
    ck_log(CK_LOG_WARN, "jupyter", "message_refused kernel=%s bytes=%zu why=\"%s\"", k->session->id, msg.n, why);
    if (m->head.msg_id[0] || jup_peek(k->dialect, binary, msg, &m->channel, &m->head, &m->part[0]))
        refuse(k, m, "BadMessage", why);
}

void jup_submit(struct jup_socket *k, bool binary, struct ck_slice msg)
{
    struct jup_in m;
    struct ck_err err = CK_ERR_INIT;
    if (jup_decode(k->dialect, binary, msg, &m, &err)) {
        refuse_malformed(k, binary, msg, &m, err.text);
        return;
    }
    if (k->phase == JUP_ASLEEP)
        jup_socket_wake(k);
    jup_socket_spoke(k, m.head.session);
    if (k->link && k->phase == JUP_LIVE)
        forward(k, &m);
    else
        refuse(k, &m, "KernelUnreachable", "the session's bridge cannot be reached at the moment, run the cell again");
}

void jup_submit_too_large(struct jup_socket *k, bool binary, struct ck_slice start)
{
    enum jup_channel ch;
    struct jup_head head;
    struct ck_slice header;
    char text[160];
    snprintf(text, sizeof text, "the message is larger than the %d MiB that this gateway takes in one message "
             "(--max-message-mb)", k->g->config->max_message_mb);
    ck_log(CK_LOG_WARN, "jupyter", "message_too_large kernel=%s", k->session->id);
    if (jup_peek(k->dialect, binary, start, &ch, &head, &header))
        jup_say_refused(k, ch < JUP_IOPUB ? ch : JUP_SHELL, &head, header, "MessageTooLarge", text);
}
