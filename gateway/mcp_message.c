// The envelope of MCP. What is inside params is checked by those who use it. Bounded by the JSON
// parser's limits of depth and values; never keeps anything but the tree.
#include "gateway/mcp_message.h"

#include "common/ck_base64.h"
#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <stdlib.h>
#include <string.h>

#define ID_MAX 1024 // bytes of an id or progress token: they are repeated in answers
#define META_VERSION "io.modelcontextprotocol/protocolVersion"

static const char *const legacy_versions[] = {MCP_LEGACY_LATEST, "2025-06-18", "2025-03-26", "2024-11-05"};

static bool is_mark(const json_t *v)
{
    return json_is_integer(v) || (json_is_string(v) && json_string_length(v) <= ID_MAX);
}

static int read_meta(struct mcp_message *m, struct ck_err *err)
{
    const json_t *meta = json_object_get(m->params, "_meta");
    if (meta && !json_is_object(meta))
        return ck_fail(err, 400, "bad_message", "\"params._meta\" must be an object");
    json_t *token = json_object_get(meta, "progressToken"), *version = json_object_get(meta, META_VERSION);
    if (token && !is_mark(token))
        return ck_fail(err, 400, "bad_message",
                       "\"progressToken\" must be a text of at most %d bytes or a whole number", ID_MAX);
    if (version && !json_is_string(version))
        return ck_fail(err, 400, "bad_message", "\"" META_VERSION "\" must be a text");
    m->progress = token;
    m->version = json_string_value(version);
    m->modern = version || !strcmp(m->method, "server/discover");
    return 0;
}

static int read_envelope(struct mcp_message *m, struct ck_err *err)
{
    json_t *o = m->body, *method = json_object_get(o, "method"), *id = json_object_get(o, "id");
    const char *v = json_string_value(json_object_get(o, "jsonrpc"));
    if (!v || strcmp(v, "2.0"))
        return ck_fail(err, 400, "bad_message", "\"jsonrpc\" must be \"2.0\"");
    if (id && !is_mark(id))
        return ck_fail(err, 400, "bad_message", "\"id\" must be a text of at most %d bytes or a whole number", ID_MAX);
    m->id = id;
    if (!method) {
        if (!id || (!json_object_get(o, "result") && !json_object_get(o, "error")))
            return ck_fail(err, 400, "bad_message",
                           "a message has a \"method\", or an \"id\" with a \"result\" or \"error\"");
        m->kind = MCP_RESPONSE;
        return 0;
    }
    if (!json_is_string(method) || !json_string_length(method) || json_string_length(method) > ID_MAX)
        return ck_fail(err, 400, "bad_message", "\"method\" must be a text");
    m->method = json_string_value(method);
    m->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
    m->params = json_object_get(o, "params");
    if (m->params && !json_is_object(m->params))
        return ck_fail(err, 400, "bad_message", "\"params\" must be an object");
    return read_meta(m, err);
}

static bool is_list(struct ck_slice json)
{
    size_t i = 0;
    while (i < json.n && json.p[i] && strchr(" \t\r\n", json.p[i]))
        i++;
    return i < json.n && json.p[i] == '[';
}

int mcp_message_parse(struct ck_slice json, struct mcp_message *out, enum mcp_error_code *code, struct ck_err *err)
{
    memset(out, 0, sizeof *out);
    *code = MCP_INVALID_REQUEST;
    if (is_list(json))
        return ck_fail(err, 400, "bad_message", "lists of messages are not taken: send one message a request");
    out->body = ck_json_parse_object(json.p, json.n, false, err);
    if (!out->body) {
        *code = MCP_PARSE_ERROR;
        return -1;
    }
    if (!read_envelope(out, err))
        return 0;
    mcp_message_free(out);
    return -1;
}

void mcp_message_free(struct mcp_message *m)
{
    json_decref(m->body);
    memset(m, 0, sizeof *m);
}

bool mcp_legacy_version(const char *version)
{
    for (size_t i = 0; version && i < sizeof legacy_versions / sizeof *legacy_versions; i++)
        if (!strcmp(version, legacy_versions[i]))
            return true;
    return false;
}

const char *mcp_choose_version(const char *wanted)
{
    for (size_t i = 0; wanted && i < sizeof legacy_versions / sizeof *legacy_versions; i++)
        if (!strcmp(wanted, legacy_versions[i]))
            return legacy_versions[i];
    return MCP_LEGACY_LATEST;
}

bool mcp_header_says(const char *header, const char *name)
{
    static const char begin[] = "=?base64?", end[] = "?=";
    size_t n = strlen(header), want = strlen(name);
    if (n < sizeof begin + 1 || strncmp(header, begin, sizeof begin - 1) || strcmp(header + n - 2, end))
        return !strcmp(header, name);
    const char *p = header + sizeof begin - 1;
    n -= sizeof begin - 1 + sizeof end - 1;
    // Compared encoded: what decodes to the same text in another way is not what clients send.
    CK_CLEAN_BUF struct ck_buf encoded = CK_BUF_INIT;
    return n == (want + 2) / 3 * 4 && !ck_base64_add(&encoded, name, want) && encoded.n == n &&
           !memcmp(p, encoded.p, n);
}

static json_t *id_or_null(const json_t *id) { return id ? json_incref((json_t *)(uintptr_t)id) : json_null(); }

json_t *mcp_response(const json_t *id, json_t *result)
{
    return json_pack("{s:s,s:o,s:o}", "jsonrpc", "2.0", "id", id_or_null(id), "result", result);
}

json_t *mcp_error(const json_t *id, enum mcp_error_code code, const char *message, json_t *data)
{
    json_t *e = json_pack("{s:i,s:s,s:o*}", "code", (int)code, "message", message, "data", data);
    return json_pack("{s:s,s:o,s:o}", "jsonrpc", "2.0", "id", id_or_null(id), "error", e);
}

json_t *mcp_progress(const json_t *token, double progress, const char *message)
{
    json_t *params =
        json_pack("{s:o,s:f,s:s*}", "progressToken", id_or_null(token), "progress", progress, "message", message);
    return json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", "notifications/progress", "params", params);
}
