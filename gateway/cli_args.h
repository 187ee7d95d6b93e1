// Command lines of `cellkeep run` and `cellkeep session`. Pure apart from the environment, which the
// caller passes in. Strings are borrowed from argv or the environment.
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stdint.h>

#define CLI_DEFAULT_URL "http://127.0.0.1:8888"
#define CLI_UPLOADS_MAX 64

struct cli_target {
    const char *url;   // --url, CELLKEEP_URL, CLI_DEFAULT_URL
    const char *token; // --token, CELLKEEP_TOKEN, or NULL: look in the state folder
};

struct cli_run_args {
    struct cli_target target;
    const char *file;    // FILE; "-" = standard input; NULL with code
    const char *code;    // -c CODE
    const char *out_dir; // --out
    const char *session; // --session NAME|ID: kept; NULL = temporary
    const char *uploads[CLI_UPLOADS_MAX];
    unsigned nuploads;
    int64_t timeout_ms; // 0 = the session's
    bool json;          // print the finished cell instead of streaming
};

enum cli_session_verb {
    CLI_SESSION_CREATE,
    CLI_SESSION_LIST,
    CLI_SESSION_GET,
    CLI_SESSION_DELETE,
    CLI_SESSION_INTERRUPT,
    CLI_SESSION_RESTART,
    CLI_SESSION_PAUSE,
    CLI_SESSION_RESUME,
    CLI_SESSION_FORK,
    CLI_SESSION_CHECKPOINT,
    CLI_SESSION_CHECKPOINTS,
    CLI_SESSION_ROLLBACK,
    CLI_SESSION_VERBS,
};

struct cli_session_args {
    struct cli_target target;
    enum cli_session_verb verb;
    const char *name;   // create, checkpoint
    int count;          // fork: how many
    const char *checkpoint; // rollback, fork: name or id
    char **ids;         // of the other verbs: names or ids of sessions, into argv
    int nids;
    bool json;
};

enum cli_token_verb { CLI_TOKEN_CREATE, CLI_TOKEN_LIST, CLI_TOKEN_REVOKE };

struct cli_token_args {
    struct cli_target target;
    enum cli_token_verb verb;
    const char *name; // create
    int max_sessions; // create; 0 = no limit
    char **ids;       // revoke: names or ids, into argv
    int nids;
    bool json;
};

struct cli_mcp_args {
    struct cli_target target;
    const char *session; // --session NAME|ID: kept; NULL = one of its own, deleted at the end
};

// getenv or a stand-in of a test.
typedef const char *(*cli_env_fn)(const char *name);

// argv[0] is the subcommand ("run", "session"). Outcomes: 0 ok, 1 help was asked for; -1 usage error
// (exit code 2), err says what.
int cli_run_args_parse(int argc, char **argv, cli_env_fn env, struct cli_run_args *out, struct ck_err *err);
int cli_session_args_parse(int argc, char **argv, cli_env_fn env, struct cli_session_args *out, struct ck_err *err);
int cli_token_args_parse(int argc, char **argv, cli_env_fn env, struct cli_token_args *out, struct ck_err *err);
int cli_mcp_args_parse(int argc, char **argv, cli_env_fn env, struct cli_mcp_args *out, struct ck_err *err);

extern const char cli_run_help[];
extern const char cli_token_help[];
extern const char cli_mcp_help[];
extern const char cli_session_help[];
