// Choosing a template by its name. The cache is ours, but old and new programs share it: what is not
// understood is as good as not there. Must never give out a template that another QEMU or accelerator made.
#include "gateway/template_names.h"

#include "common/ck_buf.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 256
#define JSON_MAX 65536
#define MARK ".building-"

struct found { // a file of the folder
    char name[65], accel[8];
    int memory_mb;
    bool mark; // that somebody builds it or did
};

struct names {
    const struct template_ask *ask;
    const char *name;
    char dir[PATH_MAX];
    struct found f[NAMES_MAX];
    int n;
};

// "NAME.MEMORY.ACCEL.json" or ".building-NAME.MEMORY".
static bool parse_file(const char *file, struct found *f)
{
    *f = (struct found){.mark = !strncmp(file, MARK, sizeof MARK - 1)};
    if (f->mark)
        file += sizeof MARK - 1;
    size_t n = strspn(file, "abcdefghijklmnopqrstuvwxyz0123456789-_");
    char *end;
    if (!n || n >= sizeof f->name || file[n] != '.' || file[n + 1] < '1' || file[n + 1] > '9')
        return false;
    memcpy(f->name, file, n);
    long memory = strtol(file + n + 1, &end, 10);
    if (memory > TEMPLATE_MEMORY_MB_MAX)
        return false;
    f->memory_mb = (int)memory;
    if (f->mark)
        return !*end;
    size_t a = *end == '.' ? strcspn(end + 1, ".") : 0;
    if (!a || a >= sizeof f->accel || strcmp(end + 1 + a, ".json") != 0)
        return false;
    memcpy(f->accel, end + 1, a);
    return true;
}

static void read_names(struct names *x)
{
    DIR *d = opendir(x->dir);
    for (struct dirent *e; d && x->n < NAMES_MAX && (e = readdir(d));)
        x->n += parse_file(e->d_name, &x->f[x->n]);
    if (d)
        closedir(d);
}

static bool is_ours(const struct names *x, const struct found *f)
{
    return !f->mark && !strcmp(f->name, x->name) && !strcmp(f->accel, x->ask->accelerator);
}

static const struct found *best(const struct names *x)
{
    const struct found *b = NULL;
    for (int i = 0; i < x->n; i++) {
        const struct found *f = &x->f[i];
        if (!is_ours(x, f) || (x->ask->memory_mb && f->memory_mb != x->ask->memory_mb))
            continue;
        if (!b || f->memory_mb == x->ask->gateway_memory_mb ||
            (f->memory_mb < b->memory_mb && b->memory_mb != x->ask->gateway_memory_mb))
            b = f;
    }
    return b;
}

// --- when there is none --------------------------------------------------------------------------------

static bool known(const struct names *x)
{
    if (!strcmp(x->name, TEMPLATE_DEFAULT))
        return true;
    for (int i = 0; i < x->n; i++)
        if (!strcmp(x->f[i].name, x->name))
            return true;
    return false;
}

static int unknown(const struct names *x, struct ck_err *err)
{
    char list[300] = "\"" TEMPLATE_DEFAULT "\"";
    for (int i = 0; i < x->n; i++) {
        char quoted[70];
        snprintf(quoted, sizeof quoted, "\"%s\"", x->f[i].name);
        size_t n = strlen(list);
        if (!strstr(list, quoted) && n + strlen(quoted) + 8 < sizeof list)
            snprintf(list + n, sizeof list - n, ", %s", quoted);
    }
    return ck_fail(err, 400, "no_such_template", "there is no template \"%.60s\"; there are: %s", x->name, list);
}

// A builder holds the lock, shared, until it ends.
static bool is_being_built(const struct names *x)
{
    char path[PATH_MAX];
    for (int i = 0; i < x->n; i++) {
        const struct found *f = &x->f[i];
        if (!f->mark || strcmp(f->name, x->name) != 0 || (x->ask->memory_mb && f->memory_mb != x->ask->memory_mb) ||
            ck_path(path, sizeof path, NULL, "%s/" MARK "%s.%d", x->dir, f->name, f->memory_mb))
            continue;
        CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
            return true;
    }
    return false;
}

static int not_built(const struct names *x, const char *why, struct ck_err *err)
{
    char sizes[100] = "", memory[32] = "", name[80] = "";
    if (is_being_built(x))
        return ck_fail(err, 503, "template_building", "the template \"%s\" is being built; try again in a few minutes", x->name);
    for (int i = 0; i < x->n && strlen(sizes) < sizeof sizes - 10; i++)
        if (is_ours(x, &x->f[i]))
            snprintf(sizes + strlen(sizes), sizeof sizes - strlen(sizes), "%s%d", *sizes ? ", " : " (it is with: ", x->f[i].memory_mb);
    if (*sizes)
        snprintf(sizes + strlen(sizes), sizeof sizes - strlen(sizes), ")");
    if (x->ask->memory_mb)
        snprintf(memory, sizeof memory, " --memory-mb %d", x->ask->memory_mb);
    if (strcmp(x->name, TEMPLATE_DEFAULT) != 0)
        snprintf(name, sizeof name, " --name %s", x->name);
    return ck_fail(err, 409, "template_not_built", "the template \"%s\" %s%s; build it: cellkeep template build%s%s --accel %s",
                   x->name, why, *why == 'i' ? sizes : "", name, memory, x->ask->accelerator);
}

