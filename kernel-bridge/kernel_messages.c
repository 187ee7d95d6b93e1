// From the kernel into the log: every verified message becomes one event, encoded once; the tracker
// says what it means for cells. Also messages that the bridge speaks in the kernel's name: markers
// for what had to be dropped, and the ends that a dead kernel cannot tell. Must never log the
// bridge's own questions, nor content over the cap.
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/jscan.h"

#include <inttypes.h>

static enum ev_class class_of(enum jw_channel ch, const char *type)
{
    if (ch != JW_IOPUB)
        return EV_OTHER;
    if (!strcmp(type, "stream"))
        return EV_STREAM;
    return strstr(type, "display_data") || !strcmp(type, "execute_result") ? EV_DISPLAY : EV_OTHER;
}

static void log_message(struct bridge *b, const struct kc_message *m, const char *cell)
{
    struct ev_tag tag = {.kind = EV_MSG, .class = class_of(m->channel, m->head.type), .channel = m->channel,
                         .cell = cell, .session = m->parent.session};
    struct evb_msg e = {m->channel, &m->head, &m->parent, cell, &m->msg};
    br_append(b, &tag, evb_message(evlog_next(b->log), ck_wall_us() / 1000, &e));
}

// The /v1 cell that a message belongs to; late output of a finished one still carries its id.
static const char *cell_of(struct bridge *b, const struct kc_message *m, const struct trk_step *step)
{
    if (step->cell)
        return step->cell->id;
    if (strcmp(m->parent.session, b->own_session))
        return "";
    const struct cellbook_entry *e = cellbook_find(&b->book, m->parent.msg_id);
    return e ? e->id : "";
}

static void note_kernel(struct bridge *b, const struct kc_message *m)
{
    struct ck_slice count;
    if (m->channel == JW_STDIN && !strcmp(m->head.type, "input_request"))
        b->asks = true;
    else if (m->channel == JW_SHELL && !strcmp(m->head.type, "execute_reply"))
        b->asks = false;
    if (m->channel == JW_IOPUB && m->head.session[0])
        memcpy(b->kernel_session, m->head.session, sizeof b->kernel_session);
    if (m->channel == JW_IOPUB && !strcmp(m->head.type, "execute_input") &&
        jscan_field(m->msg.part[JW_CONTENT], "execution_count", &count))
        jscan_int(count, &b->execution_count);
}

static void take(struct bridge *b, const struct kc_message *m)
{
    struct trk_step step;
    bool wound = trk_winding(b->trk);
    trk_message(b->trk, m->channel, &m->head, &m->parent, m->msg.part[JW_CONTENT], ck_mono_us(), &step);
    if (m->msg.left_out && step.cell && m->channel == JW_IOPUB)
        cout_dropped(&step.cell->out, m->head.type, m->msg.left_out); // the rest of it is kept
    const char *cell = cell_of(b, m, &step);
    bool own = !strcmp(m->parent.session, b->own_session);
    note_kernel(b, m);
    br_active(b);
    if (step.started)
        br_cells_step(b, &step, m); // cell_start comes before the cell's first message
    step.started = false;
    // Our own probes and questions are nobody's business, nor is a kernel's first "starting".
    if (!(own && !cell[0]) && !(m->channel == JW_IOPUB && !m->parent.msg_id[0] && !strcmp(m->head.type, "status")))
        log_message(b, m, cell);
    if (step.jupyter_replied)
        br_changes_for_jupyter(b);
    if (wound && !trk_winding(b->trk) && br_kernel_ready(b))
        br_wound_rests(b);
    if (m->channel == JW_CONTROL && !strcmp(m->head.type, "interrupt_reply"))
        br_interrupt_arrived(b);
    br_cells_step(b, &step, m);
    if (step.busy_changed || step.closing)
        br_state_event(b, "");
    br_retime(b);
}

// What counts as received: a restored kernel says again what came after the last of these.
static bool listening(struct bridge *b, const struct kc_message *m)
{
    if (b->muted || b->state == BR_DEAD || b->state == BR_CLOSING)
        return false;
    if (m->channel == JW_IOPUB)
        memcpy(b->seen, m->head.msg_id, sizeof b->seen);
    return true;
}

void br_kernel_message(void *user, const struct kc_message *m)
{
    struct bridge *b = user;
    if (!listening(b, m) || br_kernel_up_message(b, m))
        return;
    take(b, m);
}

