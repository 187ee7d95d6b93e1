// Jupyter sessions: which notebook or console is bound to which kernel.
#include "gateway/registry_internal.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096
#define JSESSIONS_MAX 10000

static void link_js(struct registry *r, struct js_entry *j)
{
    j->prev = r->js_last;
    if (r->js_last)
        r->js_last->next = j;
    else
        r->js_first = j;
    r->js_last = j;
}

static int set_text(char **field, const char *value, struct ck_err *err)
{
    if (!value)
        return 0;
    if (strlen(value) > TEXT_MAX)
        return ck_fail(err, 400, "bad_field", "path, name and type are at most %d bytes", TEXT_MAX);
    char *copy = strdup(value);
    if (!copy)
        return ck_fail(err, 503, "no_memory", "out of memory");
    free(*field);
    *field = copy;
    return 0;
}

static void free_js(struct js_entry *j)
{
    free(j->pub.path);
    free(j->pub.name);
    free(j->pub.type);
    free(j);
}

struct jsession *registry_js_create(struct registry *r, const char *path, const char *name, const char *type,
                                    const char *kernel_id, struct ck_err *err)
{
    size_t n = 0;
    for (struct js_entry *x = r->js_first; x; x = x->next)
        n++;
    struct js_entry *j = n < JSESSIONS_MAX ? calloc(1, sizeof *j) : NULL;
    if (!j) {
        ck_fail(err, 429, "too_many_sessions", "too many Jupyter sessions; delete some first");
        return NULL;
    }
    if (set_text(&j->pub.path, path ? path : "", err) || set_text(&j->pub.name, name ? name : "", err) ||
        set_text(&j->pub.type, type ? type : "", err)) {
        free_js(j);
        return NULL;
    }
    ck_uuid4(j->pub.id);
    snprintf(j->pub.kernel_id, sizeof j->pub.kernel_id, "%s", kernel_id);
    link_js(r, j);
    store_put_jsession(r->store, &j->pub);
    return &j->pub;
}

struct jsession *registry_js_find(struct registry *r, const char *id)
{
    for (struct js_entry *j = r->js_first; j; j = j->next)
        if (!strcmp(j->pub.id, id))
            return &j->pub;
    return NULL;
}

struct jsession *registry_js_next(struct registry *r, const struct jsession *after)
{
    struct js_entry *j = after ? ((const struct js_entry *)after)->next : r->js_first;
    return j ? &j->pub : NULL;
}

int registry_js_update(struct registry *r, struct jsession *j, const char *path, const char *name, const char *type,
                       const char *kernel_id, struct ck_err *err)
{
    if (set_text(&j->path, path, err) || set_text(&j->name, name, err) || set_text(&j->type, type, err))
        return -1;
    if (kernel_id)
        snprintf(j->kernel_id, sizeof j->kernel_id, "%s", kernel_id);
    store_put_jsession(r->store, j);
    return 0;
}

void registry_js_delete(struct registry *r, struct jsession *pub)
{
    struct js_entry *j = (struct js_entry *)pub;
    if (j->prev)
        j->prev->next = j->next;
    else
        r->js_first = j->next;
    if (j->next)
        j->next->prev = j->prev;
    else
        r->js_last = j->prev;
    store_delete_jsession(r->store, j->pub.id);
    free_js(j);
}

void registry_js_restore(struct registry *r, const struct store_jsession *row)
{
    struct js_entry *j = calloc(1, sizeof *j);
    if (!j || set_text(&j->pub.path, row->path, NULL) || set_text(&j->pub.name, row->name, NULL) ||
        set_text(&j->pub.type, row->type, NULL)) {
        if (j)
            free_js(j);
        return;
    }
    snprintf(j->pub.id, sizeof j->pub.id, "%s", row->id);
    snprintf(j->pub.kernel_id, sizeof j->pub.kernel_id, "%s", row->kernel_id);
    link_js(r, j);
}
