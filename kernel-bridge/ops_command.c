// Commands in the guest, beside the kernel: output streams to the connection that asked, which owns
// the command: when it closes the command is killed. Output over the session's limit is dropped and
// counted; so is output that a client does not read, before it fills memory.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"

#include <inttypes.h>
#include <stdlib.h>

#define START_MS 30000
#define GRACE_MS 15000               // after the command's own deadline, which the agent enforces
#define UNREAD_MAX (16u << 20)

struct command {
    struct job job; // first
    struct bridge *b;
    struct reply_to to;
    struct command *next;
    uv_timer_t guard;
    char url_prefix[TRK_URL_PREFIX_MAX];
    int64_t pid, timeout_ms, started_ms;
    uint64_t sent[2], dropped;
    bool starting, listed, orphan, collecting;
    unsigned hits;     // CELL_HIT bits
    struct ck_buf end; // the final answer, while artifacts are looked for
};

static void on_guard_closed(uv_handle_t *h)
{
    struct command *k = h->data;
    ck_buf_free(&k->end);
    free(k);
}

static void unlist(struct command *k)
{
    for (struct command **at = &k->b->commands; *at; at = &(*at)->next)
        if (*at == k) {
            *at = k->next;
            break;
        }
    k->listed = false;
}

// Lets go of it; freed when nothing under way names it any more.
static void command_end(struct command *k)
{
    if (!k->orphan)
        conn_job_remove(&k->job);
    k->orphan = true;
    if (k->listed)
        unlist(k);
    if (!k->starting && !k->collecting)
        uv_close((uv_handle_t *)&k->guard, on_guard_closed);
}

static void command_fail(struct command *k, const struct ck_err *err)
{
    struct service *svc = k->orphan ? NULL : k->b->svc;
    struct reply_to to = k->to;
    command_end(k);
    svc_reply_error(svc, to, err);
}

static void kill_answered(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    (void)user;
    (void)answer;
    (void)payload;
    if (err && err->status != 404 && err->status != 410)
        ck_log(CK_LOG_WARN, "bridge", "command_kill_failed reason=%s", err->reason);
}

static void command_kill(struct command *k)
{
    struct ck_err err = CK_ERR_INIT;
    json_t *o = json_pack("{s:s,s:I}", "op", "command_kill", "pid", (json_int_t)k->pid);
    if (ac_request(k->b->ac, o, ck_slice("", 0), BR_AGENT_MS, kill_answered, NULL, &err) < 0)
        kill_answered(NULL, NULL, ck_slice("", 0), &err);
}

static void overdue(uv_timer_t *t)
{
    struct command *k = t->data;
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "command_timeout", "the command's end was not reported in time; it was killed");
    command_kill(k);
    command_fail(k, &err);
}

static void command_started(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct command *k = user;
    (void)payload;
    k->starting = false;
    if (err) {
        command_fail(k, err);
        return;
    }
    k->pid = ck_json_int(answer, "pid", -1, NULL);
    if (k->orphan) {
        command_kill(k);
        command_end(k);
        return;
    }
    k->next = k->b->commands;
    k->b->commands = k;
    k->listed = true;
    if (k->timeout_ms)
        uv_timer_start(&k->guard, overdue, (uint64_t)k->timeout_ms + GRACE_MS, 0);
}

static void collected(void *user, struct ck_slice array, int64_t total)
{
    struct command *k = user;
    struct service *svc = k->orphan ? NULL : k->b->svc;
    struct reply_to to = k->to;
    CK_CLEAN_BUF struct ck_buf f = k->end;
    k->end = (struct ck_buf)CK_BUF_INIT;
    k->collecting = false;
    // 200 artifacts with long names may be more than a header holds: then their number has to do
    bool fits = f.n + array.n < CK_FRAME_HEADER_MAX - 256;
    int bad = ck_buf_add_str(&f, ",\"artifacts\":") ||
              (fits ? ck_buf_add(&f, array.p, array.n) : ck_buf_add_str(&f, "[]")) ||
              ck_buf_printf(&f, ",\"artifacts_total\":%" PRId64, total);
    if (br_disk_full(k->b))
        k->hits |= CELL_HIT(CELL_HIT_DISK);
    if (k->hits)
        bad = bad || ck_buf_add_str(&f, ",\"limits_hit\":") || cell_hits_json(k->hits, &f);
    command_end(k);
    if (!bad)
        svc_reply(svc, to, ck_buf_slice(&f), NULL, 0);
}