void br_inject(struct bridge *b, enum jw_channel ch, const char *type, struct ck_slice parent, struct ck_slice content)
{
    char id[CK_UUID_MAX];
    CK_CLEAN_BUF struct ck_buf header = CK_BUF_INIT;
    ck_uuid4(id);
    const char *session = b->kernel_session[0] ? b->kernel_session : b->own_session;
    if (jw_make_header(&header, id, session, type, ck_wall_us()))
        return;
    struct kc_message m = {.channel = ch};
    m.msg.part[JW_HEADER] = ck_buf_slice(&header);
    m.msg.part[JW_PARENT] = parent;
    m.msg.part[JW_METADATA] = ck_slice_str("{}");
    m.msg.part[JW_CONTENT] = content;
    jw_read_head(m.msg.part[JW_HEADER], &m.head);
    jw_read_head(parent, &m.parent);
    if (!m.parent.msg_id[0] || b->state == BR_DEAD || b->state == BR_RESTARTING)
        log_message(b, &m, ""); // spoken for a kernel that is gone: nothing to track
    else
        take(b, &m);
}

void br_inject_status(struct bridge *b, const char *state)
{
    char content[64];
    snprintf(content, sizeof content, "{\"execution_state\":\"%s\"}", state);
    br_inject(b, JW_IOPUB, "status", ck_slice_str("{}"), ck_slice_str(content));
}

void br_kernel_oversize(void *user, const struct kc_message *m)
{
    struct bridge *b = user;
    char content[300];
    if (!listening(b, m) || br_kernel_up_message(b, m))
        return;
    ck_log(CK_LOG_WARN, "bridge", "message_over_cap id=%s bytes=%" PRIu64 " cap=%" PRIu64, b->conf.id, m->msg.bytes,
           b->conf.limits.message_bytes);
    if (m->channel == JW_IOPUB) {
        struct trk_cell *c = trk_active(b->trk);
        if (c && !strcmp(c->id, m->parent.msg_id))
            cout_dropped(&c->out, m->head.type, m->msg.bytes);
        snprintf(content, sizeof content,
                 "{\"name\":\"stderr\",\"text\":\"[cellkeep: a message of %" PRIu64
                 " bytes was dropped, the cap is %" PRIu64 "]\\n\"}",
                 m->msg.bytes, b->conf.limits.message_bytes);
        br_inject(b, JW_IOPUB, "stream", m->msg.part[JW_PARENT], ck_slice_str(content));
        return;
    }
    // A reply that is too large must still be a reply, or its client waits for ever.
    snprintf(content, sizeof content,
             "{\"status\":\"error\",\"ename\":\"MessageTooLarge\",\"evalue\":\"the kernel's reply of %" PRIu64
             " bytes is over the cap of %" PRIu64 "\",\"traceback\":[]}",
             m->msg.bytes, b->conf.limits.message_bytes);
    br_inject(b, m->channel, m->head.type, m->msg.part[JW_PARENT], ck_slice_str(content));
}

static void end_execution(struct bridge *b, struct ck_slice parent, struct ck_slice error)
{
    CK_CLEAN_BUF struct ck_buf reply = CK_BUF_INIT;
    if (ck_buf_add_str(&reply, "{\"status\":\"error\",\"execution_count\":null,") ||
        ck_buf_add(&reply, error.p + 1, error.n - 1))
        return;
    br_inject(b, JW_IOPUB, "error", parent, error);
    br_inject(b, JW_SHELL, "execute_reply", parent, ck_buf_slice(&reply));
    br_inject(b, JW_IOPUB, "status", parent, ck_slice_str("{\"execution_state\":\"idle\"}"));
}

void br_fail_jupyter(struct bridge *b, const char *ename, const char *evalue)
{
    char id[JW_ID_MAX], session[JW_ID_MAX];
    struct ck_slice header;
    CK_CLEAN_BUF struct ck_buf error = CK_BUF_INIT;
    if (ck_buf_printf(&error, "{\"ename\":\"%s\",\"evalue\":", ename) ||
        ck_buf_add_json_str(&error, evalue, strlen(evalue)) || ck_buf_add_str(&error, ",\"traceback\":[]}"))
        return;
    while (trk_jupyter_pop(b->trk, id, session, &header))
        if (header.n)
            end_execution(b, header, ck_buf_slice(&error));
}
