// What tools found, as the content of a result: text, images, links. Pure.
#pragma once
#include "common/ck_buf.h"

#include <jansson.h>
#include <stdbool.h>

#define MCP_TEXT_MAX (48 * 1024)             // of one text; the middle of a longer one is left out
#define MCP_IMAGE_MAX (8 * 1024 * 1024)      // base64, of one image
#define MCP_IMAGES_MAX 16                    // of one result
#define MCP_IMAGE_EDGE 1568                  // pixels: what models look at; larger ones are shrunk

struct mcp_origin {
    const char *base; // "http://host:port" to make links whole; borrowed
    bool links;       // does the client's version know resource_link?
};

// A result {"content":[],"isError"}; NULL = out of memory.
json_t *mcp_result(bool is_error);
void mcp_add_text(json_t *result, const char *text, size_t n); // capped; not UTF-8: U+FFFD
json_t *mcp_text_result(bool is_error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Bytes of a picture; 0, or -1 when it is too large.
int mcp_add_image(json_t *result, const char *mime, const void *p, size_t n);
// Says that a picture is larger than it should be, and why.
void mcp_add_whole(json_t *result, const char *why, uint32_t width, uint32_t height);
void mcp_add_blob(json_t *result, const char *uri, const char *mime, const void *p, size_t n); // an embedded resource

// A finished cell (JSON of /v1), and a finished command.
json_t *mcp_cell_result(const json_t *finished, const struct mcp_origin *origin);
json_t *mcp_command_result(const json_t *exit, const json_t *artifacts, struct ck_slice out, struct ck_slice err,
                           const struct mcp_origin *origin);
