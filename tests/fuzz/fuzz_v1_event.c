// Any frame of a bridge as an event of /v1, and any bytes as an event stream at the command line's
// end. An event that is made must be one line and, when its parts are JSON, JSON.
#include "common/ck_json.h"
#include "gateway/cli_show.h"
#include "gateway/cli_sse.h"
#include "gateway/v1_event.h"
#include "gateway/v1_partial.h"
#include "gateway/v1_text.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_event(void *ctx, const char *event, uint64_t id, const char *data, size_t n)
{
    (void)ctx;
    (void)event;
    (void)id;
    char *plain = malloc(n + 1);
    cli_strip_ansi(data, plain);
    free(plain);
    return 0;
}

static void sse(const uint8_t *data, size_t size)
{
    struct cli_sse s;
    cli_sse_init(&s, on_event, NULL);
    size_t half = size / 2;
    cli_sse_feed(&s, data, half);
    cli_sse_feed(&s, data + half, size - half);
    cli_sse_free(&s);
}

static void text(const uint8_t *data, size_t size)
{
    struct v1_text t;
    v1_text_init(&t, 16);
    for (size_t i = 0; i < size; i += 3) {
        struct ck_buf b = CK_BUF_INIT;
        if (v1_text_take(&t, ck_slice(data + i, size - i < 3 ? size - i : 3), i + 3 >= size, &b) > 0 &&
            !ck_json_valid(b.p, b.n, NULL))
            abort();
        ck_buf_free(&b);
    }
    if (t.kept.n + t.dropped != size || t.kept.n > 16)
        abort();
    v1_text_free(&t);
}

// Whatever a bridge said before it died, the cell that is made of it is JSON.
static void partial(const struct ck_frame *f, const struct v1_event *ev)
{
    struct v1_partial p = {.half = 64};
    struct v1_partial_end end = {.cell = "c", .status = "vm_died", .detail = "d"};
    struct ck_buf b = CK_BUF_INIT;
    for (int i = 0; i < 3; i++)
        v1_partial_take(&p, f, ev, 1);
    if (p.head.bytes > 64 || p.tail.bytes > 64 || v1_partial_json(&p, &end, &b) || !ck_json_valid(b.p, b.n, NULL))
        abort();
    v1_partial_free(&p);
    ck_buf_free(&b);
}

static void event(const struct ck_frame *f)
{
    struct ck_slice h = ck_frame_part(f, 0);
    json_t *header = ck_json_parse_object(h.p, h.n, false, NULL);
    struct v1_event ev;
    struct ck_buf b = CK_BUF_INIT;
    if (header && !v1_event_read(header, f, &ev) && ev.kind != V1_EVENT_SKIP && !v1_event_json(header, f, &ev, &b)) {
        if (memchr(b.p, '\n', b.n) || memchr(b.p, '\r', b.n))
            abort();
        bool json = true;
        for (uint32_t i = 1; i < f->nparts; i++) {
            struct ck_slice part = ck_frame_part(f, i);
            json = json && ck_json_valid(part.p, part.n, NULL);
        }
        if (json && ev.kind != V1_EVENT_INPUT && !ck_json_valid(b.p, b.n, NULL))
            abort();
        partial(f, &ev);
    }
    ck_buf_free(&b);
    json_decref(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ck_frame f;
    size_t used;
    struct ck_err err = CK_ERR_INIT;
    if (!ck_frame_parse(data, size, CK_FRAME_BODY_MAX, &f, &used, &err))
        event(&f);
    sse(data, size);
    text(data, size);
    return 0;
}
