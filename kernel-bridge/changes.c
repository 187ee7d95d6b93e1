// What an execution left behind: changed files and resource usage, asked of the agent. Bounded by a
// deadline: an agent that does not answer costs a cell its artifacts, never its ending.
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/artifacts.h"
#include "kernel-bridge/bridge.h"

#include <stdlib.h>

#define REPORTED_MS 980 // after a cell's time was up

// What cannot be is not believed; it is the guest that says all this.
static void measure(int64_t *value, const json_t *o, const char *key)
{
    int64_t said = ck_json_int(o, key, *value, NULL);
    if (said >= 0 && said < (int64_t)1 << 53)
        *value = said;
}

void br_usage_read(struct usage *u, const json_t *o)
{
    measure(&u->cpu_ms, o, "cpu_ms");
    measure(&u->memory_bytes, o, "memory_bytes");
    measure(&u->peak_memory_bytes, o, "peak_memory_bytes");
    measure(&u->recent_peak_bytes, o, "recent_peak_memory_bytes");
    measure(&u->disk_bytes, o, "disk_bytes");
    measure(&u->disk_free_bytes, o, "disk_free_bytes");
    measure(&u->pids_refused, o, "pids_refused");
}

void br_artifact_events(struct bridge *b, const char *cell, const struct artifacts *a)
{
    for (unsigned i = 0; i < a->n; i++) {
        struct ev_tag tag = {.kind = EV_ARTIFACT, .class = EV_OTHER, .cell = cell, .session = ""};
        br_append(b, &tag, evb_artifact(evlog_next(b->log), ck_wall_us() / 1000, cell, ck_buf_slice(&a->json[i])));
    }
}

static void usage_answer(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)payload;
    if (!err)
        br_usage_read(&b->usage, answer);
}

void br_usage_refresh(struct bridge *b)
{
    struct ck_err err = CK_ERR_INIT;
    if (ac_request(b->ac, json_pack("{s:s}", "op", "usage"), ck_slice("", 0), BR_AGENT_MS, usage_answer, b, &err) < 0)
        ck_log(CK_LOG_WARN, "bridge", "usage_failed reason=%s", err.reason);
}

static void read_usage(struct bridge *b, const json_t *answer)
{
    const json_t *usage = json_object_get(answer, "usage");
    b->usage_in_changes = usage != NULL;
    br_usage_read(&b->usage, usage);
}

static struct artifacts *read_artifacts(struct bridge *b, const json_t *answer, const char *url_prefix)
{
    struct artifacts *a = calloc(1, sizeof *a);
    struct artifacts_for f = {b->conf.id, url_prefix, &b->written, b->conf.limits.artifact_max,
                              (int64_t)b->conf.limits.artifact_bytes};
    if (a)
        artifacts_read(answer, &f, a);
    return a;
}

// An agent whose answers to `changes` carry no usage is asked for it just before: it answers in order.
static int ask(struct bridge *b, ac_answer_cb cb, void *user, struct ck_err *err)
{
    b->client_wrote = false;
    if (!b->usage_in_changes)
        br_usage_refresh(b);
    int64_t id = ac_request(b->ac, json_pack("{s:s}", "op", "changes"), ck_slice("", 0), BR_AGENT_MS, cb, user, err);
    return id < 0 ? -1 : 0;
}

static void maybe_finish(struct bridge *b)
{
    const struct trk_cell *c = trk_active(b->trk);
    struct artifacts none = {.n = 0}, *found = b->found;
    if (!c || c->phase != TRK_CLOSING || !b->closing.changes_done)
        return;
    b->found = NULL;
    br_cell_finish(b, found ? found : &none);
    if (found)
        artifacts_free(found);
    free(found);
}

struct cell_look {
    struct bridge *b;
    char id[CK_UUID_MAX], url_prefix[TRK_URL_PREFIX_MAX];
};

static void cell_changes(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct cell_look *w = user;
    struct bridge *b = w->b;
    const struct trk_cell *c = trk_active(b->trk);
    struct artifacts *found = NULL;
    (void)payload;
    if (err) {
        ck_log(CK_LOG_WARN, "bridge", "changes_failed cell=%s reason=%s", w->id, err->reason);
    } else {
        read_usage(b, answer);
        found = read_artifacts(b, answer, w->url_prefix);
    }
    if (c && !strcmp(c->id, w->id) && b->closing.changes_asked && !b->closing.changes_done) {
        b->found = found;
        b->closing.changes_done = true;
        b->changes_until = 0;
        maybe_finish(b);
    } else if (found) { // the cell did not wait for it
        br_artifact_events(b, w->id, found);
        artifacts_free(found);
        free(found);
    }
    free(w);
}

