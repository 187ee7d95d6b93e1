// What /openapi.json says about the routes: one line an operation, and the schemas as JSON text.
// Data only. tests/unit/test_v1_openapi.c holds it against the route table.
#include "gateway/v1_schemas.h"

#define S "/v1/sessions/{id}"
#define CELL S "/cells/{cell}"
#define FILES S "/files/{path}"
#define SESSION_ERRORS "403 404 409 410 503"

const struct v1_operation v1_operations[] = {
    {"get", "/openapi.json", "getOpenapi", "This document", 0, 0, "200 Object", ""},
    {"get", "/healthz", "getHealth", "Is the gateway alive?", 0, 0, "200 Object", ""},
    {"get", "/readyz", "getReady", "Can it take new sessions?", 0, 0, "200 Object", "503"},
    {"get", "/metrics", "getMetrics", "Metrics in Prometheus text form", 0, 0, "200 text", "403"},
    {"post", "/v1/sessions", "createSession", "Create a session", 0, "SessionCreate", "201 Session", "400 403 429 503"},
    {"get", "/v1/sessions", "listSessions", "List sessions, oldest first", "name state metadata limit after", 0, "200 [Session]", "400 403 404"},
    {"get", "/v1/templates", "listTemplates", "What a session may be made of, the default first", 0, 0, "200 [Template]", "403 503"},
    {"post", "/v1/tokens", "createToken", "A token with sessions of its own; its text is told here and never again", 0, "TokenCreate", "201 TokenMade", "400 403 429"},
    {"get", "/v1/tokens", "listTokens", "The tokens, without their texts", 0, 0, "200 [Token]", "403"},
    {"delete", "/v1/tokens/{token}", "revokeToken", "Revoke a token at once; its sessions stay", 0, 0, "204 -", "403 404"},
    {"get", S, "getSession", "One session with its usage", 0, 0, "200 Session", "403 404"},
    {"patch", S, "changeSession", "Change name, metadata or timeouts", 0, "SessionPatch", "200 Session", "400 403 404"},
    {"delete", S, "deleteSession", "Delete the session and all its files", 0, 0, "204 -", "403 404"},
    {"post", S "/interrupt", "interruptSession", "Interrupt what runs (KeyboardInterrupt)", 0, 0, "200 Session", SESSION_ERRORS},
    {"post", S "/restart", "restartSession", "Start a fresh kernel; files stay", 0, 0, "200 Session", SESSION_ERRORS},
    {"post", S "/pause", "pauseSession", "Save the session with its memory and free what it uses; its next request resumes it", 0, 0, "200 Session", "400 " SESSION_ERRORS},
    {"post", S "/resume", "resumeSession", "Let a paused session run again", 0, 0, "200 Session", "400 " SESSION_ERRORS},
    {"post", S "/fork", "forkSession", "Independent copies of the session, or of a checkpoint of it, with variables and files; with Accept: text/event-stream progress as it is made", 0, "Fork", "201 [Session]", "400 429 507 " SESSION_ERRORS},
    {"post", S "/checkpoints", "createCheckpoint", "Save the session as it is now, to go back to", 0, "CheckpointCreate", "201 Checkpoint", "400 429 507 " SESSION_ERRORS},
    {"get", S "/checkpoints", "listCheckpoints", "The session's checkpoints, oldest first", 0, 0, "200 [Checkpoint]", "403 404"},
    {"get", S "/checkpoints/{checkpoint}", "getCheckpoint", "One checkpoint, by id or name", 0, 0, "200 Checkpoint", "403 404"},
    {"delete", S "/checkpoints/{checkpoint}", "deleteCheckpoint", "Delete a checkpoint", 0, 0, "204 -", "403 404 409"},
    {"post", S "/rollback", "rollbackSession", "Go back to a checkpoint, variables and files", 0, "Rollback", "200 Session", "400 " SESSION_ERRORS},
    {"post", S "/cells", "runCell", "Run code; with Accept: text/event-stream its events as they happen", 0, "CellRun", "200 Cell", "400 403 404 409 410 413 429 503"},
    {"get", CELL, "getCell", "A cell: queued, running, or finished", 0, 0, "200 CellState", "403 404 503"},
    {"delete", CELL, "deleteCell", "Cancel a queued or running cell", 0, 0, "204 -", SESSION_ERRORS},
    {"post", CELL "/cancel", "cancelCell", "Cancel a queued or running cell", 0, 0, "200 Object", SESSION_ERRORS},
    {"post", CELL "/stdin", "answerInput", "Answer the input() that the cell waits in", 0, "Stdin", "204 -", "400 " SESSION_ERRORS},
    {"get", S "/events", "streamEvents", "The session's events as server-sent events", "from", 0, "200 sse", "400 " SESSION_ERRORS},
    {"get", S "/stream", "streamWebsocket", "The session's events as a WebSocket", "from", 0, "101 -", "400 426 " SESSION_ERRORS},
    {"get", FILES, "getFile", "A file's bytes, or a folder's entries as JSON, or the folder as a tar archive", "download archive", 0, "200 file|206 bytes", "304 403 412 416 " SESSION_ERRORS},
    {"put", FILES, "putFile", "Store a file (all or nothing), or unpack a tar archive into a folder", "archive", "bytes", "201 Stat|200 Stat", "400 403 412 413 507 " SESSION_ERRORS},
    {"post", FILES, "fileAction", "Make a folder, or move a file or folder", 0, "FileAction", "200 Stat|201 Stat", "400 403 " SESSION_ERRORS},
    {"delete", FILES, "deleteFile", "Remove a file or folder", "recursive", 0, "204 -", "403 " SESSION_ERRORS},
    {"post", S "/commands", "runCommand", "Run a program beside the kernel; with Accept: text/event-stream its output as it comes", 0, "CommandRun", "200 Command", "400 413 " SESSION_ERRORS},
};
const size_t v1_noperations = sizeof v1_operations / sizeof *v1_operations;

