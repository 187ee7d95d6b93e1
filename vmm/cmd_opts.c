// Options and printing for the subcommands of this room.
#include "vmm/cmd_opts.h"

#include "common/ck_fs.h"
#include "vmm/cache.h"
#include "vmm/template.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// As the gateway's config_default_dir; the rooms do not know each other.
static int default_dir(bool cache, char out[PATH_MAX], struct ck_err *err)
{
    const char *given = getenv(cache ? "CELLKEEP_CACHE_DIR" : "CELLKEEP_STATE_DIR");
    const char *xdg = getenv(cache ? "XDG_CACHE_HOME" : "XDG_STATE_HOME"), *home = getenv("HOME");
    if (given && *given)
        return ck_path(out, PATH_MAX, err, "%s", given);
    if (geteuid() == 0)
        return ck_path(out, PATH_MAX, err, "%s", cache ? "/var/cache/cellkeep" : "/var/lib/cellkeep");
    if (xdg && *xdg == '/')
        return ck_path(out, PATH_MAX, err, "%s/cellkeep", xdg);
    if (!home || *home != '/')
        return ck_fail(err, 400, "usage", "HOME is not set: say --%s-dir", cache ? "cache" : "state");
    return ck_path(out, PATH_MAX, err, "%s/%s/cellkeep", home, cache ? ".cache" : ".local/state");
}

static int parse_memory(const char *text, unsigned *out, struct ck_err *err)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || v < CK_MEMORY_MB_MIN || v > CK_MEMORY_MB_MAX)
        return ck_fail(err, 400, "usage", "--memory-mb %.32s is not a number between %d and %d", text, CK_MEMORY_MB_MIN,
                       CK_MEMORY_MB_MAX);
    *out = (unsigned)v;
    return 0;
}

static const char *env_or(const char *name, const char *def)
{
    const char *v = getenv(name);
    return v && *v ? v : def;
}

static int from_env(struct ck_cmd_opts *o, struct ck_err *err)
{
    const char *memory = env_or("CELLKEEP_MEMORY_MB", NULL);
    o->accel = env_or("CELLKEEP_ACCEL", "auto");
    o->qemu = env_or("CELLKEEP_QEMU", NULL);
    return memory ? parse_memory(memory, &o->memory_mb, err) : 0;
}

static int take(struct ck_cmd_opts *o, int c, const char *option, struct ck_err *err)
{
    switch (c) {
    case 'c':
        o->cache_given = true;
        return ck_path(o->cache_dir, PATH_MAX, err, "%s", optarg);
    case 's':
        o->state_given = true;
        return ck_path(o->state_dir, PATH_MAX, err, "%s", optarg);
    case 'm': return parse_memory(optarg, &o->memory_mb, err);
    case 'a': o->accel = optarg; return 0;
    case 'i': o->image = optarg; return 0;
    case 'q': o->qemu = optarg; return 0;
    case 'r': o->recipe = optarg; return 0;
    case 'g': o->agent = optarg; return 0;
    case 'n': o->name = optarg; return 0;
    case 'p': o->packages = optarg; return 0;
    case 'w': o->warm_up = optarg; return 0;
    case 'j': o->json = true; return 0;
    case 'f': o->rebuild = true; return 0;
    case 'h': o->help = true; return 0;
    case ':': return ck_fail(err, 400, "usage", "option %s needs a value", option);
    default: return ck_fail(err, 400, "usage", "unknown option %s", option);
    }
}

int ck_cmd_opts_parse(int argc, char **argv, struct ck_cmd_opts *o, const char **words, int max, int *nwords,
                      struct ck_err *err)
{
    static const struct option longs[] = {
        {"cache-dir", 1, NULL, 'c'}, {"state-dir", 1, NULL, 's'}, {"memory-mb", 1, NULL, 'm'}, {"accel", 1, NULL, 'a'},
        {"image", 1, NULL, 'i'},     {"qemu", 1, NULL, 'q'},      {"recipe", 1, NULL, 'r'},    {"json", 0, NULL, 'j'},
        {"rebuild", 0, NULL, 'f'},   {"help", 0, NULL, 'h'},      {"agent", 1, NULL, 'g'},     {"name", 1, NULL, 'n'},
        {"packages", 1, NULL, 'p'},  {"warm-up", 1, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    *o = (struct ck_cmd_opts){.memory_mb = 0};
    *nwords = 0;
    if (from_env(o, err))
        return -1;
    optind = 0; // glibc: start afresh
    for (int c; (c = getopt_long(argc, argv, "-:h", longs, NULL)) != -1;) {
        if (c == 1) {
            if (*nwords >= max)
                return ck_fail(err, 400, "usage", "unexpected argument %.64s", optarg);
            words[(*nwords)++] = optarg;
        } else if (take(o, c, argv[optind - 1], err)) {
            return -1;
        }
    }
    if (strcmp(o->accel, "auto") && strcmp(o->accel, "kvm") && strcmp(o->accel, "tcg"))
        return ck_fail(err, 400, "usage", "--accel %.32s is not one of auto, kvm, tcg", o->accel);
    if (!o->cache_dir[0] && default_dir(true, o->cache_dir, err))
        return -1;
    return o->state_dir[0] ? 0 : default_dir(false, o->state_dir, err);
}

int ck_cmd_fail(const char *name, const struct ck_err *err)
{
    fprintf(stderr, "cellkeep %s: %s\n", name, err->text);
    return 1;
}

void ck_cmd_progress(int percent, const char *text, void *user)
{
    struct ck_cmd_progress *p = user;
    if (percent >= 0 && percent == p->last && !strcmp(text, p->text))
        return;
    p->last = percent;
    snprintf(p->text, sizeof p->text, "%s", text);
    if (percent >= 0)
        fprintf(stderr, "template: %3d %% %s\n", percent, text);
    else
        fprintf(stderr, "template: %s\n", text);
}

static void count(char *text, size_t room, unsigned n, const char *one, const char *many)
{
    size_t at = strlen(text);
    if (n)
        snprintf(text + at, room - at, "%s%u %s", at ? ", " : "", n, n == 1 ? one : many);
}

void ck_cmd_prune(const char *name, const char *cache)
{
    struct ck_pruned gone;
    char what[160] = "", size[32];
    ck_cache_prune(cache, (int64_t)time(NULL), &gone);
    count(what, sizeof what, gone.templates, "template", "templates");
    count(what, sizeof what, gone.images, "image", "images");
    count(what, sizeof what, gone.rootfs, "root file system", "root file systems");
    ck_cmd_size(gone.bytes, size);
    if (what[0])
        fprintf(stderr, "%s: removed what nobody used for %d days: %s (%s freed)\n", name, CK_CACHE_KEEP_S / 86400, what,
                size);
}

void ck_cmd_size(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1024 && u < 5; u++)
        v /= 1024;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}
