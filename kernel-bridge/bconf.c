// Configuration parsing. Written by our own gateway, checked all the same: a wrong path or number is
// one clear line at the start and not a riddle later.
#include "kernel-bridge/bconf.h"

#include "common/ck_clean.h"
#include "common/ck_jailnames.h"
#include "common/ck_json.h"
#include "vmm/cpu_share.h"
#include "vmm/jail.h"

static const struct blimits defaults = {
    .log_bytes = 64u << 20,
    .cell_ms = 0,
    .command_ms = 30000,
    .kernel_start_ms = 120000,
    .output_bytes = 10u << 20,
    .message_bytes = 104u << 20,
    .artifact_max = 200,
    .artifact_bytes = INT64_MAX,
    .queue_max = 64,
    .pids = 256,
    .open_files = 65536,
    .cpu_weight = CK_CPU_WEIGHT_MAX,
};

static int64_t limit(const json_t *o, const char *key, int64_t now, int64_t min, int64_t max, struct ck_err *err)
{
    int64_t v = ck_json_int(o, key, now, err);
    if (!err->status && (v < min || v > max))
        ck_fail(err, 400, "bad_limit", "limit \"%s\" must be %lld to %lld", key, (long long)min, (long long)max);
    return v;
}

int blimits_apply(struct blimits *l, const json_t *o, struct ck_err *err)
{
    struct blimits n = *l;
    struct ck_err e = CK_ERR_INIT;
    n.log_bytes = (uint64_t)limit(o, "log_bytes", (int64_t)l->log_bytes, 64 << 10, 4LL << 30, &e);
    n.cell_ms = limit(o, "cell_ms", l->cell_ms, 0, 7LL * 24 * 3600 * 1000, &e);
    n.command_ms = limit(o, "command_ms", l->command_ms, 0, 7LL * 24 * 3600 * 1000, &e);
    n.kernel_start_ms = limit(o, "kernel_start_ms", l->kernel_start_ms, 1000, 3600LL * 1000, &e);
    // Six times as much as JSON at worst, and a finished cell must fit into a frame (CK_FRAME_BODY_MAX). So
    // must a message with its event's header.
    n.output_bytes = (uint64_t)limit(o, "output_bytes", (int64_t)l->output_bytes, 4 << 10, 20 << 20, &e);
    n.message_bytes = (uint64_t)limit(o, "message_bytes", (int64_t)l->message_bytes, 4 << 10, 128 << 20, &e);
    n.artifact_max = (unsigned)limit(o, "artifact_max", l->artifact_max, 0, 200, &e);
    n.artifact_bytes = (uint64_t)limit(o, "artifact_bytes", (int64_t)l->artifact_bytes, 0, INT64_MAX, &e);
    n.cell_max_ms = limit(o, "cell_max_ms", l->cell_max_ms, 0, 7LL * 24 * 3600 * 1000, &e);
    n.command_max_ms = limit(o, "command_max_ms", l->command_max_ms, 0, 7LL * 24 * 3600 * 1000, &e);
    n.pids = (unsigned)limit(o, "pids", l->pids, 32, 4096, &e);
    n.open_files = (unsigned)limit(o, "open_files", l->open_files, 256, 65536, &e);
    n.disk_bytes = (uint64_t)limit(o, "disk_bytes", (int64_t)l->disk_bytes, 0, INT64_MAX, &e);
    n.cpu_weight = (unsigned)limit(o, "cpu_weight", l->cpu_weight, 1, CK_CPU_WEIGHT_MAX, &e);
    n.queue_max = (unsigned)limit(o, "queue_max", l->queue_max, 1, 4096, &e);
    if (e.status) {
        *err = e;
        return -1;
    }
    *l = n;
    return 0;
}

static void path(const json_t *o, const char *key, char *out, struct ck_err *err)
{
    const char *s = ck_json_str(o, key, "", err);
    if (!err->status && ((*s && *s != '/') || strlen(s) >= PATH_MAX))
        ck_fail(err, 500, "bad_config", "bridge configuration: \"%s\" must be an absolute path", key);
    else
        snprintf(out, PATH_MAX, "%s", s);
}

