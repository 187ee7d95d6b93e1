// GET /v1/templates: what a session may be made of. The list is read from the cache each time, in the thread
// pool, as others build and remove templates while the gateway runs.
#include "gateway/template_names.h"
#include "gateway/v1.h"

#include <stdlib.h>

struct listing {
    uv_work_t work;
    struct http_req *r;
    struct template_ask ask;
    json_t *list;
};

static void list_in_pool(uv_work_t *work)
{
    struct listing *l = work->data;
    l->list = template_list(&l->ask);
}

static void list_after(uv_work_t *work, int status)
{
    struct listing *l = work->data;
    if (!status && l->list)
        http_reply_json(l->r, 200, l->list);
    else
        http_reply_error(l->r, 503, "no_memory", "the gateway is out of memory: try again");
    free(l);
}

void v1_templates_list(struct http_req *r)
{
    struct gateway *gw = http_gateway(r);
    struct listing *l = calloc(1, sizeof *l);
    if (l) {
        // No http_on_gone: it is short, and its answer is thrown away when the client left.
        *l = (struct listing){.r = r, .ask = registry_templates(gw->registry)};
        l->work.data = l;
        if (!uv_queue_work(gw->loop, &l->work, list_in_pool, list_after))
            return;
        free(l);
    }
    http_reply_error(r, 503, "no_memory", "the gateway is out of memory: try again");
}
