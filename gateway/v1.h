// The cell API (/v1 of docs/API.md): what its files share. Loop thread only.
#pragma once
#include "gateway/bridge_link.h"
#include "gateway/http.h"
#include "gateway/life.h"
#include "gateway/registry.h"
#include "gateway/serve.h"
#include "gateway/v1_body.h"

#define V1_CELL_BODY_MAX (32u * 1024 * 1024)    // of POST .../cells; 413 beyond
#define V1_COMMAND_BODY_MAX (4u * 1024 * 1024)  // of POST .../commands
#define V1_CALL_TIMEOUT_MS 30000
#define V1_RESTART_TIMEOUT_MS 150000
#define V1_USAGE_TIMEOUT_MS 2000

// The session that the route's {id} names. NULL after having answered: 404 when there is none, and
// when `alive`: 410 for a dead one. (A
// paused one is resumed by whatever reaches for it: life.h.)
struct session *v1_session(struct http_req *r, bool alive);

// Answers with err. A bridge that is gone because its session has ended is told as that: 410.
void v1_reply_err(struct http_req *r, const struct ck_err *err);

// The {path...} of the route as a guest path. -1 after having answered.
int v1_request_path(struct http_req *r, char out[V1_PATH_MAX]);

// The upload that r announces against the session's limit. 413 "upload_too_large" names it.
int v1_upload_fits(struct http_req *r, const struct session *s, struct ck_err *err);

bool v1_wants_sse(const struct http_req *r);

// Sends op to the bridge of s and answers r: with the response's error, or through `reply` (which
// answers) with the response. Takes the reference of op. context is passed on.
typedef void (*v1_reply)(struct http_req *r, const json_t *re, const struct ck_frame *f);
void v1_call(struct http_req *r, struct session *s, json_t *op, int timeout_ms, v1_reply reply);

// The session's JSON with usage as given (reference taken; NULL = null).
json_t *v1_session_model(const struct session *s, json_t *usage);

// Parses r's collected body off the loop when it is large, then calls then() on the loop with the
// outcome of parse(): 0, or -1 with err. `user` is whatever both need; r stays valid meanwhile (the
// caller must not have set http_on_gone).
typedef int (*v1_parse_fn)(struct ck_slice body, void *user, struct ck_err *err);
typedef void (*v1_parsed_fn)(struct http_req *r, void *user, int rc, const struct ck_err *err);
void v1_parse_body(struct http_req *r, v1_parse_fn parse, v1_parsed_fn then, void *user);

// Route handlers, one file an area.
void v1_sessions_create(struct http_req *r);   // v1_sessions.c
void v1_sessions_list(struct http_req *r);
void v1_sessions_get(struct http_req *r);
void v1_sessions_patch(struct http_req *r);
void v1_sessions_delete(struct http_req *r);
void v1_sessions_interrupt(struct http_req *r);
void v1_sessions_restart(struct http_req *r);
void v1_life_pause(struct http_req *r);        // v1_life.c
void v1_life_resume(struct http_req *r);
void v1_life_fork(struct http_req *r);
void v1_life_checkpoint(struct http_req *r);
void v1_life_checkpoints(struct http_req *r);
void v1_life_checkpoint_get(struct http_req *r);
void v1_life_checkpoint_delete(struct http_req *r);
void v1_life_rollback(struct http_req *r);
void v1_cells_run(struct http_req *r);         // v1_run.c
void v1_cells_get(struct http_req *r);         // v1_cells.c
void v1_cells_cancel(struct http_req *r);
void v1_cells_stdin(struct http_req *r);
void v1_feed_events(struct http_req *r);       // v1_feed.c
void v1_feed_stream(struct http_req *r);
void v1_files_get(struct http_req *r);         // v1_download.c
void v1_files_put(struct http_req *r);         // v1_upload.c
// With ?archive=: a folder, packed or unpacked. v1_tar.c
void v1_tar_get(struct http_req *r, struct session *s, const char *path);
void v1_tar_put(struct http_req *r, struct session *s, const char *path);
void v1_files_delete(struct http_req *r);      // v1_files.c
void v1_files_post(struct http_req *r);
void v1_commands_run(struct http_req *r);      // v1_commands.c
void v1_tokens_create(struct http_req *r);     // v1_tokens.c
void v1_tokens_list(struct http_req *r);
void v1_tokens_delete(struct http_req *r);
void v1_templates_list(struct http_req *r);    // v1_templates.c
void v1_openapi(struct http_req *r);           // v1_openapi.c

json_t *v1_path_op(const char *op, const char *key, const char *path); // an operation on a path of any bytes. v1_files.c
// {"path","name","type","size","modified_at","mode","mime","etag"} from a bridge's stat. v1_files.c
json_t *v1_stat_model(const char *path, const json_t *stat);
