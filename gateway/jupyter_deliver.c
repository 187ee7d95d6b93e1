// From the session's event log to a Jupyter client: each event becomes at most one WebSocket message
// in the client's dialect, in order. The parts of kernel messages are passed on as they are; a queue
// that is too long pauses the bridge, which keeps the rest in its log.
#include "gateway/jupyter_socket.h"

#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void send_out(struct jup_socket *k, const struct jup_out *m)
{
    bool text;
    struct ck_blob *b = jup_encode(k->dialect, m, &text);
    if (!b) {
        ck_log(CK_LOG_WARN, "jupyter", "message_not_encoded kernel=%s buffers=%u", k->session->id, m->nbuffers);
        return;
    }
    if (ws_send_blob(k->ws, !text, b, 0, b->n) == 1 && k->link)
        bridge_link_pause(k->link);
    k->said = ws_position(k->ws);
    ck_blob_unref(b);
}

void jup_say(struct jup_socket *k, const struct jup_synth *s) { send_out(k, &s->out); }

void jup_say_dead(struct jup_socket *k)
{
    if (k->dead_said)
        return;
    k->dead_said = true;
    JUP_CLEAN_SYNTH struct jup_synth s = JUP_SYNTH_INIT;
    if (!jup_synth_status(&s, k->kernel_session, ck_slice("", 0), "dead"))
        jup_say(k, &s);
}

void jup_say_refused(struct jup_socket *k, enum jup_channel ch, const struct jup_head *head, struct ck_slice header,
                     const char *ename, const char *evalue)
{
    JUP_CLEAN_SYNTH struct jup_synth s = JUP_SYNTH_INIT;
    const char *ks = k->kernel_session;
    if (jup_synth_reply(&s, ks, header, head, ch, ename, evalue)) { // no such thing as a reply to it
        if (!jup_synth_error(&s, ks, header, ename, evalue))
            jup_say(k, &s);
        return;
    }
    JUP_CLEAN_SYNTH struct jup_synth other = JUP_SYNTH_INIT;
    if (!jup_synth_status(&other, ks, header, "busy"))
        jup_say(k, &other);
    if (!strcmp(head->msg_type, "execute_request") && !jup_synth_error(&other, ks, header, ename, evalue))
        jup_say(k, &other);
    jup_say(k, &s);
    if (!jup_synth_status(&other, ks, header, "idle"))
        jup_say(k, &other);
}

// --- kernel messages -----------------------------------------------------------------------------

static void remember(struct jup_socket *k, const json_t *h, enum jup_channel ch, struct ck_slice parent)
{
    const char *ks = ck_json_str(h, "ks", "", NULL);
    size_t n = strlen(ks);
    if (n && n < sizeof k->kernel_session)
        memcpy(k->kernel_session, ks, n + 1);
    if (ch == JUP_IOPUB && parent.n > 2 && parent.n <= JUP_PARENT_MAX) {
        k->parent.n = 0;
        ck_buf_add(&k->parent, parent.p, parent.n);
    }
}

// Said together with the first message after the gap: its request is most likely the one whose
// output was dropped, and clients show output only under a request that they know.
static void say_gap(struct jup_socket *k)
{
    JUP_CLEAN_SYNTH struct jup_synth s = JUP_SYNTH_INIT;
    if (k->gap_count && !jup_synth_gap(&s, k->kernel_session, ck_buf_slice(&k->parent), k->gap_count, k->gap_bytes))
        jup_say(k, &s);
    k->gap_count = k->gap_bytes = 0;
}

// True when the settings limit the rate and this message is over it.
static bool over_rate(struct jup_socket *k, const char *type, const struct jup_out *m, uint64_t bytes)
{
    const struct config *c = k->g->config;
    struct jup_rate_limits l = {c->iopub_msg_rate_limit, c->iopub_data_rate_limit, c->rate_limit_window_ms};
    char text[400];
    if (m->channel != JUP_IOPUB || !jup_rate_on(&l) || (!k->rate && !(k->rate = calloc(1, sizeof *k->rate))))
        return false;
    enum jup_rate_verdict v = jup_rate_take(k->rate, &l, ck_mono_ms(), type, m->part[3], bytes);
    if (v < JUP_RATE_TELL_MSGS)
        return v == JUP_RATE_DROP;
    JUP_CLEAN_SYNTH struct jup_synth s = JUP_SYNTH_INIT;
    jup_rate_text(text, sizeof text, v, &l);
    if (!jup_synth_stderr(&s, k->kernel_session, m->part[1], text))
        jup_say(k, &s);
    return true;
}

static void deliver_message(struct jup_socket *k, const json_t *h, const struct ck_frame *f)
{
    if (f->nparts < 5 || f->nparts > CK_FRAME_PARTS_MAX)
        return;
    enum jup_channel ch = jup_channel_of(ck_slice_str(ck_json_str(h, "ch", "", NULL)));
    struct jup_out m = {.channel = ch, .nbuffers = f->nparts - 5};
    struct ck_slice buffers[CK_FRAME_PARTS_MAX];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 4; i++)
        bytes += (m.part[i] = ck_frame_part(f, i + 1)).n;
    for (uint32_t i = 0; i < m.nbuffers; i++)
        bytes += (buffers[i] = ck_frame_part(f, i + 5)).n;
    m.buffers = buffers;
    remember(k, h, ch, m.part[1]);
    const char *type = ck_json_str(h, "mt", "", NULL);
    if (!strcmp(type, "status") && ck_slice_is(m.part[3], "{\"execution_state\":\"dead\"}"))
        k->dead_said = true;
    say_gap(k);
    if (ch != JUP_CHANNEL_NONE && !over_rate(k, type, &m, bytes))
        send_out(k, &m);
}

// --- the session's own events --------------------------------------------------------------------

// The bridge tells crashes and deaths in the kernel's name as well, as status messages; this ends
// the socket, and says `dead` when the bridge could not.
static void deliver_state(struct jup_socket *k, const json_t *h)
{
    if (!strcmp(ck_json_str(h, "state", "", NULL), "dead"))
        jup_socket_end(k);
}

static uint64_t number(const json_t *h, const char *key)
{
    int64_t v = ck_json_int(h, key, 0, NULL);
    return v > 0 ? (uint64_t)v : 0;
}

void jup_deliver(struct jup_socket *k, const json_t *h, const struct ck_frame *frame)
{
    const char *ev = ck_json_str(h, "ev", "", NULL);
    uint64_t seq = number(h, "seq");
    if (!strcmp(ev, "msg")) {
        deliver_message(k, h, frame);
    } else if (!strcmp(ev, "gap")) {
        k->gap_count += number(h, "count");
        k->gap_bytes += number(h, "bytes");
        seq = number(h, "to");
    } else if (!strcmp(ev, "state")) {
        deliver_state(k, h);
    }
    if (seq > k->last_seq)
        k->last_seq = seq;
    // A gap counts as delivered with the message that it is told with.
    if (k->gap_count)
        return;
    jup_ack_given(&k->ack, k->last_seq, k->said, ws_asked(k->ws));
    jup_position_given(k);
}
