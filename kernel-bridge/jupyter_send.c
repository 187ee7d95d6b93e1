// From Jupyter clients to the kernel: their messages go on verbatim, signed anew. While a fresh
// kernel starts they are parked, within bounds: a client that has just reconnected must not lose the
// kernel_info request that it waits for. So are those of the shell channel while an interrupt is on its
// way, which is meant for what was there before them.
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/service.h"

#include <stdlib.h>

static int read_message(const struct bop *op, struct jw_msg *m, struct ck_slice buffers[], struct ck_err *err)
{
    static const char *const names[] = {"header", "parent_header", "metadata", "content"};
    for (uint32_t i = 0; i < 4; i++) {
        m->part[i] = ck_frame_part(&op->frame, i + 1);
        size_t at = 0;
        if (!m->part[i].n || m->part[i].p[0] != '{' || !ck_json_valid(m->part[i].p, m->part[i].n, &at))
            return ck_fail(err, 400, "bad_message", "the message's %s is not a JSON object (byte %zu)", names[i], at);
    }
    if (m->part[JW_HEADER].n > JW_HEADER_MAX || m->part[JW_PARENT].n > JW_HEADER_MAX)
        return ck_fail(err, 400, "bad_message", "the message's header is over %d bytes", JW_HEADER_MAX);
    m->nbuffers = op->frame.nparts - 5;
    for (uint32_t i = 0; i < m->nbuffers; i++)
        buffers[i] = ck_frame_part(&op->frame, i + 5);
    m->buffers = buffers;
    return 0;
}

static int park(struct bridge *b, const struct bop *op, struct ck_err *err)
{
    // The frame as it came: body length and body stand together in the connection's buffer.
    const uint8_t *start = op->frame.body - 4;
    size_t n = 0;
    struct ck_frame again;
    struct ck_slice last = ck_frame_part(&op->frame, op->frame.nparts - 1);
    size_t total = (size_t)(last.p + last.n - start);
    if (b->parked_n == BR_PARKED_MAX || b->parked_bytes + total > BR_PARKED_BYTES_MAX)
        return ck_fail(err, 503, "kernel_starting",
                       "a fresh kernel is starting, or an interrupt is on its way, and too many messages wait already");
    struct ck_blob *copy = ck_blob_new(total);
    if (!copy)
        return ck_fail(err, 500, "no_memory", "no memory to keep a message for the kernel");
    memcpy(copy->p, start, total);
    if (ck_frame_parse(copy->p, copy->n, total, &again, &n, err)) {
        ck_blob_unref(copy);
        return -1;
    }
    b->parked[b->parked_n++] = copy;
    b->parked_bytes += total;
    return 0;
}

static int forward(struct bridge *b, const struct bop *op, struct ck_err *err)
{
    struct ck_slice buffers[JW_BUFFERS_MAX];
    struct jw_msg m = {.nbuffers = 0};
    struct jw_head head;
    if (read_message(op, &m, buffers, err))
        return -1;
    jw_read_head(m.part[JW_HEADER], &head);
    if (kc_send(b->kc, op->channel, m.part, m.buffers, m.nbuffers, err))
        return -1;
    br_active(b);
    if (op->channel == JW_SHELL && !strcmp(head.type, "execute_request") && head.msg_id[0])
        trk_jupyter_sent(b->trk, head.msg_id, head.session, m.part[JW_HEADER]);
    if (op->channel == JW_STDIN)
        b->asks = false;
    if (op->channel == JW_CONTROL && !strcmp(head.type, "interrupt_request")) {
        br_cell_interrupted(b);
        br_interrupt_sent(b);
    }
    br_state_event(b, "");
    return 0;
}

int br_jupyter_send(struct bridge *b, const struct bop *op, struct consumer *from, struct conn *conn,
                    struct ck_err *err)
{
    struct jw_head head;
    struct ck_slice header = ck_frame_part(&op->frame, 1);
    if (br_check_alive(b, err))
        return -1;
    if (header.n <= JW_HEADER_MAX && ck_json_valid(header.p, header.n, NULL)) {
        uint64_t seq = 0;
        jw_read_head(header, &head);
        if (!strcmp(head.session, b->own_session))
            return ck_fail(err, 400, "bad_message", "this header.session belongs to the bridge");
        if (from && head.session[0] && cons_learn(b->cons, from, head.session, &seq) > 0)
            conn_backfill(conn, head.session, seq);
    }
    bool wait = op->channel == JW_SHELL && b->interrupt_until;
    return br_kernel_ready(b) && !wait ? forward(b, op, err) : park(b, op, err);
}

void br_parked_flush(struct bridge *b)
{
    unsigned n = b->parked_n;
    b->parked_n = 0;
    b->parked_bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        struct ck_frame f;
        struct bop op;
        size_t used;
        struct ck_err err = CK_ERR_INIT;
        if (!ck_frame_parse(b->parked[i]->p, b->parked[i]->n, b->parked[i]->n, &f, &used, &err)) {
            if (!bop_parse(&f, &op, &err))
                forward(b, &op, &err); // a refused one is as lost as if the kernel had died a moment later
            bop_free(&op);
        }
        ck_blob_unref(b->parked[i]);
    }
}

void br_parked_drop(struct bridge *b)
{
    for (unsigned i = 0; i < b->parked_n; i++)
        ck_blob_unref(b->parked[i]);
    b->parked_n = 0;
    b->parked_bytes = 0;
}
