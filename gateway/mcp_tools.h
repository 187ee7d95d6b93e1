// The tools that MCP clients see, and what a call of one says. Pure.
#pragma once
#include "gateway/v1_body.h"
#include "gateway/v1_path.h"

#define MCP_READ_DEFAULT (64 * 1024)
#define MCP_READ_MAX (8 * 1024 * 1024)
#define MCP_LIST_MAX 1000

enum mcp_tool {
    MCP_RUN_PYTHON,
    MCP_RUN_COMMAND,
    MCP_READ_FILE,
    MCP_WRITE_FILE,
    MCP_LIST_FILES,
    MCP_NEW_SESSION,
    MCP_CLOSE_SESSION,
    MCP_TOOLS,
};

// [{name, title, description, inputSchema, annotations}]. NULL = out of memory.
json_t *mcp_tools_list(void);
const char *mcp_tools_instructions(void);

struct mcp_call_args {
    enum mcp_tool tool;
    const char *session;  // handle or name, borrowed from params; NULL = the default one
    const char *name;     // of a new session, borrowed; NULL = none
    struct v1_cell_body cell;       // run_python
    struct v1_command_body command; // run_command
    char path[V1_PATH_MAX];         // files
    int64_t offset, limit;          // read_file
    struct ck_buf content;          // write_file
};

// params of tools/call. Outcomes: 0; 1 = there is no such tool (err says so: it is the client's mistake,
// -32602); 2 = the arguments are wrong (err says how: the model's mistake, it is told as a result); -1
// with err = malformed params. The struct is to be freed in every case.
int mcp_call_args_parse(json_t *params, int64_t command_timeout_ms, struct mcp_call_args *out, struct ck_err *err);
void mcp_call_args_free(struct mcp_call_args *a); // zeroed ones too