static void jail_steps(const json_t *o, const char *key, uint32_t *out, struct ck_err *err)
{
    const json_t *list = json_object_get(o, key);
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        int step = json_is_string(v) ? ck_jail_name_index(json_string_value(v), json_string_length(v)) : -1;
        if (step < 0) {
            ck_fail(err, 500, "bad_config", "bridge configuration: \"%s\" names a jail step that does not exist", key);
            return;
        }
        *out |= CK_JAIL_BIT(step);
    }
}

static void restore(const json_t *o, struct bconf *out, struct ck_err *err)
{
    const json_t *r = ck_json_obj(o, "restore", err);
    if (err->status || !r)
        return;
    const char *layer = ck_json_str(r, "layer", "", err), *mode = ck_json_str(r, "mode", "", err);
    if (err->status)
        return;
    out->restore = !strcmp(mode, "resume") ? BCONF_RESUME : !strcmp(mode, "fork") ? BCONF_FORK : BCONF_TEMPLATE;
    if (!ck_uuid_valid(layer) || out->restore == BCONF_TEMPLATE || out->pool || out->spare)
        ck_fail(err, 500, "bad_config",
                "bridge configuration: \"restore\" needs the UUID of a layer and mode resume or fork, and "
                "\"pool\" and \"spare\" must be false");
    else
        snprintf(out->layer, sizeof out->layer, "%s", layer);
}

int bconf_parse(const void *p, size_t n, struct bconf *out, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *o = ck_json_parse_object(p, n, false, err);
    struct ck_err e = CK_ERR_INIT;
    *out = (struct bconf){.limits = defaults};
    if (!o)
        return ck_wrap(err, "bridge configuration");
    const char *id = ck_json_str(o, "id", "", &e), *accel = ck_json_str(o, "accelerator", "", &e);
    path(o, "dir", out->dir, &e);
    path(o, "template_dir", out->template_dir, &e);
    path(o, "image_dir", out->image_dir, &e);
    path(o, "qemu", out->qemu, &e);
    out->memory_mb = ck_json_int(o, "memory_mb", 0, &e);
    out->uid = (uid_t)ck_json_int(o, "uid", 0, &e);
    out->gid = (gid_t)ck_json_int(o, "gid", 0, &e);
    out->pool = ck_json_bool(o, "pool", false, &e);
    out->spare = ck_json_bool(o, "spare", false, &e);
    restore(o, out, &e);
    jail_steps(o, "jail_required", &out->jail_required, &e);
    jail_steps(o, "jail_skip", &out->jail_skip, &e);
    if (!e.status &&
        (!ck_uuid_valid(id) || !out->dir[0] || !out->template_dir[0] || strlen(accel) >= sizeof out->accelerator))
        ck_fail(&e, 500, "bad_config",
                "bridge configuration: id, dir, template_dir or accelerator is missing or malformed");
    if (!e.status)
        blimits_apply(&out->limits, ck_json_obj(o, "limits", &e), &e);
    if (e.status) {
        *err = e;
        return -1;
    }
    snprintf(out->id, sizeof out->id, "%s", id);
    snprintf(out->accelerator, sizeof out->accelerator, "%s", accel);
    return 0;
}

int bconf_begin(const void *p, size_t n, struct bconf *c, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *o = ck_json_parse_object(p, n, false, err);
    struct bconf next = *c;
    struct ck_err e = CK_ERR_INIT;
    if (!o)
        return ck_wrap(err, "what a spare becomes");
    const char *id = ck_json_str(o, "id", "", &e);
    next.spare = false;
    next.pool = ck_json_bool(o, "pool", false, &e);
    restore(o, &next, &e);
    if (!e.status)
        blimits_apply(&next.limits, ck_json_obj(o, "limits", &e), &e);
    if (!e.status && !ck_uuid_valid(id))
        ck_fail(&e, 500, "bad_config", "what a spare becomes: id is missing or malformed");
    if (e.status) {
        *err = e;
        return -1;
    }
    snprintf(next.id, sizeof next.id, "%s", id);
    *c = next;
    return 0;
}
