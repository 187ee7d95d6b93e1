// Event headers as text. Strings of the guest go through the JSON escaper, always.
#include "kernel-bridge/evbuild.h"

#include "common/ck_json.h"

#include <inttypes.h>
#include <stdlib.h>

static int add_str(struct ck_buf *b, const char *key, const char *value)
{
    return ck_buf_printf(b, ",\"%s\":", key) || ck_buf_add_json_str(b, value, strlen(value));
}

static int begin(struct ck_buf *b, const char *ev, uint64_t seq, int64_t t_ms)
{
    return ck_buf_printf(b, "{\"ev\":\"%s\",\"seq\":%" PRIu64 ",\"t\":%" PRId64, ev, seq, t_ms);
}

static struct ck_blob *finish(struct ck_buf *b, int bad, const struct ck_slice *parts, uint32_t n)
{
    return bad || ck_buf_add(b, "}", 1) ? NULL : ck_frame_encode(ck_buf_slice(b), parts, n);
}

struct ck_blob *evb_message(uint64_t seq, int64_t t_ms, const struct evb_msg *m)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int bad = begin(&b, "msg", seq, t_ms) | add_str(&b, "ch", jw_channel_names[m->channel]) |
              add_str(&b, "mt", m->head->type) | add_str(&b, "pid", m->parent->msg_id) |
              add_str(&b, "ps", m->parent->session) | add_str(&b, "ks", m->head->session);
    if (m->cell[0])
        bad |= add_str(&b, "cell", m->cell);
    struct ck_slice few[16], *parts = few;
    uint32_t n = 4 + m->msg->nbuffers;
    if (n > 16 && !(parts = malloc(n * sizeof *parts)))
        return NULL;
    memcpy(parts, m->msg->part, 4 * sizeof *parts);
    if (m->msg->nbuffers)
        memcpy(parts + 4, m->msg->buffers, m->msg->nbuffers * sizeof *parts);
    struct ck_blob *blob = finish(&b, bad, parts, n);
    if (parts != few)
        free(parts);
    return blob;
}

struct ck_blob *evb_cell_start(uint64_t seq, int64_t t_ms, const char *cell, int64_t count)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int bad = begin(&b, "cell_start", seq, t_ms) | add_str(&b, "cell", cell);
    if (count >= 0)
        bad |= ck_buf_printf(&b, ",\"execution_count\":%" PRId64, count);
    return finish(&b, bad, NULL, 0);
}

struct ck_blob *evb_input(uint64_t seq, int64_t t_ms, const char *cell, bool password, struct ck_slice prompt)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int bad = begin(&b, "input", seq, t_ms) | add_str(&b, "cell", cell) |
              ck_buf_printf(&b, ",\"password\":%s", password ? "true" : "false");
    return finish(&b, bad, &prompt, 1);
}

static struct ck_blob *with_cell(uint64_t seq, int64_t t_ms, const char *ev, const char *cell, const char *status,
                                 struct ck_slice json)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int bad = begin(&b, ev, seq, t_ms);
    if (cell[0])
        bad |= add_str(&b, "cell", cell);
    if (status)
        bad |= add_str(&b, "status", status);
    return finish(&b, bad, &json, 1);
}

struct ck_blob *evb_artifact(uint64_t seq, int64_t t_ms, const char *cell, struct ck_slice json)
{
    return with_cell(seq, t_ms, "artifact", cell, NULL, json);
}

struct ck_blob *evb_cell(uint64_t seq, int64_t t_ms, const char *cell, const char *status, struct ck_slice json)
{
    return with_cell(seq, t_ms, "cell", cell, status, json);
}

struct ck_blob *evb_state(uint64_t seq, int64_t t_ms, const char *state, const char *reason, const json_t *usage)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int bad = begin(&b, "state", seq, t_ms) | add_str(&b, "state", state);
    if (reason[0])
        bad |= add_str(&b, "reason", reason);
    if (usage)
        bad |= ck_buf_add_str(&b, ",\"usage\":") | ck_json_dump(usage, &b);
    return finish(&b, bad, NULL, 0);
}

struct ck_blob *evb_gap(int64_t t_ms, uint64_t from, uint64_t to, uint64_t count, uint64_t bytes)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int bad = begin(&b, "gap", to, t_ms) | ck_buf_printf(&b, ",\"from\":%" PRIu64 ",\"to\":%" PRIu64
                                                             ",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64,
                                                         from, to, count, bytes);
    return finish(&b, bad, NULL, 0);
}
