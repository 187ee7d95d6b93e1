// Messages between a client on standard input and a gateway's /mcp: one HTTP request each. The session
// with the gateway is ours: the client on the other side of a pipe knows of none. Writes nothing to
// standard output but messages.
#include "gateway/cli_mcp_transfer.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX (128u * 1024 * 1024)

void cli_mcp_write(struct cli_mcp *m, const void *p, size_t n)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_buf_add(&b, p, n)) {
        m->broken = true;
        return;
    }
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] == '\n' || b.p[i] == '\r')
            b.p[i] = ' '; // only ever white space between values
    if (ck_buf_add(&b, "\n", 1) || fwrite(b.p, 1, b.n, stdout) != b.n || fflush(stdout))
        m->broken = true;
}

static void write_json(struct cli_mcp *m, json_t *message)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (!ck_json_dump(message, &b))
        cli_mcp_write(m, b.p, b.n);
    json_decref(message);
}

void cli_mcp_error(struct cli_mcp *m, const json_t *id, enum mcp_error_code code, const char *text)
{
    write_json(m, mcp_error(id, code, text, NULL));
}

static void unlink_transfer(struct cli_mcp_transfer *t)
{
    struct cli_mcp_transfer **at = &t->m->transfers;
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at) {
        *at = t->next;
        t->m->ntransfers--;
    }
}

void cli_mcp_transfer_free(struct cli_mcp_transfer *t)
{
    if (!t)
        return;
    unlink_transfer(t);
    if (t->h) {
        curl_multi_remove_handle(t->m->multi, t->h);
        curl_easy_cleanup(t->h);
    }
    curl_slist_free_all(t->headers);
    ck_buf_free(&t->body);
    ck_buf_free(&t->answer);
    cli_sse_free(&t->sse);
    json_decref(t->id);
    free(t);
}

// --- what the gateway answers --------------------------------------------------------------------------

static int on_event(void *ctx, const char *event, uint64_t id, const char *data, size_t n)
{
    (void)event;
    (void)id;
    struct cli_mcp_transfer *t = ctx;
    cli_mcp_write(t->m, data, n);
    return t->m->broken;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct cli_mcp_transfer *t = ctx;
    if (t->stream)
        return cli_sse_feed(&t->sse, p, size * n) ? 0 : size * n;
    return ck_buf_add(&t->answer, p, size * n) ? 0 : size * n;
}

// The value of the header `name` in one line as libcurl hands it over; NULL when it is another.
static const char *header_value(const char *line, size_t n, const char *name, size_t *len)
{
    size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) || line[k] != ':')
        return NULL;
    const char *v = line + k + 1, *end = line + n;
    while (v < end && (*v == ' ' || *v == '\t'))
        v++;
    while (end > v && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    *len = (size_t)(end - v);
    return v;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct cli_mcp_transfer *t = ctx;
    size_t len;
    const char *v = header_value(p, size * n, "Content-Type", &len);
    if (v)
        t->stream = len >= 17 && !strncasecmp(v, "text/event-stream", 17);
    v = header_value(p, size * n, "Mcp-Session-Id", &len);
    if (v && t->initialize && len < sizeof t->session) {
        free(t->m->session);
        t->m->session = strndup(v, len);
    }
    return size * n;
}

// --- sending -------------------------------------------------------------------------------------------

static int add_header(struct cli_mcp_transfer *t, const char *name, const char *value)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    struct curl_slist *more;
    if (strpbrk(value, "\r\n") || ck_buf_printf(&b, "%s: ", name) || ck_buf_add_str(&b, value) ||
        ck_buf_add(&b, "", 1) || !(more = curl_slist_append(t->headers, (const char *)b.p)))
        return -1;
    t->headers = more;
    return 0;
}

static int add_headers(struct cli_mcp_transfer *t, const struct mcp_message *msg)
{
    const struct cli_mcp *m = t->m;
    int rc = add_header(t, "Content-Type", "application/json") ||
             add_header(t, "Accept", "application/json, text/event-stream") || add_header(t, "Expect", "");
    for (const struct curl_slist *l = m->client.headers; l && !rc; l = l->next) {
        struct curl_slist *more = curl_slist_append(t->headers, l->data);
        rc = !more;
        t->headers = more ? more : t->headers;
    }
    if (msg->modern && msg->version && !rc) {
        const char *name = !strcmp(msg->method, "tools/call") ? ck_json_str(msg->params, "name", NULL, NULL) : NULL;
        rc = add_header(t, "MCP-Protocol-Version", msg->version) || add_header(t, "Mcp-Method", msg->method) ||
             (name && add_header(t, "Mcp-Name", name));
    } else if (!msg->modern && *m->version && !t->initialize && !rc) {
        rc = add_header(t, "MCP-Protocol-Version", m->version);
    }
    if (m->session && !t->initialize && !rc) {
        snprintf(t->session, sizeof t->session, "%s", m->session);
        rc = add_header(t, "Mcp-Session-Id", m->session);
    }
    return rc ? -1 : 0;
}

