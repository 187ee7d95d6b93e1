// The bytes of QMP. Pure: no sockets, no clock. Must never keep more than one line and what was read
// after it.
#include "vmm/qmp_codec.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <string.h>

void ck_qmp_msg_clear(struct ck_qmp_msg *m)
{
    json_decref(m->root);
    *m = (struct ck_qmp_msg){.root = NULL};
}

static int classify(struct ck_qmp_msg *m, struct ck_err *err)
{
    json_t *id = json_object_get(m->root, "id"), *v;
    m->id = json_is_integer(id) && json_integer_value(id) > 0 ? (uint64_t)json_integer_value(id) : 0;
    if ((v = json_object_get(m->root, "return"))) {
        m->kind = CK_QMP_RETURN;
        m->body = v;
    } else if (json_is_object(v = json_object_get(m->root, "error"))) {
        m->kind = CK_QMP_ERROR;
        m->name = ck_json_str(v, "class", "GenericError", NULL);
        m->desc = ck_json_str(v, "desc", "no description", NULL);
    } else if (json_is_string(v = json_object_get(m->root, "event"))) {
        m->kind = CK_QMP_EVENT;
        m->name = json_string_value(v);
        m->body = json_object_get(m->root, "data");
    } else if (json_is_object(v = json_object_get(m->root, "QMP"))) {
        m->kind = CK_QMP_GREETING;
        m->body = v;
    } else {
        return ck_fail(err, 502, "bad_qmp", "QEMU sent a message of no known kind");
    }
    return 0;
}

int ck_qmp_parse_line(const void *p, size_t n, struct ck_qmp_msg *out, struct ck_err *err)
{
    *out = (struct ck_qmp_msg){.root = NULL};
    if (n > CK_QMP_LINE_MAX)
        return ck_fail(err, 502, "bad_qmp", "QEMU sent a line of %zu bytes", n);
    struct ck_err inner = CK_ERR_INIT;
    out->root = ck_json_parse_object(p, n, false, &inner);
    if (!out->root)
        return ck_fail(err, 502, "bad_qmp", "QEMU sent what is not a JSON object: %s", inner.text);
    if (classify(out, err)) {
        ck_qmp_msg_clear(out);
        return -1;
    }
    return 0;
}

void ck_qmp_lines_free(struct ck_qmp_lines *l)
{
    ck_buf_free(&l->buf);
    l->scanned = 0;
}

int ck_qmp_lines_feed(struct ck_qmp_lines *l, const void *p, size_t n, struct ck_err *err)
{
    if (ck_buf_add(&l->buf, p, n))
        return ck_fail(err, 502, "no_memory", "no memory for what QEMU sent");
    return 0;
}

int ck_qmp_lines_next(struct ck_qmp_lines *l, struct ck_slice *line, size_t *taken, struct ck_err *err)
{
    for (;;) {
        const uint8_t *from = l->buf.p + l->scanned;
        const uint8_t *end = l->buf.n > l->scanned ? memchr(from, '\n', l->buf.n - l->scanned) : NULL;
        size_t len = end ? (size_t)(end - l->buf.p) : l->buf.n;
        if (len > CK_QMP_LINE_MAX)
            return ck_fail(err, 502, "bad_qmp", "QEMU sent a line over %d bytes", CK_QMP_LINE_MAX);
        if (!end) {
            l->scanned = l->buf.n;
            return 0;
        }
        *taken = len + 1;
        if (len && l->buf.p[len - 1] == '\r')
            len--;
        if (len) {
            *line = ck_slice(l->buf.p, len);
            return 1;
        }
        ck_qmp_lines_take(l, *taken);
    }
}

void ck_qmp_lines_take(struct ck_qmp_lines *l, size_t taken)
{
    ck_buf_consume(&l->buf, taken);
    l->scanned = 0;
}

int ck_qmp_encode(const char *name, json_t *args, uint64_t id, struct ck_buf *out)
{
    CK_CLEAN_JSON json_t *o = json_pack("{s:s, s:I}", "execute", name, "id", (json_int_t)id);
    if (!o || (args && json_object_set(o, "arguments", args)) || ck_json_dump(o, out))
        return -1;
    return ck_buf_add_str(out, "\n");
}
