// Parses the command line of the client subcommands and holds their help texts. Prints nothing.
#include "gateway/cli_args.h"

#include <assert.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

const char cli_run_help[] =
    "usage: cellkeep run [options] FILE | -c CODE | -\n"
    "\n"
    "Runs Python code in a session of a running gateway (cellkeep serve), shows its output as it\n"
    "comes, and exits with the exit code of the cell: 0 ok, 1 error, 124 time-out, 130 interrupted,\n"
    "137 killed.\n"
    "\n"
    "  FILE               a file with the code; - reads it from standard input\n"
    "  -c, --code CODE    the code itself\n"
    "  -s, --session S    use the session with this name or id and keep it; a name that does not\n"
    "                     exist yet is created. Without it: a fresh session, deleted at the end\n"
    "  -u, --upload FILE  copy FILE into the session's /home/user first (may be repeated)\n"
    "  -o, --out DIR      save the files that the code made or changed into DIR\n"
    "  -t, --timeout S    stop the code after S seconds\n"
    "      --json         print the finished cell as JSON instead of its output\n"
    "      --url URL      the gateway (CELLKEEP_URL; default " CLI_DEFAULT_URL ")\n"
    "      --token T      its token (CELLKEEP_TOKEN; default: the one in the gateway's state folder)\n"
    "  -h, --help         this text\n"
    "\n"
    "Ctrl-C interrupts the code; a second Ctrl-C gives up waiting for it.\n"
    "\n"
    "  cellkeep run -c 'print(6*7)'\n"
    "  cellkeep run --upload sales.csv --out . report.py\n";

const char cli_session_help[] =
    "usage: cellkeep session create [--name NAME]\n"
    "       cellkeep session list\n"
    "       cellkeep session get|delete|interrupt|restart|pause|resume NAME|ID ...\n"
    "       cellkeep session fork [--count N] [--checkpoint CHECKPOINT] NAME|ID\n"
    "       cellkeep session checkpoint [--name NAME] NAME|ID\n"
    "       cellkeep session checkpoints NAME|ID\n"
    "       cellkeep session rollback NAME|ID CHECKPOINT\n"
    "\n"
    "  -n, --name NAME    a name for the new session or checkpoint\n"
    "      --count N      how many forks (1)\n"
    "      --checkpoint C name or id of the checkpoint that forks begin from (the session as it is now)\n"
    "      --json         print JSON instead of a table\n"
    "      --url URL      the gateway (CELLKEEP_URL; default " CLI_DEFAULT_URL ")\n"
    "      --token T      its token (CELLKEEP_TOKEN; default: the one in the gateway's state folder)\n"
    "  -h, --help         this text\n";

const char cli_token_help[] =
    "usage: cellkeep token create [--name NAME] [--max-sessions N]\n"
    "       cellkeep token list\n"
    "       cellkeep token revoke NAME|ID ...\n"
    "\n"
    "A token has sessions of its own and sees no others; the gateway's own token sees all, and only it\n"
    "makes, lists and revokes tokens. A new token is printed once: the gateway keeps nothing but its hash.\n"
    "\n"
    "  -n, --name NAME    a name for the new token\n"
    "      --max-sessions N   how many sessions it may have at once (0, the default: any number)\n"
    "      --json         print JSON instead of a table\n"
    "      --url URL      the gateway (CELLKEEP_URL; default " CLI_DEFAULT_URL ")\n"
    "      --token T      the gateway's own token (CELLKEEP_TOKEN; default: the one in its state folder)\n"
    "  -h, --help         this text\n";

