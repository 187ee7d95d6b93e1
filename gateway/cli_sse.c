// Splits an event stream into events. Lines end with LF or CR LF (the gateway writes LF; proxies may
// change it); a lone CR is not taken as an end. Never holds more than one event.
#include "gateway/cli_sse.h"

#include <stdio.h>

void cli_sse_init(struct cli_sse *s, cli_sse_fn fn, void *ctx)
{
    memset(s, 0, sizeof *s);
    s->line.cap = s->data.cap = CLI_SSE_EVENT_MAX;
    s->fn = fn;
    s->ctx = ctx;
}

void cli_sse_reset(struct cli_sse *s)
{
    s->line.n = s->data.n = 0;
    s->event[0] = '\0';
    s->id = 0;
}

void cli_sse_free(struct cli_sse *s)
{
    ck_buf_free(&s->line);
    ck_buf_free(&s->data);
}

static int dispatch(struct cli_sse *s)
{
    int r = 0;
    if (s->data.n) {
        if (ck_buf_add(&s->data, "", 1))
            return -1;
        r = s->fn(s->ctx, s->event[0] ? s->event : "message", s->id, (const char *)s->data.p, s->data.n - 1);
    }
    s->data.n = 0;
    s->event[0] = '\0';
    s->id = 0;
    return r;
}

// value: what follows "field:", one leading space dropped.
static struct ck_slice value_of(struct ck_slice line, size_t field)
{
    size_t skip = field + 1 + (line.n > field + 1 && line.p[field + 1] == ' ');
    return ck_slice(line.p + skip, line.n - skip);
}

static uint64_t number(struct ck_slice v)
{
    uint64_t n = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9' || n > UINT64_MAX / 10 - 1)
            return 0;
        n = n * 10 + (uint64_t)(v.p[i] - '0');
    }
    return n;
}

static int take_line(struct cli_sse *s, struct ck_slice line)
{
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (!line.n)
        return dispatch(s);
    if (line.n >= 6 && !memcmp(line.p, "event:", 6)) {
        struct ck_slice v = value_of(line, 5);
        snprintf(s->event, sizeof s->event, "%.*s", v.n < sizeof s->event ? (int)v.n : 0, (const char *)v.p);
    } else if (line.n >= 5 && !memcmp(line.p, "data:", 5)) {
        struct ck_slice v = value_of(line, 4);
        if ((s->data.n && ck_buf_add(&s->data, "\n", 1)) || ck_buf_add(&s->data, v.p, v.n))
            return -1;
    }
    if (line.n >= 3 && !memcmp(line.p, "id:", 3))
        s->id = number(value_of(line, 2));
    return 0; // comments, unknown fields
}

int cli_sse_feed(struct cli_sse *s, const void *data, size_t n)
{
    const uint8_t *p = data, *end = p + n;
    while (p < end) {
        const uint8_t *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            return ck_buf_add(&s->line, p, (size_t)(end - p));
        int r;
        if (s->line.n) {
            if (ck_buf_add(&s->line, p, (size_t)(nl - p)))
                return -1;
            r = take_line(s, ck_buf_slice(&s->line));
            s->line.n = 0;
        } else {
            r = take_line(s, ck_slice(p, (size_t)(nl - p)));
        }
        if (r)
            return r;
        p = nl + 1;
    }
    return 0;
}
