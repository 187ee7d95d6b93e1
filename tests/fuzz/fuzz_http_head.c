// Any bytes as a request head: no crash, strings that end inside the head, and a body length that is
// never ambiguous. Then the path through the router and the query through the decoder.
#include "gateway/http_head.h"
#include "gateway/http_url.h"
#include "gateway/router.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void nothing(struct http_req *r)
{
    (void)r;
}

static const struct http_route ROUTES[] = {
    {HTTP_GET, "/", 0, 0, nothing},
    {HTTP_GET, "/api/kernels", 0, 0, nothing},
    {HTTP_DELETE, "/api/kernels/{id}", 0, 0, nothing},
    {HTTP_PUT, "/v1/sessions/{id}/files/{path...}", 0, 0, nothing},
};

static void route(const struct http_head *h)
{
    static struct router *r;
    struct router_match m;
    if (!r && (!(r = router_new()) || router_add(r, ROUTES, 4)))
        abort();
    router_match(r, h->method, h->path, &m);
    for (size_t i = 0; i < m.nparams; i++)
        if (m.params[i].raw < h->path || m.params[i].raw + m.params[i].len > h->path + strlen(h->path))
            if (m.params[i].len)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_head h;
    static char text[HTTP_HEAD_MAX], decoded[HTTP_HEAD_MAX + 1];
    struct ck_err err = CK_ERR_INIT;
    const char *value;
    size_t n = http_head_length((const char *)data, size < sizeof text ? size : sizeof text), len;
    if (!n)
        return 0;
    memcpy(text, data, n);
    if (http_head_parse(text, n, &h, &err)) {
        if (err.status < 400 || !err.text[0])
            abort();
        return 0;
    }
    if (h.chunked && h.content_length >= 0)
        abort();
    for (size_t i = 0; i < h.nfields; i++)
        if (h.fields[i].value + strlen(h.fields[i].value) >= text + n)
            abort();
    http_head_list_has(&h, "Connection", "upgrade");
    http_url_decode(h.path, strlen(h.path), false, decoded);
    if (http_url_query(h.query, "token", &value, &len))
        http_url_decode(value, len, true, decoded);
    route(&h);
    return 0;
}
