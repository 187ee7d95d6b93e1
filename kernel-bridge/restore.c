// What a session begins from when it is not the template: a layer, and for a resumed one the history.
// Only reads and fills in; setup.c does the rest. Whatever does not fit is refused here, before a VM
// exists. Must never remove what a paused session needs while it does not run.
#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/history_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define HISTORY_BEYOND_LOG (256ull << 20) // the newest event, the book of cells, the index

int br_restore_open(const char *dir, const char *layer, const struct ck_template *t, struct ck_layer *out,
                    struct frozen *frozen, struct ck_err *err)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_path(path, sizeof path, err, "%s/layers", dir) || ck_layer_open(path, layer, out, err))
        return -1;
    int rc = ck_layer_check(&out->info, t, err) ||
                     ck_path(path, sizeof path, err, "%s/layers/%s/session.json", dir, layer) ||
                     ck_read_file(path, FROZEN_BYTES_MAX, &text, err) || frozen_parse(text.p, text.n, frozen, err)
                 ? -1
                 : 0;
    if (text.n)
        explicit_bzero(text.p, text.n);
    if (rc)
        ck_layer_close(out);
    return rc;
}

static void read_written(struct bridge *b, const json_t *list)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        if (i == WRITTEN_MAX)
            return;
        b->written.key[i] = (uint64_t)json_integer_value(v);
        b->written.next = (i + 1) % WRITTEN_MAX;
    }
}

static int read_history(struct bridge *b, struct ck_err *err)
{
    struct history h = {b->log, b->cons, &b->book};
    struct ck_slice meta;
    struct ck_err e = CK_ERR_INIT;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    if (hist_read(b->conf.dir, b->conf.limits.log_bytes + HISTORY_BEYOND_LOG, &bytes, err) ||
        hist_decode(ck_buf_slice(&bytes), &h, &meta, err))
        return -1;
    CK_CLEAN_JSON json_t *o = ck_json_parse_object(meta.p, meta.n, false, err);
    if (!o)
        return ck_wrap(err, "the session's saved history");
    const char *seen = ck_json_str(o, "seen", "", &e);
    if (!e.status && strlen(seen) < sizeof b->frozen.seen)
        memcpy(b->frozen.seen, seen, strlen(seen) + 1); // later than the layer's: nothing is said twice
    br_usage_read(&b->usage, ck_json_obj(o, "usage", &e));
    br_account_read(b, ck_json_obj(o, "account", &e));
    b->usage_in_changes = ck_json_bool(o, "usage_in_changes", false, &e);
    b->client_wrote = ck_json_bool(o, "client_wrote", false, &e);
    b->last_activity_us = ck_json_int(o, "last_activity_us", b->last_activity_us, &e);
    read_written(b, json_object_get(o, "written"));
    if (e.status)
        *err = e;
    return e.status ? ck_wrap(err, "the session's saved history") : 0;
}

int br_restore_begin(struct bridge *b, struct ck_err *err)
{
    struct frozen *f = &b->frozen;
    if (b->conf.restore == BCONF_TEMPLATE)
        return 0;
    if (br_restore_open(b->conf.dir, b->conf.layer, &b->template, &b->layer, f, err))
        return -1;
    b->origin = b->conf.restore == BCONF_RESUME ? BR_OF_PAUSE : BR_OF_FORK;
    b->kernel_env = f->env;
    f->env = NULL; // ours now
    memcpy(b->kernel_cwd, f->cwd, sizeof b->kernel_cwd);
    b->execution_count = f->execution_count;
    if (b->origin == BR_OF_FORK)
        return 0;
    memcpy(b->own_session, f->own_session, sizeof b->own_session);
    memcpy(b->kernel_session, f->kernel_session, sizeof b->kernel_session);
    return read_history(b, err);
}

void br_restore_done(struct bridge *b)
{
    if (b->origin == BR_OF_PAUSE)
        hist_remove(b->conf.dir);
}

void br_restore_sweep(const char *disk)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    const char *name = strrchr(disk, '/') + 1;
    size_t n = strlen(name);
    snprintf(dir, sizeof dir, "%.*s", (int)(name - disk), disk);
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, name, n) && (!e->d_name[n] || e->d_name[n] == '.')) {
            snprintf(path, sizeof path, "%s%s", dir, e->d_name);
            if (unlink(path))
                ck_log(CK_LOG_WARN, "bridge", "not_removed file=%s errno=%d", e->d_name, errno);
        }
    if (d)
        closedir(d);
}
