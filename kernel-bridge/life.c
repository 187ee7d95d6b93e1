// Layers of a session that lives: what is asked, what the layer needs beside the VM's own, and the
// answer. One of these operations at a time. Must never leave the session stopped or its connections
// unread when an operation has failed.
#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *const op_names[] = {"nothing", "a checkpoint", "a pause", "a rollback"};

int br_life_may(const struct bridge *b, struct ck_err *err)
{
    if (br_check_alive(b, err))
        return -1;
    if (b->life.op != BR_LIFE_NONE)
        return ck_fail(err, 409, "life_busy", "%s of this session is under way; wait for its end",
                       op_names[b->life.op]);
    if (b->pool)
        return ck_fail(err, 409, "bad_state", "this bridge is no session yet");
    if (!br_kernel_ready(b))
        return ck_fail(err, 409, "session_starting", "the session, or a fresh kernel of it, is still starting");
    return 0;
}

void br_life_end(struct bridge *b, const struct ck_err *err)
{
    struct life *l = &b->life;
    struct reply_to to = l->to;
    char text[256];
    snprintf(text, sizeof text,
             "\"layer\":\"%s\",\"bytes\":%" PRIu64 ",\"disk_bytes\":%" PRIu64 ",\"stall_us\":%" PRId64, l->layer,
             l->made.info.ram.bytes + l->made.info.state.bytes, l->made.info.disk.bytes, l->made.stall_us);
    bool rolled_back = l->op == BR_LIFE_ROLLBACK;
    l->op = BR_LIFE_NONE;
    if (b->state == BR_CLOSING)
        return;
    if (err) {
        ck_log(CK_LOG_WARN, "bridge", "life_failed id=%s layer=%s reason=%s", b->conf.id, l->layer, err->reason);
        svc_reply_error(b->svc, to, err);
    } else if (rolled_back) {
        svc_reply_ok(b->svc, to);
    } else {
        ck_log(CK_LOG_INFO, "bridge", "layer id=%s layer=%s bytes=%" PRIu64 " stall_us=%" PRId64 " total_us=%" PRId64,
               b->conf.id, l->layer, l->made.info.ram.bytes, l->made.stall_us, l->made.total_us);
        svc_reply(b->svc, to, ck_slice_str(text), NULL, 0);
    }
}

// What the guest of this moment will answer to.
static void note_frozen(const struct bridge *b, struct frozen *f)
{
    memset(f, 0, sizeof *f);
    memcpy(f->agent_key, ac_key(b->ac), sizeof f->agent_key);
    f->agent_n = ac_number(b->ac);
    snprintf(f->kernel_key, sizeof f->kernel_key, "%s", kc_key(b->kc));
    snprintf(f->kernel_identity, sizeof f->kernel_identity, "%s", kc_identity(b->kc));
    snprintf(f->kernel_session, sizeof f->kernel_session, "%s", b->kernel_session);
    snprintf(f->own_session, sizeof f->own_session, "%s", b->own_session);
    snprintf(f->seen, sizeof f->seen, "%s", b->seen);
    snprintf(f->machine_id, sizeof f->machine_id, "%s", b->machine_id);
    snprintf(f->cwd, sizeof f->cwd, "%s", b->kernel_cwd);
    f->kernel_pid = b->kernel_pid;
    f->execution_count = b->execution_count;
    f->busy = trk_busy(b->trk);
    f->asks = b->asks;
    f->env = b->kernel_env ? strdup(b->kernel_env) : NULL;
}

// ---- the layer --------------------------------------------------------------------------------

static void layer_ends(struct bridge *b, const struct ck_err *err)
{
    if (b->life.op == BR_LIFE_PAUSE)
        br_pause_frozen(b, err);
    else
        br_life_end(b, err);
}

// The VM stands still: session.json.
static int describe(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err)
{
    struct bridge *b = user;
    struct frozen f;
    (void)m;
    if (b->state != BR_PAUSING && !br_kernel_ready(b))
        return ck_fail(err, 409, "session_starting", "the kernel ended while the layer was taken; try again");
    note_frozen(b, &f);
    int rc = frozen_print(&f, out);
    frozen_free(&f);
    return rc ? ck_fail(err, 500, "no_memory", "no memory for a layer") : 0;
}

static void made(const struct ck_checkpoint *c, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    if (b->life.op == BR_LIFE_NONE)
        return;
    if (!err)
        b->life.made = *c;
    layer_ends(b, err);
}

void br_life_freeze(struct bridge *b)
{
    char dir[PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    bool pause = b->life.op == BR_LIFE_PAUSE;
    struct ck_checkpoint_opts o = {.dir = dir, .id = b->life.layer, .stay = pause, .session = describe};
    if (!ck_path(dir, sizeof dir, &err, "%s/layers", b->conf.dir)) {
        if (mkdir(dir, 0755) && errno != EEXIST)
            ck_fail_errno(&err, errno, 500, "cannot_write", "cannot create %s", dir);
        else if (!ck_machine_checkpoint(b->machine, &o, NULL, made, b, &err))
            return;
    }
    layer_ends(b, &err);
}

int br_checkpoint(struct bridge *b, struct reply_to to, const char *layer, struct ck_err *err)
{
    if (br_life_may(b, err))
        return -1;
    b->life.op = BR_LIFE_CHECKPOINT;
    b->life.to = to;
    snprintf(b->life.layer, sizeof b->life.layer, "%s", layer);
    br_life_freeze(b);
    return 0;
}

void br_life_close(struct bridge *b)
{
    uv_close((uv_handle_t *)&b->life.turn, NULL);
    uv_close((uv_handle_t *)&b->life.deadline, NULL);
    ck_machine_close(b->life.next, NULL, NULL);
    b->life.next = NULL;
}
