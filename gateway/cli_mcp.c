// `cellkeep mcp`: MCP over standard input and output, one JSON message a line, passed on to a gateway.
// Ends with the end of its input, and then its session too. Standard output carries messages only.
#include "gateway/cli.h"
#include "gateway/cli_mcp_transfer.h"
#include "gateway/cli_run.h"

#include "common/ck_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES (32u * 1024 * 1024)
#define POLL_MS 200

static const char *env(const char *name) { return getenv(name); }

// A request of the modern era is cancelled by ending its HTTP request.
static bool is_cancellation(struct cli_mcp *m, const struct mcp_message *msg)
{
    if (msg->kind != MCP_NOTIFICATION || strcmp(msg->method, "notifications/cancelled"))
        return false;
    const json_t *id = json_object_get(msg->params, "requestId");
    for (struct cli_mcp_transfer *t = m->transfers; t && id; t = t->next)
        if (t->id && json_equal(t->id, id) && t->modern) {
            cli_mcp_abort(m, id);
            return true;
        }
    return msg->modern;
}

static void take_line(struct cli_mcp *m, struct ck_slice line)
{
    struct ck_err err = CK_ERR_INIT;
    struct mcp_message msg;
    enum mcp_error_code code;
    while (line.n && line.p[line.n - 1] && strchr(" \t\r", line.p[line.n - 1]))
        line.n--;
    if (!line.n)
        return;
    if (mcp_message_parse(line, &msg, &code, &err)) {
        cli_mcp_error(m, NULL, code, err.text);
        return;
    }
    if (!is_cancellation(m, &msg) && cli_mcp_send(m, line, &msg, &err) && msg.kind == MCP_REQUEST)
        cli_mcp_error(m, msg.id, MCP_INTERNAL_ERROR, err.text);
    mcp_message_free(&msg);
}

// Reads what there is. -1 = end of input.
static int take_input(struct cli_mcp *m, struct ck_buf *in)
{
    char piece[65536];
    ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0)
        return -1;
    size_t seen = in->n;
    if (ck_buf_add(in, piece, (size_t)n)) {
        cli_mcp_error(m, NULL, MCP_INVALID_REQUEST, "the message is over 32 MiB");
        return -1;
    }
    size_t from = 0;
    for (uint8_t *nl; (nl = memchr(in->p + seen, '\n', in->n - seen)); seen = from) {
        size_t end = (size_t)(nl - in->p);
        take_line(m, ck_slice(in->p + from, end - from));
        from = end + 1;
    }
    ck_buf_consume(in, from);
    return 0;
}

static void loop(struct cli_mcp *m)
{
    struct ck_buf in = {.cap = LINE_MAX_BYTES};
    int running, left;
    while (!m->broken && !cli_stopped()) {
        struct curl_waitfd fd = {.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN};
        bool reading = m->ntransfers < CLI_MCP_TRANSFERS_MAX;
        curl_multi_perform(m->multi, &running);
        for (CURLMsg *msg; (msg = curl_multi_info_read(m->multi, &left));)
            if (msg->msg == CURLMSG_DONE)
                cli_mcp_done(m, msg->easy_handle, msg->data.result);
        curl_multi_poll(m->multi, reading ? &fd : NULL, reading, POLL_MS, NULL);
        if (reading && fd.revents && take_input(m, &in))
            break;
    }
    ck_buf_free(&in);
}

static int open_path(struct cli_mcp *m, const char *session, struct ck_err *err)
{
    char *escaped = session ? curl_easy_escape(m->client.curl, session, 0) : NULL;
    struct ck_buf b = CK_BUF_INIT;
    int rc = ck_buf_add_str(&b, "/mcp") || (session && (!escaped || ck_buf_printf(&b, "?session=%s", escaped))) ||
             ck_buf_add(&b, "", 1);
    curl_free(escaped);
    m->path = (char *)b.p;
    return rc ? ck_fail(err, 500, "no_memory", "out of memory") : 0;
}

// The session with the gateway ends with us; what it leaves open is closed there.
static void end_session(struct cli_mcp *m)
{
    char line[128];
    struct ck_err err = CK_ERR_INIT;
    struct curl_slist *more;
    if (!m->session)
        return;
    snprintf(line, sizeof line, "Mcp-Session-Id: %s", m->session);
    more = curl_slist_append(m->client.headers, line);
    if (more) {
        m->client.headers = more;
        cli_request(&m->client, "DELETE", "/mcp", NULL, NULL, &err);
    }
}

int ck_cmd_mcp(int argc, char **argv)
{
    struct ck_err err = CK_ERR_INIT;
    struct cli_mcp_args a;
    struct cli_mcp m = {.multi = NULL};
    int rc = cli_mcp_args_parse(argc, argv, env, &a, &err);
    if (rc > 0) {
        fputs(cli_mcp_help, stdout);
        return 0;
    }
    if (rc < 0)
        return cli_usage("mcp", &err);
    cli_signals(true);
    rc =
        cli_client_open(&a.target, &m.client, &err) || open_path(&m, a.session, &err) || !(m.multi = curl_multi_init());
    if (rc)
        rc = cli_fail(&err);
    else
        loop(&m);
    while (m.transfers)
        cli_mcp_transfer_free(m.transfers);
    if (!rc)
        end_session(&m);
    curl_multi_cleanup(m.multi);
    cli_client_close(&m.client);
    free(m.path);
    free(m.session);
    cli_signals(false);
    return rc;
}
