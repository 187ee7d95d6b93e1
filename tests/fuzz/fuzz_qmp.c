// QMP bytes and console bytes, as QEMU and the guest may send them: first byte chooses the cut into
// pieces, the rest is the stream.
#include "vmm/console.h"
#include "vmm/qmp_codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_line(const struct ck_console_line *line, void *user)
{
    (void)user;
    for (const char *s = line->text; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
            abort();
    if (strlen(line->text) >= CK_CONSOLE_LINE_MAX || line->percent < 0 || line->percent > 100)
        abort();
}

static void drain(struct ck_qmp_lines *l, bool *broken)
{
    struct ck_slice line;
    size_t taken;
    int rc;
    while ((rc = ck_qmp_lines_next(l, &line, &taken, NULL)) == 1) {
        struct ck_qmp_msg m;
        if (!ck_qmp_parse_line(line.p, line.n, &m, NULL)) {
            if (m.kind == CK_QMP_EVENT && !m.name)
                abort();
            if (m.kind == CK_QMP_ERROR && !m.desc)
                abort();
            ck_qmp_msg_clear(&m);
        }
        ck_qmp_lines_take(l, taken);
    }
    *broken = rc < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    size_t step = data[0] ? data[0] : 1;
    struct ck_qmp_lines l = CK_QMP_LINES_INIT;
    struct ck_console c = {.n = 0};
    bool broken = false;
    for (size_t i = 1; i < size && !broken; i += step) {
        size_t n = size - i < step ? size - i : step;
        if (ck_qmp_lines_feed(&l, data + i, n, NULL))
            break;
        drain(&l, &broken);
        ck_console_feed(&c, data + i, n, on_line, NULL);
    }
    char tail[64];
    ck_console_tail(&c, tail, sizeof tail);
    ck_qmp_lines_free(&l);
    return 0;
}
