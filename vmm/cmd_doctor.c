// `cellkeep doctor`: prints what doctor.c found out, for people and as JSON.
#include "vmm/cmds.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "vmm/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] = "usage: cellkeep doctor [options]\n"
                            "\n"
                            "Says whether a session could be started here, and what would be better. Exit code 0 when it could,\n"
                            "1 when not (with the one command that would mend it).\n"
                            "\n"
                            "  --cache-dir DIR   where images and templates live (CELLKEEP_CACHE_DIR)\n"
                            "  --state-dir DIR   where sessions live (CELLKEEP_STATE_DIR)\n"
                            "  --accel A         auto, kvm or tcg (CELLKEEP_ACCEL)\n"
                            "  --memory-mb N     memory of a session (CELLKEEP_MEMORY_MB)\n"
                            "  --image DIR, --qemu PATH\n"
                            "  --json            for programs\n";

static void age(int64_t since_s, char out[32])
{
    int64_t s = (int64_t)time(NULL) - since_s;
    if (s < 120)
        snprintf(out, 32, "%lld s old", (long long)(s < 0 ? 0 : s));
    else if (s < 7200)
        snprintf(out, 32, "%lld min old", (long long)(s / 60));
    else if (s < 172800)
        snprintf(out, 32, "%lld h old", (long long)(s / 3600));
    else
        snprintf(out, 32, "%lld days old", (long long)(s / 86400));
}

static void row(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%-14s", name);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

static void print_folder(const char *name, const struct ck_doctor_folder *f)
{
    char size[32];
    ck_cmd_size(f->free_bytes, size);
    row(name, "%s (%s%s free)", f->path, f->usable ? "" : "NOT WRITABLE, ", f->free_bytes == UINT64_MAX ? "unknown" : size);
}

static void print_guest(const struct ck_doctor *d)
{
    char size[32], old[32];
    if (d->qemu_err.status)
        row("qemu", "MISSING: %s", d->qemu_err.text);
    else
        row("qemu", "%s, %s", d->qemu.version, d->qemu.path);
    if (d->image_err.status) {
        row("image", "MISSING: %s", d->image_err.text);
    } else {
        ck_cmd_size(d->image.root_bytes, size);
        age(d->image.built_s, old);
        row("image", "%s (%s, %s)", d->image.hash, size, old);
    }
    if (d->accel_known)
        row("accelerator", "%s: %s", ck_vm_accel_name(d->accel.accel), d->accel.reason);
    else
        row("accelerator", "not known: %s", d->template_err.status ? d->template_err.text : "needs QEMU and an image");
    if (d->have_template) {
        ck_cmd_size(d->ram_disk_bytes, size);
        age(d->t.created_us / 1000000, old);
        row("template", "%s (%u MiB memory, %s on disk, %s)", d->t.hash, d->t.memory_mb, size, old);
    } else {
        row("template", "NONE%s%s", d->template_err.status ? ": " : "", d->template_err.text);
    }
}

static void print_limit(uint64_t v, char out[32])
{
    if (v == UINT64_MAX)
        snprintf(out, 32, "no limit");
    else
        snprintf(out, 32, "%llu", (unsigned long long)v);
}

static void print_host(const struct ck_doctor *d)
{
    char total[32], avail[32], nofile[32], nproc[32];
    ck_cmd_size(d->memory_total, total);
    ck_cmd_size(d->memory_available, avail);
    print_limit(d->nofile, nofile);
    print_limit(d->nproc, nproc);
    row("host", "%d CPUs, %s memory, %s available", d->cpus, total, avail);
    row("limits", "open files %s, processes %s, ptrace_scope %s", nofile, nproc,
        d->ptrace_scope < 0 ? "none" : d->ptrace_scope == 0 ? "0" : d->ptrace_scope == 1 ? "1" : "2 or more");
}

static void print_text(const struct ck_doctor *d)
{
    row("cellkeep", "%s", CK_VERSION);
    print_guest(d);
    print_folder("state folder", &d->state);
    print_folder("cache folder", &d->cache);
    print_host(d);
    if (d->jail_err.status)
        row("jail", "%s", d->jail_err.text);
    for (int i = 0; !d->jail_err.status && i < CK_JAIL_STEPS; i++)
        printf("%-14s%-14s%-12s%s\n", i ? "" : "jail", ck_jail_step_name((enum ck_jail_step)i),
               ck_jail_result_name(d->jail.step[i].result), d->jail.step[i].reason);
    if (!d->jail_err.status && d->jail.layers)
        row("layers", "sessions can be paused, checkpointed and forked");
    else if (!d->jail_err.status)
        row("layers", "sessions cannot be paused, checkpointed or forked here: %s", d->jail.layers_reason);
    if (!d->jail_err.status && !ck_jail_applied(&d->jail, CK_JAIL_NET_NS))
        row("warning", "without net_ns the kernels' ports are open to every user of this host");
    row("verdict", "%s", d->ok ? "a session can be started" : d->fix);
}

// ---- JSON -------------------------------------------------------------------------------------

static json_t *error_or(const struct ck_err *e, json_t *fine)
{
    if (!e->status)
        return fine;
    json_decref(fine);
    return json_pack("{s:s, s:s}", "reason", e->reason, "message", e->text);
}

static json_t *folder_json(const struct ck_doctor_folder *f)
{
    return json_pack("{s:s, s:b, s:I}", "path", f->path, "usable", f->usable, "free_bytes",
                     f->free_bytes == UINT64_MAX ? (json_int_t)-1 : (json_int_t)f->free_bytes);
}

static json_t *jail_json(const struct ck_doctor *d)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    json_t *j = ck_jail_report_json(&d->jail, &b) ? NULL : ck_json_parse_object(b.p, b.n, false, NULL);
    return error_or(&d->jail_err, j ? j : json_null());
}