static void command_exit(struct command *k, const json_t *push)
{
    int64_t sig = ck_json_int(push, "signal", 0, NULL), code = ck_json_int(push, "code", sig ? 128 + sig : -1, NULL);
    bool timed_out = ck_json_bool(push, "timed_out", false, NULL);
    if (timed_out)
        code = 124;
    unlist(k);
    uv_timer_stop(&k->guard);
    int bad = ck_buf_printf(&k->end, "\"exit\":{\"exit_code\":%" PRId64, code);
    if (sig)
        bad |= ck_buf_printf(&k->end, ",\"signal\":%" PRId64, sig);
    bad |= ck_buf_printf(&k->end, ",\"timed_out\":%s,\"wall_ms\":%" PRId64 ",\"truncated_bytes\":%" PRIu64 "}",
                         timed_out ? "true" : "false", ck_mono_ms() - k->started_ms, k->dropped);
    k->hits = k->dropped ? CELL_HIT(CELL_HIT_OUTPUT) : 0;
    if (ck_json_int(push, "pids_refused", 0, NULL) > 0)
        k->hits |= CELL_HIT(CELL_HIT_PIDS);
    struct ck_err err = CK_ERR_INIT;
    if (bad) {
        ck_fail(&err, 500, "no_memory", "no memory for an answer");
        command_fail(k, &err);
        return;
    }
    k->collecting = true;
    br_changes_for_command(k->b, k->url_prefix, collected, k);
}

static void command_out(struct command *k, const json_t *push, struct ck_slice data)
{
    bool is_err = !strcmp(ck_json_str(push, "stream", "stdout", NULL), "stderr");
    uint64_t left = k->b->conf.limits.output_bytes - k->sent[is_err];
    if (k->orphan || conn_queued(k->job.conn) > UNREAD_MAX)
        left = 0;
    if (data.n > left) {
        k->dropped += data.n - left;
        data.n = (size_t)left;
    }
    k->sent[is_err] += data.n;
    if (data.n)
        svc_reply(k->b->svc, k->to, ck_slice_str(is_err ? "\"out\":\"stderr\"" : "\"out\":\"stdout\""), &data, 1);
}

void br_command_push(struct bridge *b, const char *ev, const json_t *push, struct ck_slice payload)
{
    int64_t pid = ck_json_int(push, "pid", -1, NULL);
    struct command *k = b->commands;
    while (k && k->pid != pid)
        k = k->next;
    if (!k)
        return; // of a command whose connection is gone
    if (!strcmp(ev, "out"))
        command_out(k, push, payload);
    else if (!strcmp(ev, "exit"))
        command_exit(k, push);
}

void br_commands_vm_died(struct bridge *b, const struct ck_err *err)
{
    while (b->commands)
        command_fail(b->commands, err);
}

static void command_closed(struct job *j)
{
    struct command *k = (struct command *)j;
    k->orphan = true;
    if (k->starting || k->collecting)
        return;
    command_kill(k);
    command_end(k);
}

static void no_data(struct job *j, const struct bop *op)
{
    (void)j;
    (void)op;
}
static const struct job_ops command_ops = {command_closed, NULL, no_data};

static json_t *request(const struct command *k, const struct bop *op)
{
    json_t *o = json_pack("{s:s,s:I,s:O*,s:O*,s:s*}", "op", "command", "timeout_ms", (json_int_t)k->timeout_ms, "argv",
                          op->argv, "env", op->env, "cmd", op->cmd);
    if (o && op->cwd[0])
        json_object_set_new(o, "cwd", json_string(op->cwd));
    return o;
}

int br_command(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err)
{
    struct ck_slice in = op->frame.nparts > 1 ? ck_frame_part(&op->frame, 1) : ck_slice("", 0);
    if (br_check_alive(b, err))
        return -1;
    if (b->conf.limits.command_max_ms && op->timeout_ms > b->conf.limits.command_max_ms)
        return ck_fail(err, 400, "bad_field", "field \"timeout_s\" may be at most %" PRId64
                       ": that is this server's maximum for a command", b->conf.limits.command_max_ms / 1000);
    if (in.n > AW_PAYLOAD_MAX)
        return ck_fail(err, 413, "stdin_too_large", "stdin of a command is limited to %d bytes; upload a file instead",
                       AW_PAYLOAD_MAX);
    struct command *k = calloc(1, sizeof *k);
    if (!k || conn_job_add(c, &k->job, op->rid, &command_ops, err)) {
        free(k);
        return err->status ? -1 : ck_fail(err, 500, "no_memory", "no memory for a command");
    }
    k->b = b;
    k->to = conn_reply_to(c, op->rid);
    k->timeout_ms = op->timeout_ms ? op->timeout_ms : b->conf.limits.command_ms;
    k->started_ms = ck_mono_ms();
    snprintf(k->url_prefix, sizeof k->url_prefix, "%s", op->url_prefix);
    uv_timer_init(b->loop, &k->guard);
    k->guard.data = k;
    br_active(b);
    k->starting = true;
    if (ac_request(b->ac, request(k, op), in, START_MS, command_started, k, err) < 0) {
        k->starting = false;
        command_end(k);
        return -1;
    }
    return 0;
}
