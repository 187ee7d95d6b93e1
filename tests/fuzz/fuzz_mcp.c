// Any bytes as a message of MCP, as the arguments of a call, as a finished cell, and as output of a
// terminal. The first byte says which.
#include "gateway/mcp_content.h"
#include "gateway/mcp_message.h"
#include "gateway/mcp_tools.h"
#include "gateway/text_model.h"

#include "common/ck_utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void message(struct ck_slice s)
{
    struct mcp_message m;
    enum mcp_error_code code;
    struct ck_err err = CK_ERR_INIT;
    int rc = mcp_message_parse(s, &m, &code, &err);
    if ((rc != 0) != (err.status != 0) || (!rc && m.kind != MCP_RESPONSE && !m.method))
        abort();
    if (!rc && m.kind == MCP_REQUEST) {
        struct mcp_call_args a;
        if (!mcp_call_args_parse(m.params, 1000, &a, &err) && a.path[0] && a.path[0] != '/')
            abort();
        mcp_call_args_free(&a);
        json_t *answer = mcp_response(m.id, json_object());
        if (!answer || !json_equal(json_object_get(answer, "id"), m.id))
            abort();
        json_decref(answer);
    }
    if (!rc)
        mcp_message_free(&m);
}

static void cell(struct ck_slice s)
{
    struct mcp_origin origin = {"http://h", true};
    json_t *o = json_loadb((const char *)s.p, s.n, 0, NULL);
    json_t *result = mcp_cell_result(o, &origin);
    char *text = result ? json_dumps(result, 0) : NULL;
    if (!text || !json_array_size(json_object_get(result, "content")))
        abort();
    free(text);
    json_decref(result);
    json_decref(o);
}

static void text(struct ck_slice s)
{
    struct ck_buf b = CK_BUF_INIT;
    bool valid = ck_utf8_valid(s.p, s.n, NULL);
    if (text_cut_middle((const char *)s.p, s.n, 64, &b) < 0 || b.n > 64 + 64 ||
        (valid && !ck_utf8_valid(b.p, b.n, NULL)))
        abort();
    size_t n = text_plain((char *)b.p, b.n);
    if (n > b.n || (valid && !ck_utf8_valid(b.p, n, NULL)))
        abort();
    size_t again = text_plain((char *)b.p, n);
    if (memchr(b.p ? (const void *)b.p : "", 0x1b, again))
        abort();
    ck_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct ck_slice s = {data + 1, size - 1};
    if (data[0] < 'c')
        message(s);
    else if (data[0] < 't')
        cell(s);
    else if (s.n)
        text(s);
    return 0;
}
