// Messages of MCP: the JSON-RPC 2.0 envelope of both of its eras. Pure.
//
// Legacy (2024-11-05 to 2025-11-25) begins with `initialize` and has sessions. Modern (2026-07-28) has
// neither: each request names its version in params._meta.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <stdbool.h>

#define MCP_MODERN "2026-07-28"
#define MCP_LEGACY_LATEST "2025-11-25"
#define MCP_LINKS_SINCE "2025-06-18" // content of type resource_link

enum mcp_error_code { // of JSON-RPC, and those that MCP adds
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
    MCP_HEADER_MISMATCH = -32020,
    MCP_UNSUPPORTED_VERSION = -32022,
};

enum mcp_kind { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE };

struct mcp_message {
    json_t *body; // owned: what everything else points into
    enum mcp_kind kind;
    const char *method;   // NULL for a response
    json_t *id;           // string or integer; NULL for a notification
    json_t *params;       // object; NULL when absent
    json_t *progress;     // params._meta.progressToken, string or integer; NULL when absent
    const char *version;  // of the modern envelope; NULL when absent
    bool modern;
};

// One message. -1 with err, whose JSON-RPC code is then in *code. out is zeroed then.
int mcp_message_parse(struct ck_slice json, struct mcp_message *out, enum mcp_error_code *code, struct ck_err *err);
void mcp_message_free(struct mcp_message *m); // zeroed ones too

bool mcp_legacy_version(const char *version); // known? NULL: false
// The version to answer an initialize with: the client's if known, else our latest. Static text.
const char *mcp_choose_version(const char *wanted);

// Value of a header Mcp-Name: plain, or =?base64?...?=. Does it say `name`?
bool mcp_header_says(const char *header, const char *name);

// Whole messages; the references given are taken, NULL id becomes null.
json_t *mcp_response(const json_t *id, json_t *result);
json_t *mcp_error(const json_t *id, enum mcp_error_code code, const char *message, json_t *data);
json_t *mcp_progress(const json_t *token, double progress, const char *message);