const char v1_parameters_json[] =
    "{\"name\":{\"in\":\"query\",\"name\":\"name\",\"schema\":{\"type\":\"string\"},\"description\":\"only sessions of this name\"},"
    "\"state\":{\"in\":\"query\",\"name\":\"state\",\"schema\":{\"type\":\"string\"},\"description\":\"only sessions in this state\"},"
    "\"metadata\":{\"in\":\"query\",\"name\":\"metadata\",\"schema\":{\"type\":\"string\"},"
    "\"description\":\"a JSON object: only sessions whose metadata has these members\"},"
    "\"limit\":{\"in\":\"query\",\"name\":\"limit\",\"schema\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000}},"
    "\"after\":{\"in\":\"query\",\"name\":\"after\",\"schema\":{\"type\":\"string\"},\"description\":\"id of the last session of the page before\"},"
    "\"from\":{\"in\":\"query\",\"name\":\"from\",\"schema\":{\"type\":\"string\"},"
    "\"description\":\"first sequence number wanted (0: the oldest kept), or now\"},"
    "\"download\":{\"in\":\"query\",\"name\":\"download\",\"schema\":{\"type\":\"string\"},\"description\":\"send as an attachment\"},"
    "\"archive\":{\"in\":\"query\",\"name\":\"archive\",\"schema\":{\"enum\":[\"tar\"]}},"
    "\"recursive\":{\"in\":\"query\",\"name\":\"recursive\",\"schema\":{\"type\":\"boolean\"}}}";

#define STR "{\"type\":\"string\"}"
#define INT "{\"type\":\"integer\"}"
#define BOOL "{\"type\":\"boolean\"}"
#define OBJ "{\"type\":\"object\"}"
#define STRMAP "{\"type\":\"object\",\"additionalProperties\":" STR "}"
#define ARRAY(x) "{\"type\":\"array\",\"items\":" x "}"
#define REF(x) "{\"$ref\":\"#/components/schemas/" x "\"}"
#define CLOSED "\"additionalProperties\":false"

