// /api/kernels: a Jupyter kernel is a session of cellkeep under the same id, so what another door
// made shows here too. Bodies may hold a front-end's whole environment and must never be logged.
#include "gateway/jupyter_params.h"
#include "gateway/jupyter_rest.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "gateway/life.h"
#include "gateway/owner.h"

#include <stdio.h>
#include <string.h>

#define INTERRUPT_DEADLINE_MS (20 * 1000)
#define RESTART_DEADLINE_MS (150 * 1000) // the bridge's own is 120 s

void jup_no_such_kernel(struct http_req *r, const char *id)
{
    http_reply_error(r, 404, "no_such_kernel", "Kernel does not exist: %.64s", id);
}

struct session *jup_find_kernel(struct http_req *r)
{
    const char *id = http_param(r, "id");
    struct session *s = owner_find(r, id);
    if (!s)
        jup_no_such_kernel(r, id);
    return s;
}

void jup_location(struct http_req *r, const char *collection, const char *id)
{
    char where[512];
    snprintf(where, sizeof where, "%s/api/%s/%s", http_base_url(r), collection, id);
    http_header_add(r, "Location", where);
}

void jup_start_kernel(struct http_req *r, const char *name, const char *path, json_t *env, registry_created done,
                      void *user)
{
    struct gateway *g = http_gateway(r);
    char cwd[JUP_CWD_MAX];
    CK_CLEAN_JSON json_t *filtered = jup_env_filter(env, g->config->env_allow);
    bool has_cwd = path && *path && !jup_cwd(path, cwd, sizeof cwd);
    struct session_spec spec = {.name = name && *name ? name : NULL, .env = filtered, .cwd = has_cwd ? cwd : NULL,
                                .owner = http_owner(r), .owner_max = owner_max_sessions(r, http_owner(r))};
    registry_create(g->registry, &spec, done, user);
}

void jup_start_failed(struct http_req *r, const struct ck_err *err)
{
    struct ck_err e = *err;
    if (e.status == 429)
        e.status = 403; // what kernel gateways answer, and what front-ends show to their users
    if (e.status == 503)
        http_header_add(r, "Retry-After", "5");
    http_reply_err(r, &e);
}

const char *jup_kernel_name(const struct http_req *r, const char *name)
{
    return name && *name ? name : http_gateway(r)->config->default_kernel_name;
}

bool jup_may_list(struct http_req *r)
{
    if (http_gateway(r)->config->list_kernels)
        return true;
    http_reply_error(r, 403, "Forbidden", "Forbidden: this gateway does not list its kernels (--list-kernels=no)");
    return false;
}

void jup_kernels_list(struct http_req *r)
{
    if (!jup_may_list(r))
        return;
    json_t *all = json_array();
    for (struct session *s = owner_next(r, NULL); s; s = owner_next(r, s))
        json_array_append_new(all, jup_kernel_model(s));
    http_reply_json(r, 200, all);
}

static void created(void *user, struct session *s, const struct ck_err *err)
{
    struct http_req *r = user;
    if (err) {
        jup_start_failed(r, err);
        return;
    }
    jup_location(r, "kernels", s->id);
    http_reply_json(r, 201, jup_kernel_model(s));
}

void jup_kernels_create(struct http_req *r)
{
    struct ck_err err = CK_ERR_INIT;
    json_t *body = http_body_json(r, &err);
    const char *name = jup_kernel_name(r, body ? ck_json_str(body, "name", NULL, &err) : NULL);
    const char *path = body ? ck_json_str(body, "path", NULL, &err) : NULL;
    if (err.status) {
        http_reply_err(r, &err);
    } else if (!jup_kernel_name_known(name)) {
        // jupyter-server answers 500 with a traceback; clients look for the exception's name in it.
        http_reply_json(r, 500, json_pack("{s:s,s:n,s:s+}", "message", "No such kernel", "reason", "traceback",
                                          "raise NoSuchKernel: ", name));
    } else {
        jup_start_kernel(r, NULL, path, json_object_get(body, "env"), created, r);
    }
}

void jup_kernel_get(struct http_req *r)
{
    struct session *s = jup_find_kernel(r);
    if (s)
        http_reply_json(r, 200, jup_kernel_model(s));
}

static void deleted(void *user, const struct ck_err *err)
{
    struct http_req *r = user;
    if (err)
        http_reply_err(r, err);
    else
        http_reply_empty(r, 204);
}

void jup_kernel_delete(struct http_req *r)
{
    struct session *s = jup_find_kernel(r);
    if (s)
        registry_delete(http_gateway(r)->registry, s, deleted, r);
}

static void interrupted(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    (void)re;
    (void)frame;
    if (err)
        http_reply_err(user, err);
    else
        http_reply_empty(user, 204);
}

static void restarted(void *user, const json_t *re, const struct ck_frame *frame, const struct ck_err *err)
{
    (void)re;
    (void)frame;
    struct http_req *r = user;
    if (err) {
        http_reply_err(r, err);
        return;
    }
    struct session *s = jup_find_kernel(r); // it may have been deleted meanwhile
    if (s)
        http_reply_json(r, 200, jup_kernel_model(s));
}

static void kernel_op(struct http_req *r, const char *op, int deadline_ms, bridge_call_done done)
{
    struct session *s = jup_find_kernel(r);
    if (!s)
        return;
    if (s->state == SESSION_DEAD) {
        http_reply_error(r, 409, "kernel_dead", "the kernel's machine has ended (%s): delete it and start a new one",
                         s->reason ? s->reason : "dead");
        return;
    }
    session_touch(s);
    session_call(s, json_pack("{s:s}", "op", op), deadline_ms, done, r);
}

void jup_kernel_interrupt(struct http_req *r) { kernel_op(r, "interrupt", INTERRUPT_DEADLINE_MS, interrupted); }
void jup_kernel_restart(struct http_req *r) { kernel_op(r, "restart", RESTART_DEADLINE_MS, restarted); }
