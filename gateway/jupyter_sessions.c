// /api/sessions: a path (a notebook, a console) bound to a kernel. The records live in the registry
// and outlast the gateway; one whose kernel is gone is dropped when it is next looked at.
#include "gateway/jupyter_rest.h"
#include "gateway/owner.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <stdlib.h>
#include <string.h>

static void ended(void *user, const struct ck_err *err) { (void)user, (void)err; }

static struct registry *registry_of(const struct http_req *r) { return http_gateway(r)->registry; }

static void no_such_session(struct http_req *r)
{
    http_reply_error(r, 404, "no_such_session", "Session not found: session_id=%.64s", http_param(r, "id"));
}

static void reply_session(struct http_req *r, int status, const struct jsession *j, const struct session *kernel)
{
    if (status == 201)
        jup_location(r, "sessions", j->id);
    http_reply_json(r, status, jup_session_model(j, kernel));
}

// The record of {id} whose kernel exists, or NULL after a 404.
static struct jsession *find(struct http_req *r, struct session **kernel)
{
    struct jsession *j = registry_js_find(registry_of(r), http_param(r, "id"));
    *kernel = j ? owner_find(r, j->kernel_id) : NULL;
    if (*kernel)
        return j;
    if (j && !registry_find(registry_of(r), j->kernel_id))
        registry_js_delete(registry_of(r), j);
    no_such_session(r);
    return NULL;
}

void jup_sessions_list(struct http_req *r)
{
    if (!jup_may_list(r))
        return;
    struct registry *reg = registry_of(r);
    json_t *all = json_array();
    for (struct jsession *j = registry_js_next(reg, NULL), *next; j; j = next) {
        next = registry_js_next(reg, j);
        struct session *kernel = registry_find(reg, j->kernel_id);
        if (kernel && owner_sees(http_owner(r), kernel))
            json_array_append_new(all, jup_session_model(j, kernel));
        else if (!kernel)
            registry_js_delete(reg, j);
    }
    http_reply_json(r, 200, all);
}

void jup_session_get(struct http_req *r)
{
    struct session *kernel;
    struct jsession *j = find(r, &kernel);
    if (j)
        reply_session(r, 200, j, kernel);
}

// --- creating ------------------------------------------------------------------------------------

// A request to create or change a session, while its kernel starts.
struct wanted {
    struct http_req *r;
    json_t *body;                        // our own reference: the texts below point into it
    const char *path, *name, *type;      // NULL = not said
    const char *kernel_id, *kernel_name; // likewise
    json_t *env;
    char session_id[CK_UUID_MAX]; // PATCH: which
};

static void wanted_free(struct wanted *w)
{
    if (w)
        json_decref(w->body);
    free(w);
}

// The body in its current and its older form ({"notebook":{"path"}} means a notebook).
static struct wanted *wanted_parse(struct http_req *r, struct ck_err *err)
{
    json_t *body = http_body_json(r, err);
    struct wanted *w = body ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    w->r = r;
    w->body = json_incref(body);
    w->path = ck_json_str(body, "path", NULL, err);
    w->name = ck_json_str(body, "name", NULL, err);
    w->type = ck_json_str(body, "type", NULL, err);
    json_t *kernel = ck_json_obj(body, "kernel", err), *old = ck_json_obj(body, "notebook", err);
    if (old && ck_json_str(old, "path", NULL, err)) {
        w->path = ck_json_str(old, "path", NULL, err);
        w->type = "notebook";
        w->name = w->name ? w->name : ck_json_str(old, "name", NULL, err);
    }
    if (kernel) {
        w->kernel_id = ck_json_str(kernel, "id", NULL, err);
        w->kernel_name = ck_json_str(kernel, "name", NULL, err);
        w->env = json_object_get(kernel, "env");
    }
    if (!w->env)
        w->env = json_object_get(body, "env");
    if (err->status) {
        wanted_free(w);
        return NULL;
    }
    return w;
}

static void reply_parse_error(struct http_req *r, const struct ck_err *err)
{
    if (err->status)
        http_reply_err(r, err);
    else
        http_reply_error(r, 503, "out_of_memory", "the gateway is out of memory, try again later");
}

static void no_such_spec(struct http_req *r, const char *name)
{
    CK_CLEAN_JSON json_t *about = json_sprintf("%.64s not found", name);
    CK_CLEAN_JSON json_t *text = json_sprintf("The '%.64s' kernel is not available. Please pick another suitable "
                                              "kernel instead, or install that kernel.", name);
    http_reply_json(r, 501, json_pack("{s:O,s:O}", "message", text, "short_message", about));
}

static void bind_path(struct wanted *w, struct session *kernel)
{
    struct ck_err err = CK_ERR_INIT;
    const char *name = w->name ? w->name : "";
    struct jsession *j = registry_js_create(registry_of(w->r), w->path, name, w->type, kernel->id, &err);
    if (j)
        reply_session(w->r, 201, j, kernel);
    else
        http_reply_err(w->r, &err);
}

static struct jsession *find_by_path(struct http_req *r, const char *path, struct session **kernel)
{
    struct registry *reg = registry_of(r);
    for (struct jsession *j = registry_js_next(reg, NULL), *next; j; j = next) {
        next = registry_js_next(reg, j);
        bool here = !strcmp(j->path, path);
        *kernel = here ? registry_find(reg, j->kernel_id) : NULL;
        if (!here || (*kernel && !owner_sees(http_owner(r), *kernel)))
            continue;
        if (*kernel && (*kernel)->state != SESSION_DEAD)
            return j;
        registry_js_delete(reg, j); // a path whose kernel ended starts anew
    }
    return NULL;
}