const char v1_schemas_json[] =
    "{\"Object\":" OBJ ","
    "\"Error\":{\"type\":\"object\",\"required\":[\"message\",\"reason\"],\"properties\":{\"message\":" STR ",\"reason\":" STR "}},"
    "\"TokenCreate\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"name\":" STR ",\"max_sessions\":" INT "}},"
    "\"Token\":{\"type\":\"object\",\"properties\":{\"id\":" STR ",\"name\":" STR ",\"created_at\":" STR ",\"max_sessions\":" INT "}},"
    "\"TokenMade\":{\"type\":\"object\",\"properties\":{\"id\":" STR ",\"name\":" STR ",\"created_at\":" STR ",\"max_sessions\":" INT
    ",\"token\":" STR "}},"
    "\"Timeouts\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"cell_s\":" INT ",\"idle_s\":" INT ",\"delete_s\":" INT "}},"
    "\"Limits\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"cpu_weight\":" INT ",\"disk_mb\":" INT ",\"pids\":" INT
    ",\"open_files\":" INT ",\"output_mb\":" INT ",\"message_mb\":" INT ",\"artifacts\":" INT ",\"artifact_mb\":" INT
    ",\"upload_mb\":" INT "}},"
    "\"SessionCreate\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"name\":" STR ",\"template\":" STR ",\"memory_mb\":" INT
    ",\"env\":" STRMAP ",\"timeouts\":" REF("Timeouts") ",\"limits\":" REF("Limits") ",\"metadata\":" OBJ ",\"artifact_ignore\":" ARRAY(STR) "}},"
    "\"SessionPatch\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"name\":" STR ",\"timeouts\":" REF("Timeouts") ",\"metadata\":" OBJ "}},"
    "\"Session\":{\"type\":\"object\",\"required\":[\"id\",\"name\",\"state\"],\"properties\":{\"id\":" STR ",\"name\":" STR
    ",\"state\":{\"enum\":[\"starting\",\"idle\",\"busy\",\"paused\",\"dead\"]},\"template\":" STR ",\"memory_mb\":" INT
    ",\"accelerator\":{\"enum\":[\"kvm\",\"tcg\"]},\"created_at\":" STR ",\"last_activity\":" STR ",\"metadata\":" OBJ
    ",\"timeouts\":" REF("Timeouts") ",\"limits\":" REF("Limits") ",\"usage\":{\"type\":[\"object\",\"null\"]}}},"
    "\"Template\":{\"type\":\"object\",\"required\":[\"name\",\"memory_mb\"],\"properties\":{\"name\":" STR ",\"memory_mb\":" ARRAY(INT) "}},"
    "\"Fork\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"checkpoint\":" STR
    ",\"count\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000}}},"
    "\"CheckpointCreate\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"name\":" STR "}},"
    "\"Checkpoint\":{\"type\":\"object\",\"required\":[\"id\",\"name\"],\"properties\":{\"id\":" STR ",\"name\":" STR
    ",\"created_at\":" STR ",\"bytes\":" INT "}},"
    "\"Rollback\":{\"type\":\"object\",\"required\":[\"checkpoint\"]," CLOSED ",\"properties\":{\"checkpoint\":" STR "}},"
    "\"CellRun\":{\"type\":\"object\",\"required\":[\"code\"]," CLOSED ",\"properties\":{\"code\":" STR
    ",\"timeout_s\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":604800},\"silent\":" BOOL
    ",\"stdin\":{\"oneOf\":[" STR "," ARRAY(STR) "," BOOL "]},\"output\":" REF("Output") "}},"
    "\"Output\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"strip_ansi\":" BOOL
    ",\"max_text_bytes\":{\"type\":\"integer\",\"minimum\":100,\"maximum\":67108864},\"mime_types\":" ARRAY(STR)
    ",\"max_image_edge\":{\"type\":\"integer\",\"minimum\":16,\"maximum\":16384}}},"
    "\"Image\":{\"type\":\"object\",\"properties\":{\"type\":" STR ",\"display\":{\"type\":[\"integer\",\"string\"]},\"from\":" ARRAY(INT)
    ",\"to\":{\"type\":[\"array\",\"null\"],\"items\":" INT "},\"message\":" STR "}},"
    "\"Artifact\":{\"type\":\"object\",\"properties\":{\"path\":" STR ",\"name\":" STR
    ",\"change\":{\"enum\":[\"created\",\"changed\"]},\"mime\":" STR ",\"size\":" INT ",\"sha256\":{\"type\":[\"string\",\"null\"]},\"partial\":" BOOL ",\"url\":" STR
    ",\"display\":{\"type\":[\"integer\",\"string\"]}}},"
    "\"CellError\":{\"type\":[\"object\",\"null\"],\"properties\":{\"ename\":" STR ",\"evalue\":" STR ",\"traceback\":" ARRAY(STR)
    ",\"traceback_plain\":" ARRAY(STR) "}},"
    "\"Cell\":{\"type\":\"object\",\"required\":[\"id\",\"status\",\"exit_code\"],\"properties\":{\"id\":" STR ",\"seq\":" ARRAY(INT)
    ",\"status\":{\"enum\":[\"ok\",\"error\",\"timeout\",\"interrupted\",\"oom\",\"kernel_died\",\"vm_died\",\"cancelled\"]}"
    ",\"exit_code\":" INT ",\"execution_count\":{\"type\":[\"integer\",\"null\"]},\"stdout\":" STR ",\"stderr\":" STR
    ",\"result\":{\"type\":[\"object\",\"null\"]},\"displays\":" ARRAY(OBJ) ",\"error\":" REF("CellError")
    ",\"artifacts\":" ARRAY(REF("Artifact")) ",\"artifacts_total\":" INT ",\"images\":" ARRAY(REF("Image")) ",\"ended_by\":" STR ",\"detail\":" STR ",\"usage\":" OBJ ",\"limits_hit\":" ARRAY(STR) ",\"truncated\":" OBJ "}},"
    "\"CellState\":{\"oneOf\":[" REF("Cell") ",{\"type\":\"object\",\"properties\":{\"id\":" STR
    ",\"status\":{\"enum\":[\"queued\",\"running\"]}}}]},"
    "\"Stdin\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"value\":" STR ",\"eof\":" BOOL "}},"
    "\"Stat\":{\"type\":\"object\",\"properties\":{\"path\":" STR ",\"name\":" STR ",\"type\":{\"enum\":[\"file\",\"dir\",\"other\"]}"
    ",\"size\":" INT ",\"modified_at\":" STR ",\"mode\":" INT ",\"mime\":" STR ",\"etag\":" STR "}},"
    "\"Folder\":{\"type\":\"object\",\"required\":[\"path\",\"entries\"],\"properties\":{\"path\":" STR ",\"path_raw_hex\":" STR
    ",\"type\":{\"enum\":[\"dir\"]},\"entries\":" ARRAY("{\"type\":\"object\",\"properties\":{\"name\":" STR ",\"name_raw_hex\":" STR ",\"url\":" STR
    ",\"type\":{\"enum\":[\"file\",\"dir\",\"other\"]},\"size\":" INT ",\"modified_at\":" STR "}}") ",\"truncated\":" BOOL "}},"
    "\"FileAction\":{\"type\":\"object\",\"required\":[\"action\"]," CLOSED
    ",\"properties\":{\"action\":{\"enum\":[\"mkdir\",\"move\"]},\"to\":" STR "}},"
    "\"CommandRun\":{\"type\":\"object\"," CLOSED ",\"properties\":{\"cmd\":" STR ",\"argv\":" ARRAY(STR) ",\"cwd\":" STR
    ",\"env\":" STRMAP ",\"timeout_s\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":604800},\"stdin\":" STR "}},"
    "\"Command\":{\"type\":\"object\",\"required\":[\"exit_code\"],\"properties\":{\"exit_code\":" INT ",\"signal\":" INT
    ",\"timed_out\":" BOOL ",\"wall_ms\":" INT ",\"stdout\":" STR ",\"stderr\":" STR ",\"artifacts\":" ARRAY(REF("Artifact"))
    ",\"artifacts_total\":" INT ",\"limits_hit\":" ARRAY(STR) ",\"truncated\":" OBJ "}}}";