static json_t *layers_json(const struct ck_doctor *d)
{
    return error_or(&d->jail_err, json_pack("{s:b, s:s}", "usable", d->jail.layers, "reason", d->jail.layers_reason));
}

static json_int_t limit_json(uint64_t v) { return v > INT64_MAX ? -1 : (json_int_t)v; }

static int print_json(const struct ck_doctor *d)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = json_pack(
        "{s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", CK_VERSION, "ok", d->ok, "fix", d->fix,
        "accelerator",
        d->accel_known ? json_pack("{s:s, s:s}", "name", ck_vm_accel_name(d->accel.accel), "reason", d->accel.reason)
                       : json_null(),
        "qemu", error_or(&d->qemu_err, json_pack("{s:s, s:s}", "version", d->qemu.version, "path", d->qemu.path)), "image",
        error_or(&d->image_err, json_pack("{s:s, s:s, s:I}", "hash", d->image.hash, "dir", d->image.dir, "bytes",
                                          (json_int_t)d->image.root_bytes)),
        "template",
        error_or(&d->template_err, json_pack("{s:s, s:s, s:i, s:I, s:I}", "hash", d->t.hash, "dir", d->t.dir, "memory_mb",
                                             (int)d->t.memory_mb, "disk_bytes", (json_int_t)d->ram_disk_bytes, "created_us",
                                             (json_int_t)d->t.created_us)),
        "state", folder_json(&d->state), "cache", folder_json(&d->cache), "host",
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:i}", "cpus", d->cpus, "memory_bytes", (json_int_t)d->memory_total,
                  "memory_available_bytes", (json_int_t)d->memory_available, "open_files", limit_json(d->nofile),
                  "processes", limit_json(d->nproc), "ptrace_scope", d->ptrace_scope),
        "jail", jail_json(d), "layers", layers_json(d));
    if (!j || ck_json_dump(j, &b))
        return -1;
    printf("%.*s\n", (int)b.n, (const char *)b.p);
    return 0;
}

int ck_cmd_doctor(int argc, char **argv)
{
    struct ck_cmd_opts o;
    struct ck_err err = CK_ERR_INIT;
    const char *words[1];
    ck_log_set_level(CK_LOG_WARN); // what matters is said by the command itself
    int n, bad = ck_cmd_opts_parse(argc, argv, &o, words, 0, &n, &err);
    if (!bad && o.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (bad) {
        fprintf(stderr, "cellkeep doctor: %s\n%s", err.text, usage);
        return 2;
    }
    CK_CLEAN_FREE struct ck_doctor *d = malloc(sizeof *d);
    struct ck_cmd_progress progress = {.last = -2};
    if (!d)
        return 1;
    ck_doctor_run(&o, ck_cmd_progress, &progress, d);
    if (o.json && print_json(d))
        return 1;
    if (!o.json)
        print_text(d);
    return d->ok ? 0 : 1;
}
