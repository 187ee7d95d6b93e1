// Decodes any bytes as a client's WebSocket frame, in both dialects; what is accepted must encode
// again and come back equal.
#include "gateway/jupyter_wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct jup_in *m, enum jup_dialect d)
{
    static struct jup_in back;
    struct jup_out out = {.channel = m->channel, .buffers = m->part + 4, .nbuffers = m->nparts - 4};
    for (int i = 0; i < 4; i++)
        out.part[i] = m->part[i];
    bool text;
    struct ck_blob *b = jup_encode(d, &out, &text);
    if (!b)
        abort();
    if (jup_decode(d, !text, ck_slice(b->p, b->n), &back, NULL) || back.nparts != m->nparts || back.channel != m->channel)
        abort();
    for (uint32_t i = 0; i < m->nparts; i++) {
        if (back.part[i].n != m->part[i].n || (back.part[i].n && memcmp(back.part[i].p, m->part[i].p, back.part[i].n)))
            abort();
    }
    ck_blob_unref(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct jup_in m;
    if (size < 1)
        return 0;
    enum jup_dialect d = data[0] & 1 ? JUP_V1 : JUP_LEGACY;
    bool binary = data[0] & 2;
    struct ck_slice frame = ck_slice(data + 1, size - 1);
    struct ck_err err = CK_ERR_INIT;
    if (jup_decode(d, binary, frame, &m, &err) == 0) {
        round_trip(&m, JUP_V1);
        round_trip(&m, JUP_LEGACY);
    }
    enum jup_channel ch;
    struct jup_head head;
    struct ck_slice header;
    jup_peek(d, binary, frame, &ch, &head, &header);
    return 0;
}
