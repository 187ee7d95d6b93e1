// What cli_mcp.c and cli_mcp_transfer.c share: one message of the client on its way to the gateway.
#pragma once
#include "gateway/cli_client.h"
#include "gateway/cli_sse.h"
#include "gateway/mcp_message.h"

#define CLI_MCP_TRANSFERS_MAX 64 // at once; then nothing more is read

struct cli_mcp {
    struct cli_client client;
    CURLM *multi;
    char *path;       // "/mcp", or with ?session=; owned
    char *session;    // Mcp-Session-Id; owned, NULL = none yet
    char version[16]; // of the legacy era, once agreed on
    struct cli_mcp_transfer *transfers;
    unsigned ntransfers;
    bool broken;      // nobody reads what we write
};

struct cli_mcp_transfer {
    struct cli_mcp_transfer *next;
    struct cli_mcp *m;
    CURL *h;
    struct curl_slist *headers;
    struct ck_buf body, answer; // answer: of one that is no event stream
    struct cli_sse sse;
    json_t *id;                 // owned; NULL for a notification
    bool modern, initialize, stream, retried;
    char session[64];           // that it was sent with
};

void cli_mcp_write(struct cli_mcp *m, const void *p, size_t n); // one message to the client, on one line
void cli_mcp_error(struct cli_mcp *m, const json_t *id, enum mcp_error_code code, const char *text);

// Begins to send one line of the client, parsed as msg.
int cli_mcp_send(struct cli_mcp *m, struct ck_slice line, const struct mcp_message *msg, struct ck_err *err);
void cli_mcp_done(struct cli_mcp *m, CURL *h, CURLcode rc); // of the multi handle
void cli_mcp_abort(struct cli_mcp *m, const json_t *id);    // the transfer of that request, if it is under way
void cli_mcp_transfer_free(struct cli_mcp_transfer *t);
// A session of our own with the gateway: for the modern era, and after the gateway forgot the first.
int cli_mcp_open_session(struct cli_mcp *m, struct ck_err *err);
