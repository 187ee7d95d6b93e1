// The table of tools and the check of their arguments. Descriptions are written for a model: what the
// tool does, what it returns, what to do when it fails. Nothing here runs anything.
#include "gateway/mcp_tools.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <openssl/evp.h>
#include <stdlib.h>

#define SESSION_ARG \
    "\"session\":{\"type\":\"string\",\"description\":\"Handle of the session, as new_session or an earlier result " \
    "gave it. " \
    "Left out: the one of this connection; where connections have none, a new one, whose handle is in the result.\"}"

static const struct {
    const char *name, *title, *description;
    const char *properties, *required; // JSON: members of an object, of a list
    bool read_only, destructive, idempotent;
    const char *known[8];
} tools[MCP_TOOLS] = {
    [MCP_RUN_PYTHON] =
        {"run_python", "Run Python",
         "Runs Python code in a stateful session: variables, imports and files stay for the next call, as in a "
         "notebook. "
         "Returns what was printed, the value of the last expression, figures as images, and links to files that "
         "were made "
         "or changed. pandas, numpy, scipy, matplotlib, seaborn, plotly, scikit-learn, openpyxl and pillow are "
         "installed. "
         "There is no network. The folder is /home/user. An exception is returned as an error with its traceback.",
         "\"code\":{\"type\":\"string\",\"description\":\"Python source; several lines are fine.\"}," SESSION_ARG ","
         "\"timeout_s\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":604800,\"description\":\"Stops the "
         "code after "
         "so many seconds; variables are kept.\"}",
         "\"code\"", false, true, false, {"code", "session", "timeout_s", NULL}},
    [MCP_RUN_COMMAND] =
        {"run_command", "Run a shell command",
         "Runs a line for the shell (sh) in the same machine and with the same files as run_python. Returns its "
         "output and, "
         "when it is not 0, its exit code. Stops after timeout_s, 30 if left out.",
         "\"command\":{\"type\":\"string\",\"description\":\"The line for the shell.\"},"
         "\"cwd\":{\"type\":\"string\",\"description\":\"Folder to run in; default /home/user.\"},"
         "\"stdin\":{\"type\":\"string\",\"description\":\"Text for its standard input.\"}," SESSION_ARG ","
         "\"timeout_s\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":604800,\"description\":\"Kills the "
         "command "
         "after so many seconds.\"}",
         "\"command\"", false, true, false, {"command", "cwd", "stdin", "session", "timeout_s", NULL}},
    [MCP_READ_FILE] =
        {"read_file", "Read a file",
         "Returns a file of the session: text as text, a picture as an image, anything else base64-encoded. Long "
         "files come "
         "in parts: ask again with a larger offset.",
         "\"path\":{\"type\":\"string\",\"description\":\"Absolute, or relative to /home/user.\"},"
         "\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"First byte; default 0.\"},"
         "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":8388608,\"description\":\"Most bytes of text; "
         "default 65536.\"},"
         SESSION_ARG,
         "\"path\"", true, false, true, {"path", "offset", "limit", "session", NULL}},
    [MCP_WRITE_FILE] =
        {"write_file", "Write a file",
         "Writes a file into the session, whole; what was there is replaced. Folders on the way are made.",
         "\"path\":{\"type\":\"string\",\"description\":\"Absolute, or relative to /home/user.\"},"
         "\"content\":{\"type\":\"string\"},"
         "\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"],\"description\":\"Of content; default "
         "utf-8.\"},"
         SESSION_ARG,
         "\"path\",\"content\"", false, true, true, {"path", "content", "encoding", "session", NULL}},
    [MCP_LIST_FILES] =
        {"list_files", "List a folder",
         "Lists a folder of the session: type, size and name of each entry.",
         "\"path\":{\"type\":\"string\",\"description\":\"Absolute, or relative to /home/user, which is the "
         "default.\"}," SESSION_ARG,
         "", true, false, true, {"path", "session", NULL}},
    [MCP_NEW_SESSION] =
        {"new_session", "New session",
         "Starts a fresh session, a virtual machine with its own Python, and returns its handle for the argument "
         "\\\"session\\\" of the other tools.",
         "\"name\":{\"type\":\"string\",\"description\":\"A name for people; also works as the handle.\"}",
         "", false, false, false, {"name", NULL}},
    [MCP_CLOSE_SESSION] =
        {"close_session", "Close a session",
         "Ends a session and deletes its files. Do it when it is not needed any more.",
         SESSION_ARG, "", false, true, true, {"session", NULL}},
};

const char *mcp_tools_instructions(void)
{
    return "cellkeep runs Python and shell commands in sessions. Each session is a virtual machine of its own, with "
           "files that "
           "stay until it is closed. Save what the user should get as files below /home/user.";
}