// --- when there is ---------------------------------------------------------------------------------------

static int read_entry(const struct names *x, const struct found *f, struct layer_origin *out, struct ck_err *err)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_path(path, sizeof path, err, "%s/%s.%d.%s.json", x->dir, f->name, f->memory_mb, f->accel))
        return -1;
    if (ck_read_file(path, JSON_MAX, &text, NULL) || layer_parse_origin(text.p, text.n, out, NULL) ||
        out->memory_mb != f->memory_mb)
        return not_built(x, "cannot be read", err);
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text.p, text.n, false, NULL);
    if (strcmp(ck_json_str(j, "qemu", "", NULL), x->ask->qemu) != 0)
        return not_built(x, "was built by another version of QEMU", err);
    return 0;
}

// Under the lock of users: what is marked now is not removed for days.
static int use(const struct names *x, const struct layer_origin *o, struct ck_err *err)
{
    char path[PATH_MAX], image[PATH_MAX];
    if (ck_path(path, sizeof path, err, "%s/.use-lock", x->ask->cache_dir))
        return -1;
    CK_CLEAN_FD int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644); // refused in a cache that only others write
    if (lock >= 0)
        flock(lock, LOCK_SH);
    if (ck_path(path, sizeof path, err, "%s/templates/%s/template.json", x->ask->cache_dir, o->template) ||
        ck_path(image, sizeof image, err, "%s/images/%s/image.json", x->ask->cache_dir, o->image))
        return -1;
    if (access(path, R_OK) || access(image, R_OK))
        return not_built(x, "is gone from the cache", err);
    utimensat(AT_FDCWD, path, NULL, 0);
    return 0;
}

static int choose(struct names *x, struct layer_origin *out, struct ck_err *err)
{
    if (ck_path(x->dir, sizeof x->dir, err, "%s/named", x->ask->cache_dir))
        return -1;
    read_names(x);
    if (!known(x))
        return unknown(x, err);
    const struct found *f = best(x);
    if (!f)
        return not_built(x, x->ask->memory_mb ? "is not built with that much memory" : "is not built", err);
    return read_entry(x, f, out, err) || use(x, out, err) ? -1 : 0;
}

int template_choose(const struct template_ask *ask, struct layer_origin *out, struct ck_err *err)
{
    if (ask->memory_mb && (ask->memory_mb < TEMPLATE_MEMORY_MB_MIN || ask->memory_mb > TEMPLATE_MEMORY_MB_MAX))
        return ck_fail(err, 400, "bad_field", "\"memory_mb\" must be a whole number from %d to %d", TEMPLATE_MEMORY_MB_MIN,
                       TEMPLATE_MEMORY_MB_MAX);
    CK_CLEAN_FREE struct names *x = calloc(1, sizeof *x);
    if (!x)
        return ck_fail(err, 503, "no_memory", "out of memory");
    x->ask = ask;
    x->name = ask->name ? ask->name : TEMPLATE_DEFAULT;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    return choose(x, out, err);
}

// --- all of them ---------------------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int first = !strcmp(y->name, TEMPLATE_DEFAULT) - !strcmp(x->name, TEMPLATE_DEFAULT);
    int names = first ? first : strcmp(x->name, y->name);
    return names ? names : (x->memory_mb > y->memory_mb) - (x->memory_mb < y->memory_mb);
}

static bool usable(struct names *x, const struct found *f)
{
    struct layer_origin origin;
    struct ck_err ignored = CK_ERR_INIT;
    x->name = f->name;
    return is_ours(x, f) && !read_entry(x, f, &origin, &ignored);
}

static void append_size(json_t *list, const struct found *f)
{
    json_t *last = json_array_get(list, json_array_size(list) - 1);
    if (!last || strcmp(ck_json_str(last, "name", "", NULL), f->name) != 0) {
        last = json_pack("{s:s,s:[]}", "name", f->name, "memory_mb");
        json_array_append_new(list, last);
    }
    json_array_append_new(json_object_get(last, "memory_mb"), json_integer(f->memory_mb));
}

static json_t *make_list(struct names *x)
{
    json_t *list = json_array();
    if (ck_path(x->dir, sizeof x->dir, NULL, "%s/named", x->ask->cache_dir))
        return list;
    read_names(x);
    qsort(x->f, (size_t)x->n, sizeof x->f[0], by_name);
    for (int i = 0; list && i < x->n; i++)
        if (usable(x, &x->f[i]))
            append_size(list, &x->f[i]);
    return list;
}

json_t *template_list(const struct template_ask *ask)
{
    CK_CLEAN_FREE struct names *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->ask = ask;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    return make_list(x);
}
