// `cellkeep template build`, its names, and `cellkeep template ensure --json` (what serve runs before it is ready).
#include "vmm/cmds.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "vmm/cache.h"
#include "vmm/cmd_opts.h"
#include "vmm/image.h"
#include "vmm/named.h"
#include "vmm/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: cellkeep template build|ensure|list|remove [options]\n"
    "\n"
    "Boots the guest image once, warms it up and saves it; sessions start from that. Does nothing when a\n"
    "good template for this image, QEMU, accelerator and memory size exists. With a name it stands beside\n"
    "the default one, and a session asks for it by \"template\" and \"memory_mb\"; several sizes may have\n"
    "one name. `list` prints name, memory, accelerator and folder of each, `remove` forgets a name.\n"
    "\n"
    "  --name NAME       1 to 64 of a-z, 0-9, - and _; needed for packages, warm-up or image of your own\n"
    "  --packages FILE   Debian packages, one a line, added to those of the default image (as root)\n"
    "  --warm-up FILE    Python that is run once in the template, as the user: what it imports is there in\n"
    "                    every kernel, what it writes to /home/user in every session\n"
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
        json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s}, s:i}", "dir", t->dir, "hash", t->hash, "image_dir", t->image_dir, "qemu", t->qemu,
                  "accelerator", "name", ck_vm_accel_name(c->accel), "reason", c->reason, "memory_mb", (int)t->memory_mb);
    if (!j || ck_json_dump(j, &b))
        return 1;
    printf("%.*s\n", (int)b.n, (const char *)b.p);
    return 0;
}

// For the gateway, which tells its user in its own name.
// Its reader may have been ended by the same Ctrl-C: that is said to the person too.
static int fail_json(const struct ck_err *err)
{
    if (!strcmp(err->reason, "interrupted"))
        fprintf(stderr, "template: %s\n", err->text);
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = json_pack("{s:{s:s,s:s}}", "error", "reason", err->reason, "message", err->text);
    if (j && !ck_json_dump(j, &b))
        printf("%.*s\n", (int)b.n, (const char *)b.p);
    return 1;
}

// What a name is needed for, and what it may be.
static int check_name(const struct ck_cmd_opts *o, struct ck_err *err)
{
    if (o->image && (o->packages || o->warm_up))
        return ck_fail(err, 400, "usage", "--image has its packages and warm-up already; give one or the other");
    if (!o->name && (o->packages || o->warm_up))
        return ck_fail(err, 400, "usage", "a template of packages or a warm-up of your own needs a name: say --name NAME");
    if (!o->name)
        return 0;
    if (!strcmp(o->name, CK_NAMED_DEFAULT))
        return ck_fail(err, 400, "usage", "\"" CK_NAMED_DEFAULT "\" is the template that serve makes; choose another --name");
    return ck_named_check(o->name, err);
}

static int make(const struct ck_cmd_opts *o, struct ck_template *t, struct ck_accel_choice *choice, struct ck_err *err)
{
    struct ck_template_opts to = {.cache_dir = o->cache_dir, .image_dir = o->image, .qemu = o->qemu, .accel = o->accel,
                                  .memory_mb = o->memory_mb, .rebuild = o->rebuild};
    struct ck_cmd_progress progress = {.last = -2};
    struct ck_image image;
    if (o->packages || o->warm_up) {
        if (ck_cmd_image_build(o, &image, err))
            return -1;
        to.image_dir = image.dir;
    }
    return ck_template_ensure(&to, ck_cmd_progress, &progress, t, choice, err);
}

// The default one is named too, so that sessions may ask for it in this size; that a cache cannot be
// written is no reason not to start from it.
static int give_name(const struct ck_cmd_opts *o, const struct ck_template *t, struct ck_err *err)
{
    struct ck_err quiet = CK_ERR_INIT;
    if (o->name)
        return ck_named_put(o->cache_dir, o->name, t, err);
    if (!o->image && ck_named_put(o->cache_dir, CK_NAMED_DEFAULT, t, &quiet))
        fprintf(stderr, "template: %s\n", quiet.text);
    return 0;
}

static int build(const struct ck_cmd_opts *o, bool prune)
{
    struct ck_template t;
    struct ck_accel_choice choice;
    struct ck_err err = CK_ERR_INIT;
    CK_CLEAN_FD int mark = -1;
    int64_t t0 = ck_mono_ms();
    unsigned memory = o->memory_mb ? o->memory_mb : CK_MEMORY_MB_DEFAULT;
    if ((o->name && ck_named_lock(o->cache_dir, o->name, memory, &mark, &err)) || make(o, &t, &choice, &err) ||
        give_name(o, &t, &err))
        return o->json ? fail_json(&err) : ck_cmd_fail("template", &err);
    fprintf(stderr, "template: %s (%s) ready after %.1f s\n", t.hash, ck_vm_accel_name(choice.accel),
            (double)(ck_mono_ms() - t0) / 1000);
    if (o->state_given && ck_cache_register(o->cache_dir, o->state_dir, &err))
        fprintf(stderr, "template: the cache cannot be told who uses it: %s\n", err.text);
    if (prune)
        ck_cmd_prune("template", o->cache_dir);
    if (o->json)
        return print_json(&t, &choice);
    printf("%s\n", t.dir);
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct ck_named *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : x->memory_mb != y->memory_mb ? (x->memory_mb < y->memory_mb ? -1 : 1) : strcmp(x->accel, y->accel);
}

static int list(const struct ck_cmd_opts *o)
{
    static struct ck_named all[CK_NAMED_LIST_MAX];
    struct ck_err err = CK_ERR_INIT;
    int n = ck_named_list(o->cache_dir, all, &err);
    if (n < 0)
        return ck_cmd_fail("template", &err);
    qsort(all, (size_t)n, sizeof *all, compare);
    for (int i = 0; i < n; i++)
        printf("%-20s %6u MiB  %s  %s/templates/%s%s\n", all[i].name, all[i].memory_mb, all[i].accel, o->cache_dir,
               all[i].template, all[i].built ? "" : " (gone: build it again)");
    return 0;
}

static int forget(const struct ck_cmd_opts *o)
{
    struct ck_err err = CK_ERR_INIT;
    return ck_named_remove(o->cache_dir, o->name, &err) ? ck_cmd_fail("template", &err) : 0;
}

int ck_cmd_template(int argc, char **argv)
{
    static const char *const known[] = {"build", "ensure", "list", "remove"};
    struct ck_cmd_opts o;
    struct ck_err err = CK_ERR_INIT;
    const char *words[1];
    ck_log_set_level(CK_LOG_WARN); // what matters is said by the command itself
    int n, verb = 0, bad = ck_cmd_opts_parse(argc, argv, &o, words, 1, &n, &err);
    if (!bad && o.help) {
        fputs(usage, stdout);
        return 0;
    }
    while (!bad && verb < 4 && (n != 1 || strcmp(words[0], known[verb]) != 0))
        verb++;
    if (!bad && verb == 4)
        bad = ck_fail(&err, 400, "usage", "say build, ensure, list or remove");
    if (!bad && verb == 3 && !o.name)
        bad = ck_fail(&err, 400, "usage", "say which: --name NAME");
    if (bad || check_name(&o, &err)) {
        fprintf(stderr, "cellkeep template: %s\n%s", err.text, usage);
        return 2;
    }
    return verb == 2 ? list(&o) : verb == 3 ? forget(&o) : build(&o, verb == 0);
}
