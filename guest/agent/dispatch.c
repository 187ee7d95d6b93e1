// Which operation goes where. Everything that may wait for a disk goes to a worker's thread; the rest
// is answered at once from the main loop.
#include "guest/agent/agent.h"
#include "guest/agent/cgroup.h"
#include "guest/agent/files.h"
#include "guest/agent/limits.h"
#include "guest/agent/personalise.h"
#include "common/ck_json.h"

#include <string.h>

static void op_hello(struct ag_agent *a, struct ag_request *req)
{
    ag_answer(req, json_pack("{s:i, s:i, s:s}", "version", 1, "kernel_pid", (int)ag_kernel_pid(a->kernel), "boot_id",
                             a->boot_id),
              ck_slice(NULL, 0));
}

static void op_personalise(struct ag_agent *a, struct ag_request *req)
{
    struct ag_personality p;
    struct ck_err err = CK_ERR_INIT;
    if (ag_personality_parse(req->header, &p, &err) < 0 || ag_personalise(&p, ck_buf_slice(&req->payload), &err) < 0) {
        ag_answer_error(req, &err);
        return;
    }
    ag_commands_kill_all(a->commands);
    ag_worker_call(a->files, ag_job_abort_all, NULL, NULL);
    ag_server_forget_queue(a->server);
    ag_wire_rekey(ag_server_wire(a->server), p.key);
    explicit_bzero(p.key, sizeof p.key);
    ag_answer(req, NULL, ck_slice(NULL, 0));
}

static void op_set_time(struct ag_agent *a, struct ag_request *req)
{
    (void)a;
    struct ck_err err = CK_ERR_INIT;
    if (ag_set_time(ck_json_int(req->header, "time_us", 0, NULL), &err) < 0)
        ag_answer_error(req, &err);
    else
        ag_answer(req, NULL, ck_slice(NULL, 0));
}

static void op_usage(struct ag_agent *a, struct ag_request *req)
{
    (void)a;
    struct ag_usage use;
    struct ag_disk disk;
    ag_cgroup_usage(NULL, &use);
    ag_limits_disk(&disk);
    ag_answer(req,
              json_pack("{s:I, s:I, s:I, s:I, s:I}", "cpu_ms", (json_int_t)use.cpu_ms, "memory_bytes",
                        (json_int_t)use.memory_bytes, "peak_memory_bytes", (json_int_t)use.peak_memory_bytes,
                        "disk_bytes", (json_int_t)disk.used, "disk_free_bytes", (json_int_t)disk.left),
              ck_slice(NULL, 0));
}

static void op_ping(struct ag_agent *a, struct ag_request *req)
{
    (void)a;
    ag_answer(req, NULL, ck_slice(NULL, 0));
}

static void op_kernel_start(struct ag_agent *a, struct ag_request *req) { ag_op_kernel_start(a->kernel, req); }
static void op_kernel_signal(struct ag_agent *a, struct ag_request *req) { ag_op_kernel_signal(a->kernel, req); }
static void op_limits(struct ag_agent *a, struct ag_request *req) { ag_op_limits(a->kernel, req); }
static void op_command(struct ag_agent *a, struct ag_request *req) { ag_op_command(a->commands, req); }
static void op_command_kill(struct ag_agent *a, struct ag_request *req) { ag_op_command_kill(a->commands, req); }

struct operation {
    const char *name;
    void (*now)(struct ag_agent *a, struct ag_request *req); // main thread
    ag_job_fn *files, *scans;                                // or a worker's
};
static const struct operation operations[] = {
    {.name = "hello", .now = op_hello},
    {.name = "ping", .now = op_ping},
    {.name = "personalise", .now = op_personalise},
    {.name = "set_time", .now = op_set_time},
    {.name = "usage", .now = op_usage},
    {.name = "limits", .now = op_limits},
    {.name = "kernel_start", .now = op_kernel_start},
    {.name = "kernel_signal", .now = op_kernel_signal},
    {.name = "command", .now = op_command},
    {.name = "command_kill", .now = op_command_kill},
    {.name = "changes", .scans = ag_op_changes},
    {.name = "watch", .scans = ag_op_watch},
    {.name = "stat", .files = ag_op_stat},
    {.name = "list", .files = ag_op_list},
    {.name = "read", .files = ag_op_read},
    {.name = "remove", .files = ag_op_remove},
    {.name = "mkdir", .files = ag_op_mkdir},
    {.name = "move", .files = ag_op_move},
    {.name = "write_open", .files = ag_op_write_open},
    {.name = "write", .files = ag_op_write},
    {.name = "write_commit", .files = ag_op_write_commit},
    {.name = "write_abort", .files = ag_op_write_abort},
};

void ag_dispatch(struct ag_request *req)
{
    struct ag_agent *a = req->agent;
    struct ck_err err = CK_ERR_INIT;
    const char *name = ck_json_str(req->header, "op", "", NULL);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *op = &operations[i];
        if (strcmp(op->name, name) != 0)
            continue;
        if (op->now)
            op->now(a, req);
        else
            ag_worker_submit(op->files ? a->files : a->scans, op->files ? op->files : op->scans, req);
        return;
    }
    ck_fail(&err, 400, "unknown_op", "the agent knows no such operation");
    ag_answer_error(req, &err);
}