const char cli_mcp_help[] =
    "usage: cellkeep mcp [options]\n"
    "\n"
    "Speaks the Model Context Protocol on standard input and output, for programs that start their\n"
    "servers themselves, and passes it on to a running gateway (cellkeep serve). Programs that can use\n"
    "HTTP talk to the gateway's /mcp at once.\n"
    "\n"
    "  -s, --session S    work in the session with this name or id and keep it; a name that does not\n"
    "                     exist yet is created. Without it: a fresh session, deleted at the end\n"
    "      --url URL      the gateway (CELLKEEP_URL; default " CLI_DEFAULT_URL ")\n"
    "      --token T      its token (CELLKEEP_TOKEN; default: the one in the gateway's state folder)\n"
    "  -h, --help         this text\n";

enum { OPT_URL = 256, OPT_TOKEN, OPT_JSON, OPT_COUNT, OPT_CHECKPOINT, OPT_MAX_SESSIONS };

#define COMMON_OPTIONS                                                                                       \
    {"url", required_argument, NULL, OPT_URL}, {"token", required_argument, NULL, OPT_TOKEN},                \
        {"json", no_argument, NULL, OPT_JSON}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}

static void target_from_env(struct cli_target *t, cli_env_fn env)
{
    const char *url = env("CELLKEEP_URL"), *token = env("CELLKEEP_TOKEN");
    t->url = url && *url ? url : CLI_DEFAULT_URL;
    t->token = token && *token ? token : NULL;
}

static int unknown_option(char **argv, int c, struct ck_err *err)
{
    const char *arg = argv[optind - 1];
    return ck_fail(err, 400, "usage", c == ':' ? "option %.100s needs a value" : "unknown option %.100s", arg);
}

// Options that both subcommands have. 0 = taken, 1 = not one of them.
static int common_option(int c, struct cli_target *t, bool *json)
{
    switch (c) {
    case OPT_URL:
        t->url = optarg;
        return 0;
    case OPT_TOKEN:
        t->token = optarg;
        return 0;
    case OPT_JSON:
        *json = true;
        return 0;
    default:
        return 1;
    }
}

static int seconds(const char *text, int64_t *ms, struct ck_err *err)
{
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s > 0 && s <= 604800))
        return ck_fail(err, 400, "usage", "--timeout takes a number of seconds, more than 0 and at most 604800");
    *ms = (int64_t)(s * 1000 + 0.5);
    return 0;
}

static int run_option(int c, struct cli_run_args *out, struct ck_err *err)
{
    switch (c) {
    case 'c':
        out->code = optarg;
        return 0;
    case 's':
        out->session = optarg;
        return *optarg ? 0 : ck_fail(err, 400, "usage", "--session takes a name or an id");
    case 'o':
        out->out_dir = optarg;
        return 0;
    case 't':
        return seconds(optarg, &out->timeout_ms, err);
    case 'u':
        if (out->nuploads == CLI_UPLOADS_MAX)
            return ck_fail(err, 400, "usage", "at most %d files can be uploaded at once", CLI_UPLOADS_MAX);
        out->uploads[out->nuploads++] = optarg;
        return 0;
    default:
        return common_option(c, &out->target, &out->json);
    }
}

static int run_operands(int argc, char **argv, struct cli_run_args *out, struct ck_err *err)
{
    int n = argc - optind;
    if (out->code && n)
        return ck_fail(err, 400, "usage", "give either -c CODE or a FILE, not both");
    if (!out->code && n != 1)
        return ck_fail(err, 400, "usage", n ? "one FILE at a time" : "nothing to run: give FILE, -c CODE or -");
    if (!out->code)
        out->file = argv[optind];
    return 0;
}

int cli_run_args_parse(int argc, char **argv, cli_env_fn env, struct cli_run_args *out, struct ck_err *err)
{
    static const struct option options[] = {
        {"code", required_argument, NULL, 'c'},   {"session", required_argument, NULL, 's'},
        {"upload", required_argument, NULL, 'u'}, {"out", required_argument, NULL, 'o'},
        {"timeout", required_argument, NULL, 't'}, COMMON_OPTIONS,
    };
    memset(out, 0, sizeof *out);
    target_from_env(&out->target, env);
    optind = 0; // glibc: start anew
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":c:s:u:o:t:h", options, NULL)) != -1) {
        if (c == 'h')
            return 1;
        if (c == '?' || c == ':')
            return unknown_option(argv, c, err);
        if (run_option(c, out, err))
            return -1;
    }
    return run_operands(argc, argv, out, err);
}

