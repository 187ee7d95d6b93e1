// session.json, both ways. Written by a bridge, and bridges read bytes of guests: everything is
// checked. An error never shows what a field held.
#include "kernel-bridge/frozen.h"

#include "common/ck_clean.h"
#include "common/ck_json.h"

#include <stdlib.h>

int frozen_print(const struct frozen *f, struct ck_buf *out)
{
    char key[2 * AW_KEY_LEN + 1];
    ck_hex(f->agent_key, AW_KEY_LEN, key);
    json_t *env = f->env ? json_loads(f->env, 0, NULL) : NULL;
    CK_CLEAN_JSON json_t *o =
        json_pack("{s:i,s:s,s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:I,s:I,s:b,s:b,s:o*}", "version", FROZEN_VERSION, "kernel_key",
                  f->kernel_key, "kernel_identity", f->kernel_identity, "agent_key", key, "agent_n",
                  (json_int_t)f->agent_n, "kernel_session", f->kernel_session, "own_session", f->own_session, "seen",
                  f->seen, "machine_id", f->machine_id, "kernel_pid", (json_int_t)f->kernel_pid, "execution_count",
                  (json_int_t)f->execution_count, "busy", f->busy, "asks", f->asks, "env", env);
    explicit_bzero(key, sizeof key);
    if (!o || (f->cwd[0] && json_object_set_new(o, "cwd", json_string(f->cwd))))
        return -1;
    return ck_json_dump(o, out);
}

static void text(const json_t *o, const char *key, char *out, size_t room, bool needed, struct ck_err *e)
{
    const char *s = ck_json_str(o, key, "", e);
    if (!e->status && (strlen(s) >= room || (needed && !*s)))
        ck_fail(e, 422, "bad_layer", "field \"%s\" is missing or too long", key);
    if (!e->status)
        memcpy(out, s, strlen(s) + 1);
}

static void hex(const json_t *o, const char *key, uint8_t *out, size_t bytes, struct ck_err *e)
{
    const char *s = ck_json_str(o, key, "", e);
    if (!e->status && (strlen(s) != 2 * bytes || ck_unhex(s, 2 * bytes, out)))
        ck_fail(e, 422, "bad_layer", "field \"%s\" must be %zu hex digits", key, 2 * bytes);
}

static void environment(const json_t *o, struct frozen *f, struct ck_err *e)
{
    const json_t *env = ck_json_obj(o, "env", e);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)env, key, value) {
        if (!e->status && (!*key || strchr(key, '=') || !json_is_string(value)))
            ck_fail(e, 422, "bad_layer", "field \"env\" holds something that is no environment");
    }
    if (e->status || !env || !json_object_size(env))
        return;
    f->env = json_dumps(env, JSON_COMPACT);
    if (!f->env)
        ck_fail(e, 500, "no_memory", "no memory for the session's environment");
}

static void numbers(const json_t *o, struct frozen *f, struct ck_err *e)
{
    f->agent_n = ck_json_int(o, "agent_n", -1, e);
    f->kernel_pid = ck_json_int(o, "kernel_pid", 0, e);
    f->execution_count = ck_json_int(o, "execution_count", 0, e);
    f->busy = ck_json_bool(o, "busy", false, e);
    f->asks = ck_json_bool(o, "asks", false, e);
    if (!e->status && (f->agent_n < 0 || f->agent_n > INT64_MAX / 2 || f->kernel_pid <= 0 || f->execution_count < 0))
        ck_fail(e, 422, "bad_layer", "a number is out of range");
}

int frozen_parse(const void *p, size_t n, struct frozen *f, struct ck_err *err)
{
    struct ck_err e = CK_ERR_INIT;
    uint8_t id[16];
    memset(f, 0, sizeof *f);
    CK_CLEAN_JSON json_t *o = ck_json_parse_object(p, n, false, err);
    if (!o)
        return ck_wrap(err, "the layer's session.json");
    if (ck_json_int(o, "version", 0, &e) != FROZEN_VERSION && !e.status)
        ck_fail(&e, 422, "bad_layer", "it was written by another version of cellkeep");
    text(o, "kernel_key", f->kernel_key, sizeof f->kernel_key, true, &e);
    text(o, "kernel_identity", f->kernel_identity, sizeof f->kernel_identity, true, &e);
    hex(o, "agent_key", f->agent_key, sizeof f->agent_key, &e);
    text(o, "kernel_session", f->kernel_session, sizeof f->kernel_session, false, &e);
    text(o, "own_session", f->own_session, sizeof f->own_session, true, &e);
    text(o, "seen", f->seen, sizeof f->seen, false, &e);
    text(o, "machine_id", f->machine_id, sizeof f->machine_id, true, &e);
    hex(o, "machine_id", id, sizeof id, &e);
    text(o, "cwd", f->cwd, sizeof f->cwd, false, &e);
    numbers(o, f, &e);
    environment(o, f, &e);
    if (!e.status && !ck_uuid_valid(f->own_session))
        ck_fail(&e, 422, "bad_layer", "field \"own_session\" must be a UUID");
    if (!e.status)
        return 0;
    if (e.status != 500)
        ck_fail(err, 422, "bad_layer", "%s", e.text); // whichever way a field was wrong
    else
        *err = e;
    return ck_wrap(err, "the layer's session.json");
}

void frozen_free(struct frozen *f)
{
    if (f->env)
        explicit_bzero(f->env, strlen(f->env));
    free(f->env);
    explicit_bzero(f, sizeof *f);
}