static int ask_for_cell(struct bridge *b, const struct trk_cell *c)
{
    struct ck_err err = CK_ERR_INIT;
    struct cell_look *w = malloc(sizeof *w);
    if (!w)
        return -1;
    w->b = b;
    memcpy(w->id, c->id, sizeof w->id);
    memcpy(w->url_prefix, c->url_prefix, sizeof w->url_prefix);
    if (!ask(b, cell_changes, w, &err))
        return 0;
    free(w);
    return -1;
}

void br_changes_for_cell(struct bridge *b)
{
    const struct trk_cell *c = trk_active(b->trk);
    if (c && !b->closing.changes_asked) {
        b->closing.changes_asked = true;
        b->closing.changes_done = ask_for_cell(b, c) != 0;
        // Whoever set a time hears within a second after it, however slow the agent is.
        if (!b->closing.changes_done && end_begun(&c->ending) && c->ending.why == END_TIMEOUT) {
            int64_t now = ck_mono_ms(), latest = c->ending.due + REPORTED_MS;
            b->changes_until = latest > now ? latest : now + 1;
            br_retime(b);
        }
    }
    maybe_finish(b);
}

void br_changes_give_up(struct bridge *b)
{
    b->changes_until = 0;
    b->closing.changes_done = true;
    maybe_finish(b);
}

static void jupyter_changes(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)payload;
    b->jupyter_changes = false;
    if (!err) {
        read_usage(b, answer);
        struct artifacts *a = read_artifacts(b, answer, "");
        if (a) {
            br_artifact_events(b, "", a);
            artifacts_free(a);
        }
        free(a);
    }
    if (b->jupyter_changes_again && b->state == BR_READY)
        br_changes_for_jupyter(b);
    br_cells_dispatch(b); // the next cell waited, so that it is not given these files
}

void br_client_wrote(struct bridge *b, const char *path, const json_t *answer)
{
    const json_t *stat = ck_json_obj(answer, "stat", NULL);
    written_add(&b->written, path, ck_json_int(stat, "size", -1, NULL), ck_json_int(stat, "mtime_ns", -1, NULL));
    b->client_wrote = true;
}

void br_changes_for_jupyter(struct bridge *b)
{
    const struct trk_cell *c = trk_active(b->trk);
    struct ck_err err = CK_ERR_INIT;
    if (c && c->phase != TRK_SENT)
        return; // the files of this moment are that cell's to report
    b->jupyter_changes_again = b->jupyter_changes;
    if (!b->jupyter_changes)
        b->jupyter_changes = !ask(b, jupyter_changes, b, &err);
}

struct command_changes {
    struct bridge *b;
    br_changes_cb done;
    void *user;
    char url_prefix[TRK_URL_PREFIX_MAX];
};

static void command_changes(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct command_changes *w = user;
    if (!err)
        read_usage(w->b, answer);
    struct artifacts *a = err ? NULL : read_artifacts(w->b, answer, w->url_prefix);
    CK_CLEAN_BUF struct ck_buf list = CK_BUF_INIT;
    (void)payload;
    if (a) {
        br_artifact_events(w->b, "", a);
        artifacts_array(a, &list);
    }
    w->done(w->user, list.n ? ck_buf_slice(&list) : ck_slice_str("[]"), a ? a->total : 0);
    if (a)
        artifacts_free(a);
    free(a);
    free(w);
}

void br_changes_for_command(struct bridge *b, const char *url_prefix, br_changes_cb done, void *user)
{
    struct ck_err err = CK_ERR_INIT;
    // While a cell runs, what changed cannot be told apart and is the cell's to report.
    struct command_changes *w = trk_active(b->trk) ? NULL : calloc(1, sizeof *w);
    if (w) {
        *w = (struct command_changes){.b = b, .done = done, .user = user};
        snprintf(w->url_prefix, sizeof w->url_prefix, "%s", url_prefix);
        if (!ask(b, command_changes, w, &err))
            return;
    }
    free(w);
    done(user, ck_slice_str("[]"), 0);
}
