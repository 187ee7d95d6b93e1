// Request bodies of /v1, checked: types, ranges, sizes, unknown fields named. Pure.
// Every string points into `body`, which the struct owns; v1_*_free accepts zeroed structs. Parsing
// a body of many megabytes takes a while: callers move it off the event loop (any thread will do).
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"
#include "gateway/v1_output.h"
#include "gateway/v1_path.h"

#include <jansson.h>
#include <stdbool.h>

#define V1_NAME_FIELD_MAX 200
#define V1_METADATA_MAX (64 * 1024)
#define V1_ENV_MAX 256                 // variables
#define V1_ENV_BYTES_MAX (128 * 1024)  // names and values together
#define V1_TIMEOUT_MAX_S (7 * 24 * 3600)
#define V1_STDIN_LINES_MAX 10000
#define V1_STDIN_BYTES_MAX (1024 * 1024)
#define V1_ARGV_MAX 1024
#define V1_COMMAND_BYTES_MAX (128 * 1024) // cmd, or argv together
#define V1_MEMORY_MB_MAX (1024 * 1024)

// POST and PATCH of a session. Absent: NULL, -1.
struct v1_session_body {
    json_t *body;
    const char *name;
    const char *template_name;
    int64_t memory_mb;
    json_t *env;      // borrowed from body
    json_t *metadata; // borrowed from body
    json_t *limits;   // the same; an object, for caps_parse()
    json_t *artifact_ignore; // borrowed from body
    int64_t cell_s, idle_s, delete_s; // 0 = no limit
};
int v1_session_body_parse(struct ck_slice json, bool patch, struct v1_session_body *out, struct ck_err *err);
void v1_session_body_free(struct v1_session_body *b);

enum v1_stdin {
    V1_STDIN_NONE,        // input() raises StdinNotImplementedError
    V1_STDIN_LINES,       // answered from `lines`, then EOFError
    V1_STDIN_INTERACTIVE, // the client answers with POST .../stdin
};

struct v1_cell_body {
    json_t *body;
    const char *code; // UTF-8, not NUL-terminated by contract: use code_n
    size_t code_n;
    int64_t timeout_ms; // 0 = the session's
    bool silent;
    enum v1_stdin stdin_mode;
    json_t *lines; // owned: array of strings, NULL unless V1_STDIN_LINES
    struct v1_output output;
};
int v1_cell_body_parse(struct ck_slice json, struct v1_cell_body *out, struct ck_err *err);
int v1_cell_body_check(json_t *o, struct v1_cell_body *out, struct ck_err *err); // parsed already; takes the reference
void v1_cell_body_free(struct v1_cell_body *b);

struct v1_command_body {
    json_t *body;
    const char *cmd; // or
    json_t *argv;    // borrowed: array of strings, at least one
    char cwd[V1_PATH_MAX];
    json_t *env; // borrowed, NULL when absent
    int64_t timeout_ms;
    const char *stdin_text; // "" when absent
    size_t stdin_n;
};
int v1_command_body_parse(struct ck_slice json, int64_t default_timeout_ms, struct v1_command_body *out,
                          struct ck_err *err);
void v1_command_body_free(struct v1_command_body *b);

// The body as a JSON object; NULL with 400 "bad_utf8" or "bad_json" and the position.
json_t *v1_body_object(struct ck_slice json, bool empty_ok, struct ck_err *err);

// Refuses the first member of o that is not in `known` (NULL-terminated), by name, and lists those.
int v1_body_only(json_t *o, const char *what, const char *const *known, struct ck_err *err);

// {"value": "..."} of POST .../stdin, or {"eof": true} (value "\x04", which the kernel takes for the
// end of input). The result points into *body, which the caller owns.
const char *v1_stdin_body_parse(struct ck_slice json, json_t **body, struct ck_err *err);
const char *v1_stdin_body_check(json_t *o, struct ck_err *err); // parsed already; borrows
