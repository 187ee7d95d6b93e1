// What cli_run.c and cli_session.c share.
#pragma once
#include "gateway/cli_client.h"

// Prints "cellkeep: text" to stderr. Returns 1, the exit code of a failure.
int cli_fail(const struct ck_err *err);
// The same for a wrong command line, with a hint at --help. Returns 2.
int cli_usage(const char *command, const struct ck_err *err);

// The session that is meant by an id or a name (the newest of that name). New reference. NULL with
// err->status 404 when there is none.
json_t *cli_find_session(struct cli_client *c, const char *name_or_id, struct ck_err *err);

// The id of a session's JSON, "" when it has none that could go into a URL.
const char *cli_session_id(const json_t *session);