static void kernel_for_new_session(void *user, struct session *s, const struct ck_err *err)
{
    struct wanted *w = user;
    struct session *kernel;
    struct jsession *j = err ? NULL : find_by_path(w->r, w->path, &kernel);
    if (err) {
        jup_start_failed(w->r, err);
    } else if (j) { // two clients asked at once: one kernel a path
        registry_delete(registry_of(w->r), s, ended, NULL);
        reply_session(w->r, 201, j, kernel);
    } else {
        bind_path(w, s);
    }
    wanted_free(w);
}

// True when something essential is missing and the answer was sent.
static bool incomplete(struct wanted *w)
{
    const char *missing = !w->path ? "path" : !w->type ? "type" : NULL;
    if (missing)
        http_reply_error(w->r, 400, "missing_field", "Missing field in JSON data: %s", missing);
    return missing != NULL;
}

void jup_sessions_create(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    struct wanted *w = wanted_parse(r, &err);
    struct session *kernel;
    if (!w) {
        reply_parse_error(r, &err);
        return;
    }
    struct jsession *j = w->path ? find_by_path(r, w->path, &kernel) : NULL;
    if (incomplete(w)) {
        ;
    } else if (j) {
        reply_session(r, 201, j, kernel);
    } else if (w->kernel_id && (kernel = owner_find(r, w->kernel_id))) {
        bind_path(w, kernel);
    } else if (!jup_kernel_name_known(jup_kernel_name(r, w->kernel_name))) {
        no_such_spec(r, jup_kernel_name(r, w->kernel_name));
    } else {
        // The folder of a notebook is its kernel's, as in every Jupyter server.
        const char *slash = strrchr(w->path, '/');
        char *dir = slash ? strndup(w->path, (size_t)(slash - w->path)) : NULL;
        jup_start_kernel(r, slash ? slash + 1 : w->path, dir, w->env, kernel_for_new_session, w);
        free(dir);
        return;
    }
    wanted_free(w);
}

// --- changing ------------------------------------------------------------------------------------

static bool used_by_another(struct registry *reg, const char *kernel_id)
{
    for (struct jsession *j = registry_js_next(reg, NULL); j; j = registry_js_next(reg, j)) {
        if (!strcmp(j->kernel_id, kernel_id))
            return true;
    }
    return false;
}

// Everything is known: change the record, and end the kernel that no path uses any more.
static void change(struct wanted *w, struct session *kernel)
{
    struct registry *reg = registry_of(w->r);
    struct ck_err err = CK_ERR_INIT;
    struct jsession *j = registry_js_find(reg, w->session_id);
    char before[CK_UUID_MAX];
    if (!j) {
        no_such_session(w->r);
        return;
    }
    memcpy(before, j->kernel_id, sizeof before);
    if (registry_js_update(reg, j, w->path, w->name, w->type, kernel->id, &err)) {
        http_reply_err(w->r, &err);
        return;
    }
    reply_session(w->r, 200, j, kernel);
    struct session *old = strcmp(before, kernel->id) != 0 ? registry_find(reg, before) : NULL;
    if (old && !used_by_another(reg, before))
        registry_delete(reg, old, ended, NULL);
}

static void kernel_for_changed_session(void *user, struct session *s, const struct ck_err *err)
{
    struct wanted *w = user;
    if (err)
        jup_start_failed(w->r, err);
    else
        change(w, s);
    wanted_free(w);
}

void jup_session_patch(struct http_req *r)
{
    struct session *kernel;
    struct jsession *j = find(r, &kernel);
    if (!j)
        return;
    struct ck_err err = CK_ERR_INIT;
    struct wanted *w = wanted_parse(r, &err);
    if (!w) {
        reply_parse_error(r, &err);
        return;
    }
    memcpy(w->session_id, j->id, sizeof w->session_id);
    if (w->kernel_id) {
        kernel = owner_find(r, w->kernel_id);
        if (kernel)
            change(w, kernel);
        else
            http_reply_error(r, 400, "no_such_kernel", "No such kernel: %.64s", w->kernel_id);
    } else if (!w->kernel_name) {
        change(w, kernel);
    } else if (!jup_kernel_name_known(jup_kernel_name(r, w->kernel_name))) {
        no_such_spec(r, jup_kernel_name(r, w->kernel_name));
    } else {
        jup_start_kernel(r, kernel->name, NULL, w->env, kernel_for_changed_session, w);
        return;
    }
    wanted_free(w);
}

// --- deleting ------------------------------------------------------------------------------------

static void deleted(void *user, const struct ck_err *err)
{
    if (err)
        http_reply_err(user, err);
    else
        http_reply_empty(user, 204);
}

void jup_session_delete(struct http_req *r)
{
    struct registry *reg = registry_of(r);
    struct jsession *j = registry_js_find(reg, http_param(r, "id"));
    struct session *kernel = j ? registry_find(reg, j->kernel_id) : NULL;
    if (!j || (kernel && !owner_sees(http_owner(r), kernel))) {
        no_such_session(r);
        return;
    }
    registry_js_delete(reg, j);
    if (kernel)
        registry_delete(reg, kernel, deleted, r);
    else
        http_reply_error(r, 410, "kernel_gone", "Kernel deleted before session");
}
