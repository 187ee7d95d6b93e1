// `cellkeep template build` and `cellkeep template ensure --json` (what serve runs before it is ready).
#include "vmm/cmds.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "vmm/cache.h"
#include "vmm/cmd_opts.h"
#include "vmm/template.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: cellkeep template build|ensure [options]\n"
    "\n"
    "Boots the guest image once, warms it up and saves it; sessions start from that. Does nothing when a\n"
    "good template for this image, QEMU, accelerator and memory size exists.\n"
    "\n"
    "  --cache-dir DIR   where images and templates live (CELLKEEP_CACHE_DIR)\n"
    "  --accel A         auto, kvm or tcg (CELLKEEP_ACCEL)\n"
    "  --memory-mb N     memory of a session, default 512 (CELLKEEP_MEMORY_MB)\n"
    "  --image DIR       the image's folder; default: the one last built\n"
    "  --qemu PATH       QEMU's executable (CELLKEEP_QEMU)\n"
    "  --rebuild         even when a good one exists\n"
    "  --json            print one JSON line for programs\n";

static int print_json(const struct ck_template *t, const struct ck_accel_choice *c)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j =
        json_pack("{s:s, s:s, s:s, s:{s:s, s:s}, s:i}", "dir", t->dir, "hash", t->hash, "image_dir", t->image_dir,
                  "accelerator", "name", ck_vm_accel_name(c->accel), "reason", c->reason, "memory_mb", (int)t->memory_mb);
    if (!j || ck_json_dump(j, &b))
        return 1;
    printf("%.*s\n", (int)b.n, (const char *)b.p);
    return 0;
}

// For the gateway, which tells its user in its own name.
static int fail_json(const struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = json_pack("{s:{s:s,s:s}}", "error", "reason", err->reason, "message", err->text);
    if (j && !ck_json_dump(j, &b))
        printf("%.*s\n", (int)b.n, (const char *)b.p);
    return 1;
}

int ck_cmd_template(int argc, char **argv)
{
    struct ck_cmd_opts o;
    struct ck_err err = CK_ERR_INIT;
    const char *words[1];
    ck_log_set_level(CK_LOG_WARN); // what matters is said by the command itself
    int n, bad = ck_cmd_opts_parse(argc, argv, &o, words, 1, &n, &err);
    if (!bad && o.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (bad || n != 1 || (strcmp(words[0], "build") && strcmp(words[0], "ensure"))) {
        fprintf(stderr, "cellkeep template: %s\n%s", bad ? err.text : "say build or ensure", usage);
        return 2;
    }
    struct ck_template_opts to = {.cache_dir = o.cache_dir, .image_dir = o.image, .qemu = o.qemu, .accel = o.accel,
                                  .memory_mb = o.memory_mb, .rebuild = o.rebuild};
    struct ck_cmd_progress progress = {.last = -2};
    struct ck_template t;
    struct ck_accel_choice choice;
    int64_t t0 = ck_mono_ms();
    if (ck_template_ensure(&to, ck_cmd_progress, &progress, &t, &choice, &err))
        return o.json ? fail_json(&err) : ck_cmd_fail("template", &err);
    fprintf(stderr, "template: %s (%s) ready after %.1f s\n", t.hash, ck_vm_accel_name(choice.accel),
            (double)(ck_mono_ms() - t0) / 1000);
    if (o.state_given && ck_cache_register(o.cache_dir, o.state_dir, &err))
        fprintf(stderr, "template: the cache cannot be told who uses it: %s\n", err.text);
    if (!strcmp(words[0], "build"))
        ck_cmd_prune("template", o.cache_dir);
    if (o.json)
        return print_json(&t, &choice);
    printf("%s\n", t.dir);
    return 0;
}
