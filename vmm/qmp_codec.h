// The bytes of QMP (QEMU machine protocol): lines of JSON. Pure and bounded; QEMU is trusted no more
// than the guest it runs.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <stdint.h>

#define CK_QMP_LINE_MAX (1024 * 1024)

enum ck_qmp_kind { CK_QMP_GREETING, CK_QMP_RETURN, CK_QMP_ERROR, CK_QMP_EVENT };

struct ck_qmp_msg {
    enum ck_qmp_kind kind;
    json_t *root;     // owned
    uint64_t id;      // return and error: the command's id, 0 when it carries none
    json_t *body;     // borrowed: the return value, or the event's data; may be NULL
    const char *name; // borrowed: event name or error class
    const char *desc; // borrowed: error text
};

// One line without its end. The message is to be cleared after success only.
int ck_qmp_parse_line(const void *p, size_t n, struct ck_qmp_msg *out, struct ck_err *err);
void ck_qmp_msg_clear(struct ck_qmp_msg *m);

// Splits a byte stream into lines.
struct ck_qmp_lines {
    struct ck_buf buf;
    size_t scanned; // bytes known to hold no line end
};
#define CK_QMP_LINES_INIT {CK_BUF_INIT, 0}
void ck_qmp_lines_free(struct ck_qmp_lines *l);
int ck_qmp_lines_feed(struct ck_qmp_lines *l, const void *p, size_t n, struct ck_err *err);
// 1 = *line is the next non-empty line, borrowed until the next call with this object; 0 = none yet;
// negative = longer than CK_QMP_LINE_MAX, the connection must be closed.
int ck_qmp_lines_next(struct ck_qmp_lines *l, struct ck_slice *line, size_t *taken, struct ck_err *err);
void ck_qmp_lines_take(struct ck_qmp_lines *l, size_t taken); // drops the line that next() showed

// {"execute":name,"arguments":args,"id":id} and a line end, appended. args may be NULL; borrowed.
int ck_qmp_encode(const char *name, json_t *args, uint64_t id, struct ck_buf *out);