static const char *const SESSION_VERBS[] = {
    [CLI_SESSION_CREATE] = "create",           [CLI_SESSION_LIST] = "list",
    [CLI_SESSION_GET] = "get",                 [CLI_SESSION_DELETE] = "delete",
    [CLI_SESSION_INTERRUPT] = "interrupt",     [CLI_SESSION_RESTART] = "restart",
    [CLI_SESSION_PAUSE] = "pause",             [CLI_SESSION_RESUME] = "resume",
    [CLI_SESSION_FORK] = "fork",               [CLI_SESSION_CHECKPOINT] = "checkpoint",
    [CLI_SESSION_CHECKPOINTS] = "checkpoints", [CLI_SESSION_ROLLBACK] = "rollback",
};
static_assert(sizeof SESSION_VERBS / sizeof *SESSION_VERBS == CLI_SESSION_VERBS, "a word for every verb");
#define SESSION_WORDS \
    "create, list, get, delete, interrupt, restart, pause, resume, fork, checkpoint, checkpoints or rollback"

static int session_verb(const char *word, struct cli_session_args *out, struct ck_err *err)
{
    for (unsigned i = 0; i < CLI_SESSION_VERBS; i++)
        if (!strcmp(SESSION_VERBS[i], word)) {
            out->verb = (enum cli_session_verb)i;
            return 0;
        }
    return ck_fail(err, 400, "usage", "unknown verb %.60s: " SESSION_WORDS, word);
}

static int check_number(const struct cli_session_args *a, struct ck_err *err)
{
    const char *word = SESSION_VERBS[a->verb];
    switch (a->verb) {
    case CLI_SESSION_CREATE:
    case CLI_SESSION_LIST:
        return a->nids ? ck_fail(err, 400, "usage", "session %s takes no operand", word) : 0;
    case CLI_SESSION_FORK:
    case CLI_SESSION_CHECKPOINT:
    case CLI_SESSION_CHECKPOINTS:
        return a->nids != 1 ? ck_fail(err, 400, "usage", "session %s takes the name or id of one session", word) : 0;
    case CLI_SESSION_ROLLBACK:
        return a->nids != 2 ? ck_fail(err, 400, "usage", "session rollback takes a session and a checkpoint") : 0;
    default:
        return !a->nids ? ck_fail(err, 400, "usage", "session %s takes the name or id of a session", word) : 0;
    }
}

static int session_operands(int argc, char **argv, struct cli_session_args *out, struct ck_err *err)
{
    if (optind >= argc)
        return ck_fail(err, 400, "usage", "say what to do: " SESSION_WORDS);
    if (session_verb(argv[optind], out, err))
        return -1;
    out->ids = argv + optind + 1;
    out->nids = argc - optind - 1;
    if (check_number(out, err))
        return -1;
    if (out->checkpoint && out->verb != CLI_SESSION_FORK)
        return ck_fail(err, 400, "usage", "--checkpoint goes with session fork");
    if (out->verb == CLI_SESSION_ROLLBACK)
        out->checkpoint = out->ids[--out->nids];
    if (out->name && out->verb != CLI_SESSION_CREATE && out->verb != CLI_SESSION_CHECKPOINT)
        return ck_fail(err, 400, "usage", "--name goes with session create and session checkpoint");
    if (out->count && out->verb != CLI_SESSION_FORK)
        return ck_fail(err, 400, "usage", "--count goes with session fork");
    return 0;
}

