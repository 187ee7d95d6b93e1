// The history of a paused session on any bytes: as they are, and with a check that fits, so that the
// fuzzer gets behind it. What is accepted must be readable and write the same again.
#include "common/ck_crypto.h"
#include "kernel-bridge/history.h"

#include <stdlib.h>

#define CHECK_AT 32
#define HEAD 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct parts {
    struct cellbook book;
    struct history h;
};

static void begin(struct parts *p)
{
    memset(p, 0, sizeof *p);
    p->h = (struct history){evlog_new(1 << 20), cons_new(), &p->book};
}

static void end(struct parts *p)
{
    evlog_free(p->h.log);
    cons_free(p->h.cons);
    cellbook_free(&p->book);
}

static void write_again(const struct parts *p, struct ck_slice meta, struct ck_buf *out)
{
    struct hist_image image;
    struct ck_err err = CK_ERR_INIT;
    if (hist_encode(&p->h, meta, &image, &err) || hist_seal(&image, &err))
        abort();
    ck_buf_add(out, image.head.p, image.head.n);
    for (size_t i = 0; i < image.frames; i++)
        ck_buf_add(out, image.frame[i]->p, image.frame[i]->n);
    hist_image_free(&image);
}

// Twice through the codec: the first time may drop (a cell that the log let go), the second must not.
static void round_trip(const struct parts *p, struct ck_slice meta)
{
    struct parts q;
    struct ck_slice m;
    struct ck_err err = CK_ERR_INIT;
    CK_CLEAN_BUF struct ck_buf one = CK_BUF_INIT, two = CK_BUF_INIT;
    write_again(p, meta, &one);
    begin(&q);
    if (hist_decode(ck_buf_slice(&one), &q.h, &m, &err))
        abort();
    write_again(&q, m, &two);
    if (one.n != two.n || memcmp(one.p, two.p, one.n))
        abort();
    end(&q);
}

static void decode(struct ck_slice in)
{
    struct parts p;
    struct ck_slice meta;
    struct ck_err err = CK_ERR_INIT;
    begin(&p);
    if (hist_decode(in, &p.h, &meta, &err)) {
        if (err.status != 422)
            abort();
    } else {
        round_trip(&p, meta);
    }
    end(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(ck_slice(data, size));
    if (size < HEAD)
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    struct ck_slice part[2] = {ck_slice(copy, CHECK_AT), ck_slice(copy + HEAD, size - HEAD)};
    if (!ck_hmac_sha256(ck_slice_str("cellkeep history"), part, 2, copy + CHECK_AT))
        decode(ck_slice(copy, size));
    free(copy);
    return 0;
}
