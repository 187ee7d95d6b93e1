// The route table of the cell API. v1_openapi.c describes the same routes; a unit test holds the two
// against each other.
#include "gateway/routes.h"
#include "gateway/v1.h"

#define S "/v1/sessions/{id}"
#define CELL S "/cells/{cell}"
#define FILES S "/files/{path...}"

const struct http_route ck_v1_routes[] = {
    {HTTP_GET, "/openapi.json", HTTP_OPEN, 0, v1_openapi},
    {HTTP_GET, "/v1/templates", 0, 0, v1_templates_list},
    {HTTP_POST, "/v1/tokens", 0, 0, v1_tokens_create},
    {HTTP_GET, "/v1/tokens", 0, 0, v1_tokens_list},
    {HTTP_DELETE, "/v1/tokens/{token}", 0, 0, v1_tokens_delete},
    {HTTP_POST, "/v1/sessions", 0, 0, v1_sessions_create},
    {HTTP_GET, "/v1/sessions", 0, 0, v1_sessions_list},
    {HTTP_GET, S, 0, 0, v1_sessions_get},
    {HTTP_PATCH, S, 0, 0, v1_sessions_patch},
    {HTTP_DELETE, S, 0, 0, v1_sessions_delete},
    {HTTP_POST, S "/interrupt", 0, 0, v1_sessions_interrupt},
    {HTTP_POST, S "/restart", 0, 0, v1_sessions_restart},
    {HTTP_POST, S "/pause", 0, 0, v1_life_pause},
    {HTTP_POST, S "/resume", 0, 0, v1_life_resume},
    {HTTP_POST, S "/fork", 0, 0, v1_life_fork},
    {HTTP_POST, S "/checkpoints", 0, 0, v1_life_checkpoint},
    {HTTP_GET, S "/checkpoints", 0, 0, v1_life_checkpoints},
    {HTTP_GET, S "/checkpoints/{checkpoint}", 0, 0, v1_life_checkpoint_get},
    {HTTP_DELETE, S "/checkpoints/{checkpoint}", 0, 0, v1_life_checkpoint_delete},
    {HTTP_POST, S "/rollback", 0, 0, v1_life_rollback},
    {HTTP_POST, S "/cells", 0, V1_CELL_BODY_MAX, v1_cells_run},
    {HTTP_GET, CELL, 0, 0, v1_cells_get},
    {HTTP_DELETE, CELL, 0, 0, v1_cells_cancel},
    {HTTP_POST, CELL "/cancel", 0, 0, v1_cells_cancel},
    {HTTP_POST, CELL "/stdin", 0, V1_COMMAND_BODY_MAX, v1_cells_stdin},
    {HTTP_GET, S "/events", 0, 0, v1_feed_events},
    {HTTP_GET, S "/stream", HTTP_WEBSOCKET, 0, v1_feed_stream},
    {HTTP_GET, FILES, 0, 0, v1_files_get},
    {HTTP_PUT, FILES, HTTP_STREAM, 0, v1_files_put},
    {HTTP_POST, FILES, 0, 0, v1_files_post},
    {HTTP_DELETE, FILES, 0, 0, v1_files_delete},
    {HTTP_POST, S "/commands", 0, V1_COMMAND_BODY_MAX, v1_commands_run},
};
const size_t ck_v1_nroutes = sizeof ck_v1_routes / sizeof *ck_v1_routes;