static int start(struct cli_mcp_transfer *t, struct ck_err *err)
{
    struct cli_mcp *m = t->m;
    t->h = curl_easy_init();
    if (!t->h)
        return ck_fail(err, 500, "no_memory", "out of memory");
    if (cli_set_url(&m->client, t->h, m->path, err))
        return -1;
    cli_set_stall(t->h);
    t->answer.cap = ANSWER_MAX;
    curl_easy_setopt(t->h, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(t->h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.n);
    curl_easy_setopt(t->h, CURLOPT_POSTFIELDS, (const char *)t->body.p);
    curl_easy_setopt(t->h, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(t->h, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->h, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(t->h, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(t->h, CURLOPT_PRIVATE, t);
    curl_multi_add_handle(m->multi, t->h);
    return 0;
}

static int open_session_first(struct cli_mcp *m, const struct mcp_message *msg, struct ck_err *err)
{
    bool wanted = msg->modern && msg->method && !strcmp(msg->method, "tools/call");
    return wanted && !m->session ? cli_mcp_open_session(m, err) : 0;
}

int cli_mcp_send(struct cli_mcp *m, struct ck_slice line, const struct mcp_message *msg, struct ck_err *err)
{
    if (open_session_first(m, msg, err))
        return -1;
    struct cli_mcp_transfer *t = calloc(1, sizeof *t);
    if (!t)
        return ck_fail(err, 500, "no_memory", "out of memory");
    t->m = m;
    t->next = m->transfers;
    m->transfers = t;
    m->ntransfers++;
    t->id = msg->kind == MCP_REQUEST ? json_incref(msg->id) : NULL;
    t->modern = msg->modern;
    t->initialize = msg->kind == MCP_REQUEST && !strcmp(msg->method, "initialize");
    cli_sse_init(&t->sse, on_event, t);
    if (ck_buf_add(&t->body, line.p, line.n) || add_headers(t, msg))
        ck_fail(err, 400, "bad_message", "the message cannot be sent to the gateway");
    if (err->status || start(t, err)) {
        cli_mcp_transfer_free(t);
        return -1;
    }
    return 0;
}

// --- the end of a transfer -----------------------------------------------------------------------------

// An error of the gateway under the id of its request, which the client waits for.
static void refused(struct cli_mcp_transfer *t, long status)
{
    if (!t->id)
        return;
    json_t *o = json_loadb((const char *)t->answer.p, t->answer.n, 0, NULL);
    json_t *error = json_object_get(o, "error");
    if (json_is_object(error))
        write_json(t->m, json_pack("{s:s,s:O,s:O}", "jsonrpc", "2.0", "id", t->id, "error", error));
    else
        cli_mcp_error(t->m, t->id, MCP_INTERNAL_ERROR,
                      status == 401 || status == 403
                          ? "the gateway wants another token: say --token or CELLKEEP_TOKEN"
                          : ck_json_str(o, "message", "the gateway refused without saying why", NULL));
    json_decref(o);
}

// The gateway does not know our session (any more): a new one, and the message once more. True when it
// is on its way again.
static bool send_again(struct cli_mcp_transfer *t, long status)
{
    struct ck_err err = CK_ERR_INIT;
    struct cli_mcp *m = t->m;
    struct mcp_message msg;
    enum mcp_error_code code;
    if (status != 404 || t->modern || !*t->session || t->retried)
        return false;
    if (m->session && !strcmp(m->session, t->session) && cli_mcp_open_session(m, &err))
        return false;
    if (mcp_message_parse(ck_buf_slice(&t->body), &msg, &code, &err))
        return false;
    bool sent = !cli_mcp_send(m, ck_buf_slice(&t->body), &msg, &err);
    if (sent)
        m->transfers->retried = true; // the newest is the first
    mcp_message_free(&msg);
    return sent;
}

static void take_version(struct cli_mcp_transfer *t)
{
    json_t *o = json_loadb((const char *)t->answer.p, t->answer.n, 0, NULL);
    const char *version = ck_json_str(json_object_get(o, "result"), "protocolVersion", "", NULL);
    snprintf(t->m->version, sizeof t->m->version, "%s", version);
    json_decref(o);
}

void cli_mcp_done(struct cli_mcp *m, CURL *h, CURLcode rc)
{
    struct cli_mcp_transfer *t = NULL;
    struct ck_err err = CK_ERR_INIT;
    long status = 0;
    curl_easy_getinfo(h, CURLINFO_PRIVATE, &t);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    if (rc && !m->broken) {
        cli_transport_error(&m->client, rc, &err);
        if (t->id)
            cli_mcp_error(m, t->id, MCP_INTERNAL_ERROR, err.text);
    } else if (status >= 400) {
        if (!send_again(t, status))
            refused(t, status);
    } else if (t->answer.n) {
        if (t->initialize)
            take_version(t);
        cli_mcp_write(m, t->answer.p, t->answer.n);
    }
    cli_mcp_transfer_free(t);
}

void cli_mcp_abort(struct cli_mcp *m, const json_t *id)
{
    for (struct cli_mcp_transfer *t = m->transfers; t; t = t->next)
        if (t->id && json_equal(t->id, id)) {
            cli_mcp_transfer_free(t);
            return;
        }
}

// --- a session of our own --------------------------------------------------------------------------------

static size_t ignore(char *p, size_t size, size_t n, void *ctx)
{
    (void)p;
    (void)ctx;
    return size * n;
}

int cli_mcp_open_session(struct cli_mcp *m, struct ck_err *err)
{
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" MCP_LEGACY_LATEST
        "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"cellkeep mcp\",\"version\":\"" CK_VERSION "\"}}}";
    struct cli_mcp_transfer t = {.m = m, .initialize = true};
    struct mcp_message none = {.kind = MCP_REQUEST};
    CURL *h = curl_easy_init();
    long status = 0;
    int rc = -1;
    free(m->session);
    m->session = NULL;
    if (!h || add_headers(&t, &none) || cli_set_url(&m->client, h, m->path, err)) {
        ck_fail(err, 500, "no_memory", "out of memory");
        goto out;
    }
    cli_set_stall(h);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, t.headers);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, &t);
    CURLcode done = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    if (done)
        rc = cli_transport_error(&m->client, done, err);
    else
        rc = m->session ? 0
                        : ck_fail(err, 502, "bad_answer", "the gateway did not begin a session (status %ld)", status);
out:
    curl_slist_free_all(t.headers);
    curl_easy_cleanup(h);
    return rc;
}