json_t *mcp_tools_list(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < MCP_TOOLS; i++) {
        CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
        ck_buf_printf(&b, "{\"name\":\"%s\",\"title\":\"%s\",\"description\":\"%s\",\"inputSchema\":{\"type\":\"object\",\"properties\":{",
                      tools[i].name, tools[i].title, tools[i].description);
        ck_buf_add_str(&b, tools[i].properties);
        ck_buf_printf(&b, "},\"required\":[%s],\"additionalProperties\":false},", tools[i].required);
        ck_buf_printf(&b, "\"annotations\":{\"readOnlyHint\":%s,\"destructiveHint\":%s,\"idempotentHint\":%s,\"openWorldHint\":false}}",
                      tools[i].read_only ? "true" : "false", tools[i].destructive ? "true" : "false",
                      tools[i].idempotent ? "true" : "false");
        json_t *tool = json_loadb((const char *)b.p, b.n, 0, NULL);
        if (!tool || json_array_append_new(list, tool)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

// The members of o that v1 bodies know under the same names, and `as` for `from`. New reference.
static json_t *body_of(const json_t *o, const char *from, const char *as)
{
    static const char *const same[] = {"cwd", "stdin", "timeout_s"};
    json_t *b = json_object();
    if (json_object_get(o, from))
        json_object_set(b, as, json_object_get(o, from));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (json_object_get(o, same[i]))
            json_object_set(b, same[i], json_object_get(o, same[i]));
    return b;
}

static int command_args(const json_t *o, int64_t timeout_ms, struct mcp_call_args *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *body = body_of(o, "command", "cmd");
    if (!json_object_get(o, "command"))
        return ck_fail(err, 400, "bad_field", "\"command\" is required: a line for the shell");
    if (ck_json_dump(body, &b))
        return ck_fail(err, 503, "no_memory", "out of memory");
    return v1_command_body_parse(ck_buf_slice(&b), timeout_ms, &out->command, err);
}

static int decode_base64(const char *text, size_t n, struct ck_buf *out, struct ck_err *err)
{
    if (n % 4)
        return ck_fail(err, 400, "bad_field", "\"content\" is no base64: its length is no multiple of 4");
    if (!n)
        return 0;
    if (ck_buf_reserve(out, n / 4 * 3))
        return ck_fail(err, 503, "no_memory", "out of memory");
    int got = EVP_DecodeBlock(out->p, (const unsigned char *)text, (int)n);
    if (got < 0)
        return ck_fail(err, 400, "bad_field", "\"content\" is no base64");
    out->n = (size_t)got - (text[n - 1] == '=') - (text[n - 2] == '=');
    return 0;
}

static int content_args(const json_t *o, struct mcp_call_args *out, struct ck_err *err)
{
    const char *encoding = ck_json_str(o, "encoding", "utf-8", err);
    const json_t *content = json_object_get(o, "content");
    if (err->status)
        return -1;
    if (!json_is_string(content))
        return ck_fail(err, 400, "bad_field", "\"content\" is required, and a text");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    if (!strcmp(encoding, "base64"))
        return decode_base64(text, n, &out->content, err);
    if (strcmp(encoding, "utf-8"))
        return ck_fail(err, 400, "bad_field", "\"encoding\" must be \"utf-8\" or \"base64\"");
    return ck_buf_add(&out->content, text, n) ? ck_fail(err, 503, "no_memory", "out of memory") : 0;
}

static int path_args(const json_t *o, const char *def, struct mcp_call_args *out, struct ck_err *err)
{
    const char *path = ck_json_str(o, "path", def, err);
    if (err->status)
        return -1;
    if (!path)
        return ck_fail(err, 400, "bad_field", "\"path\" is required");
    out->offset = ck_json_int(o, "offset", 0, err);
    out->limit = ck_json_int(o, "limit", MCP_READ_DEFAULT, err);
    if (err->status)
        return -1;
    if (out->offset < 0 || out->limit < 1 || out->limit > MCP_READ_MAX)
        return ck_fail(err, 400, "bad_field", "\"offset\" must be 0 or more, \"limit\" from 1 to %d", MCP_READ_MAX);
    return v1_path_from_body(path, out->path, err);
}

static int tool_args(json_t *o, int64_t command_timeout_ms, struct mcp_call_args *out, struct ck_err *err)
{
    out->session = ck_json_str(o, "session", NULL, err);
    out->name = ck_json_str(o, "name", NULL, err);
    if (err->status)
        return -1;
    if (out->session && !*out->session)
        return ck_fail(err, 400, "bad_field", "\"session\" is empty: leave it out, or give a handle");
    if (out->name && (!*out->name || strlen(out->name) > V1_NAME_FIELD_MAX))
        return ck_fail(err, 400, "bad_field", "\"name\" must have 1 to %d bytes", V1_NAME_FIELD_MAX);
    switch (out->tool) {
    case MCP_RUN_PYTHON:
        return v1_cell_body_check(body_of(o, "code", "code"), &out->cell, err);
    case MCP_RUN_COMMAND:
        return command_args(o, command_timeout_ms, out, err);
    case MCP_READ_FILE:
        return path_args(o, NULL, out, err);
    case MCP_WRITE_FILE:
        return path_args(o, NULL, out, err) || content_args(o, out, err) ? -1 : 0;
    case MCP_LIST_FILES:
        return path_args(o, "/home/user", out, err);
    default:
        return 0;
    }
}

int mcp_call_args_parse(json_t *params, int64_t command_timeout_ms, struct mcp_call_args *out, struct ck_err *err)
{
    memset(out, 0, sizeof *out);
    json_t *name = json_object_get(params, "name"), *args = json_object_get(params, "arguments");
    if (!json_is_string(name) || (args && !json_is_object(args)))
        return ck_fail(err, 400, "bad_message", "\"params\" must have \"name\", a text, and may have \"arguments\", "
                                 "an object");
    size_t i = 0;
    while (i < MCP_TOOLS && strcmp(tools[i].name, json_string_value(name)))
        i++;
    if (i == MCP_TOOLS) {
        ck_fail(err, 404, "no_such_tool", "there is no tool \"%.100s\": see tools/list", json_string_value(name));
        return 1;
    }
    out->tool = (enum mcp_tool)i;
    CK_CLEAN_JSON json_t *none = json_object();
    json_t *o = args ? args : none;
    if (v1_body_only(o, tools[i].name, tools[i].known, err) || tool_args(o, command_timeout_ms, out, err))
        return 2;
    return 0;
}

void mcp_call_args_free(struct mcp_call_args *a)
{
    v1_cell_body_free(&a->cell);
    v1_command_body_free(&a->command);
    ck_buf_free(&a->content);
    memset(a, 0, sizeof *a);
}