static int whole_number(const char *option, const char *text, int min, int max, int *out, struct ck_err *err)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < min || n > max)
        return ck_fail(err, 400, "usage", "%s takes a whole number from %d to %d", option, min, max);
    *out = (int)n;
    return 0;
}

int cli_session_args_parse(int argc, char **argv, cli_env_fn env, struct cli_session_args *out, struct ck_err *err)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"count", required_argument, NULL, OPT_COUNT},
                                            {"checkpoint", required_argument, NULL, OPT_CHECKPOINT}, COMMON_OPTIONS};
    memset(out, 0, sizeof *out);
    target_from_env(&out->target, env);
    optind = 0;
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":n:h", options, NULL)) != -1) {
        if (c == 'h')
            return 1;
        if (c == '?' || c == ':')
            return unknown_option(argv, c, err);
        if (c == 'n')
            out->name = optarg;
        else if (c == OPT_CHECKPOINT)
            out->checkpoint = optarg;
        else if (c == OPT_COUNT && whole_number("--count", optarg, 1, 1000, &out->count, err))
            return -1;
        else
            common_option(c, &out->target, &out->json);
    }
    return session_operands(argc, argv, out, err);
}

int cli_mcp_args_parse(int argc, char **argv, cli_env_fn env, struct cli_mcp_args *out, struct ck_err *err)
{
    static const struct option options[] = {{"session", required_argument, NULL, 's'}, COMMON_OPTIONS};
    bool json = false;
    memset(out, 0, sizeof *out);
    target_from_env(&out->target, env);
    optind = 0;
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":s:h", options, NULL)) != -1) {
        if (c == 'h')
            return 1;
        if (c == '?' || c == ':')
            return unknown_option(argv, c, err);
        if (c == 's')
            out->session = optarg;
        else
            common_option(c, &out->target, &json);
    }
    if (json)
        return ck_fail(err, 400, "usage", "mcp takes no --json: it speaks JSON anyway");
    if (out->session && !*out->session)
        return ck_fail(err, 400, "usage", "--session takes a name or an id");
    return optind < argc ? ck_fail(err, 400, "usage", "mcp takes no operand") : 0;
}

static int token_operands(int argc, char **argv, struct cli_token_args *out, struct ck_err *err)
{
    static const char *const verbs[] = {"create", "list", "revoke"};
    size_t i = 0;
    while (optind < argc && i < 3 && strcmp(verbs[i], argv[optind]))
        i++;
    if (optind >= argc || i == 3)
        return ck_fail(err, 400, "usage", "say what to do: create, list or revoke");
    out->verb = (enum cli_token_verb)i;
    out->ids = argv + optind + 1;
    out->nids = argc - optind - 1;
    if (out->verb == CLI_TOKEN_REVOKE ? !out->nids : out->nids)
        return ck_fail(err, 400, "usage",
                       out->nids ? "token %s takes no operand" : "token %s takes the name or id of a token", verbs[i]);
    if ((out->name || out->max_sessions) && out->verb != CLI_TOKEN_CREATE)
        return ck_fail(err, 400, "usage", "--name and --max-sessions go with token create");
    return 0;
}

int cli_token_args_parse(int argc, char **argv, cli_env_fn env, struct cli_token_args *out, struct ck_err *err)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"max-sessions", required_argument, NULL, OPT_MAX_SESSIONS},
                                            COMMON_OPTIONS};
    memset(out, 0, sizeof *out);
    target_from_env(&out->target, env);
    optind = 0;
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":n:h", options, NULL)) != -1) {
        if (c == 'h')
            return 1;
        if (c == '?' || c == ':')
            return unknown_option(argv, c, err);
        if (c == 'n')
            out->name = optarg;
        else if (c == OPT_MAX_SESSIONS &&
                 whole_number("--max-sessions", optarg, 0, 1000000, &out->max_sessions, err))
            return -1;
        else
            common_option(c, &out->target, &out->json);
    }
    return token_operands(argc, argv, out, err);
}
