// Builders of the few messages that do not come from the kernel. They go through the same encoder
// as everything else and must never carry more than what the caller passes in.
#include "gateway/jupyter_synth.h"

#include "common/ck_crypto.h"
#include "common/ck_time.h"

#include <inttypes.h>
#include <stdio.h>

void jup_synth_free(struct jup_synth *s)
{
    ck_buf_free(&s->header);
    ck_buf_free(&s->content);
}

static int begin(struct jup_synth *s, enum jup_channel ch, const char *type, const char *session,
                 struct ck_slice parent)
{
    jup_synth_free(s);
    char id[CK_UUID_MAX], own[CK_UUID_MAX], date[CK_ISO8601_MAX];
    ck_uuid4(id);
    ck_iso8601_us(ck_wall_us(), date);
    if (!session[0]) {
        ck_uuid4(own);
        session = own;
    }
    int rc = ck_buf_printf(&s->header, "{\"msg_id\":\"%s\",\"msg_type\":", id);
    rc |= ck_buf_add_json_str(&s->header, type, strlen(type));
    rc |= ck_buf_add_str(&s->header, ",\"username\":\"cellkeep\",\"session\":");
    rc |= ck_buf_add_json_str(&s->header, session, strlen(session));
    rc |= ck_buf_printf(&s->header, ",\"date\":\"%s\",\"version\":\"5.3\"}", date);
    s->out = (struct jup_out){.channel = ch};
    s->out.part[1] = parent.n ? parent : ck_slice("{}", 2);
    s->out.part[2] = ck_slice("{}", 2);
    return rc;
}

// The buffers do not move any more from here on.
static int finish(struct jup_synth *s, int rc)
{
    s->out.part[0] = ck_buf_slice(&s->header);
    s->out.part[3] = ck_buf_slice(&s->content);
    return rc ? -1 : 0;
}

static int member(struct ck_buf *b, const char *before, const char *text)
{
    return ck_buf_add_str(b, before) | ck_buf_add_json_str(b, text, strlen(text));
}

int jup_synth_status(struct jup_synth *s, const char *session, struct ck_slice parent, const char *state)
{
    int rc = begin(s, JUP_IOPUB, "status", session, parent);
    rc |= member(&s->content, "{\"execution_state\":", state) | ck_buf_add_str(&s->content, "}");
    return finish(s, rc);
}

int jup_synth_stderr(struct jup_synth *s, const char *session, struct ck_slice parent, const char *text)
{
    int rc = begin(s, JUP_IOPUB, "stream", session, parent);
    rc |= member(&s->content, "{\"name\":\"stderr\",\"text\":", text) | ck_buf_add_str(&s->content, "}");
    return finish(s, rc);
}

int jup_synth_gap(struct jup_synth *s, const char *session, struct ck_slice parent, uint64_t count, uint64_t bytes)
{
    char text[256];
    snprintf(text, sizeof text,
             "\n[cellkeep: %" PRIu64 " message%s (%" PRIu64 " bytes) of output were dropped here, "
             "because more was printed than the session's log holds]\n",
             count, count == 1 ? "" : "s", bytes);
    return jup_synth_stderr(s, session, parent, text);
}

static int add_error(struct ck_buf *b, const char *ename, const char *evalue)
{
    int rc = member(b, "\"ename\":", ename) | member(b, ",\"evalue\":", evalue);
    rc |= ck_buf_add_str(b, ",\"traceback\":[");
    rc |= ck_buf_add_json_str(b, evalue, strlen(evalue));
    return rc | ck_buf_add_str(b, "]");
}

int jup_synth_error(struct jup_synth *s, const char *session, struct ck_slice parent, const char *ename,
                    const char *evalue)
{
    int rc = begin(s, JUP_IOPUB, "error", session, parent);
    rc |= ck_buf_add_str(&s->content, "{") | add_error(&s->content, ename, evalue) | ck_buf_add_str(&s->content, "}");
    return finish(s, rc);
}

int jup_synth_reply(struct jup_synth *s, const char *session, struct ck_slice parent, const struct jup_head *request,
                    enum jup_channel ch, const char *ename, const char *evalue)
{
    static const char suffix[] = "_request";
    size_t n = strlen(request->msg_type), tail = sizeof suffix - 1;
    if (n <= tail || strcmp(request->msg_type + n - tail, suffix) != 0)
        return 1; // comm messages and input_reply have none
    char type[JUP_ID_MAX + 8];
    snprintf(type, sizeof type, "%.*s_reply", (int)(n - tail), request->msg_type);
    int rc = begin(s, ch, type, session, parent);
    rc |= ck_buf_add_str(&s->content, "{\"status\":\"error\",\"execution_count\":null,");
    rc |= add_error(&s->content, ename, evalue) | ck_buf_add_str(&s->content, "}");
    return finish(s, rc);
}
