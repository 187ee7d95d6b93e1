// The tool run_python: a cell, what it prints as progress, and its end as content. The finished cell may
// have ten megabytes of pictures, so it is read and rewritten off the loop.
#include "gateway/cell_view.h"
#include "gateway/mcp.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#define TELL_MAX 200 // bytes of output in a notification of progress

static int view_make(void *user, const json_t *cell)
{
    struct mcp_call *c = user;
    struct mcp_origin origin = {c->base, c->links}; // constant while the call lives
    c->made = mcp_cell_result(cell, &origin);
    return c->made ? 0 : -1;
}

static void view_done(void *user, int rc)
{
    struct mcp_call *c = user;
    c->view = NULL;
    (void)rc; // without a result it is a lack of memory
    mcp_call_finish(c, c->made);
}

static const struct cell_view_events view_events = {.make = view_make, .done = view_done};

static void on_done(void *user, uint64_t seq, struct ck_slice finished)
{
    (void)seq;
    struct mcp_call *c = user;
    struct v1_output output = {.wanted = true, .max_image_edge = MCP_IMAGE_EDGE};
    c->run = NULL;
    c->converting = true;
    c->view = cell_view_start(c->m->gw, c->s, &output, finished, &view_events, c);
    if (!c->view)
        mcp_call_finish(c, NULL);
}

static void on_fail(void *user, const struct ck_err *err)
{
    struct mcp_call *c = user;
    c->run = NULL;
    mcp_call_fail(c, err);
}

// The last line of what was printed.
static void tell_output(struct mcp_call *c, const struct ck_frame *f)
{
    if (f->nparts <= 4)
        return;
    struct ck_slice content = ck_frame_part(f, 4);
    CK_CLEAN_JSON json_t *o = content.n < 64 * 1024 ? json_loadb((const char *)content.p, content.n, 0, NULL) : NULL;
    const json_t *text = json_object_get(o, "text");
    const char *p = json_string_value(text);
    size_t n = json_string_length(text), from;
    while (n && (p[n - 1] == '\n' || p[n - 1] == '\r'))
        n--;
    for (from = n; from && p[from - 1] != '\n' && p[from - 1] != '\r' && n - from < TELL_MAX;)
        from--;
    while (from < n && ((unsigned char)p[from] & 0xc0) == 0x80)
        from++;
    if (n > from)
        mcp_call_tell(c, p + from, n - from);
}

static int on_event(void *user, const json_t *h, const struct ck_frame *f, const struct v1_event *ev)
{
    (void)h;
    struct mcp_call *c = user;
    if (c->progress && !strcmp(ev->type, "start"))
        mcp_call_tell(c, "running", 7);
    else if (c->progress && !strcmp(ev->type, "stream"))
        tell_output(c, f);
    return 0;
}

static const struct cell_run_events events = {.on_event = on_event, .on_done = on_done, .on_fail = on_fail};

void mcp_python(struct mcp_call *c)
{
    struct ck_err err = CK_ERR_INIT;
    const char *prefix = c->r ? http_base_url(c->r) : "";
    c->run = cell_run_start(c->m->gw, c->s, &c->args.cell, prefix, &events, c, &err);
    if (!c->run)
        mcp_call_fail(c, &err);
}
