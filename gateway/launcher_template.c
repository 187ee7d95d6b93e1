// Which template a session is started from: the gateway's, or the one that was asked for. A layer is restored on the template that it was made on and
// on no other, so a session that was paused under an older one gets that, as long as it is in the cache.
#include "gateway/launcher_internal.h"

#include "common/ck_fs.h"
#include "common/ck_ramfd.h"
#include "gateway/layer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void template_free(struct launch_template *t)
{
    if (t && t->ram_fd >= 0)
        close(t->ram_fd);
    free(t);
}

int launch_templates_new(struct launcher *l, const char *dir, const char *image_dir, int ram_fd)
{
    struct launch_template *t = calloc(1, sizeof *t);
    if (!t) {
        close(ram_fd);
        return -1;
    }
    snprintf(t->dir, sizeof t->dir, "%s", dir);
    snprintf(t->image_dir, sizeof t->image_dir, "%s", image_dir);
    t->ram_fd = ram_fd;
    l->template = t;
    return uv_mutex_init(&l->lock);
}

void launch_templates_free(struct launcher *l)
{
    if (!l->template)
        return;
    template_free(l->template);
    while (l->others) {
        struct launch_template *t = l->others;
        l->others = t->next;
        template_free(t);
    }
    uv_mutex_destroy(&l->lock);
}

static bool is_named(const char *dir, const char *hash)
{
    const char *slash = strrchr(dir, '/');
    return slash && !strcmp(slash + 1, hash);
}

// The folder beside `dir` that is named so.
static int beside(const char *dir, const char *name, char out[PATH_MAX], struct ck_err *err)
{
    const char *slash = strrchr(dir, '/');
    return ck_path(out, PATH_MAX, err, "%.*s/%s", slash ? (int)(slash - dir) : 0, dir, name);
}

static struct launch_template *load(const struct launcher *l, const struct layer_origin *o, struct ck_err *err)
{
    char ram[PATH_MAX];
    struct launch_template *t = calloc(1, sizeof *t);
    if (t)
        t->ram_fd = -1;
    if (!t || beside(l->template->dir, o->template, t->dir, err) ||
        beside(l->template->image_dir, o->image, t->image_dir, err) || ck_path(ram, sizeof ram, err, "%s/ram", t->dir) ||
        ck_ramfd_load(ram, (uint64_t)o->memory_mb << 20, &t->ram_fd, err)) {
        template_free(t);
        ck_wrap(err, "the session began with a template (%s) that cannot be read from the cache any more", o->template);
        return NULL;
    }
    return t;
}

int launch_template_choose(struct launch *x)
{
    struct launcher *l = x->l;
    struct layer_origin o;
    x->template = l->template;
    if (x->kind == LAUNCH_SPARE || (x->kind == LAUNCH_POOL && !x->from.template[0]))
        return 0;
    if (x->kind == LAUNCH_POOL)
        o = x->from;
    else if (layer_read_origin(x->p->dir, x->layer, &o, &x->err))
        return -1;
    if (is_named(l->template->dir, o.template))
        return 0;
    uv_mutex_lock(&l->lock);
    struct launch_template *t = l->others;
    while (t && !is_named(t->dir, o.template))
        t = t->next;
    if (!t && (t = load(l, &o, &x->err))) {
        t->next = l->others;
        l->others = t;
    }
    uv_mutex_unlock(&l->lock);
    x->template = t;
    return t ? 0 : -1;
}
