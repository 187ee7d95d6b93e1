// The environment of user processes. A whitelist by construction: nothing of the agent's own
// environment passes, only the base below and what the request names. Pure.
#include "guest/agent/spawn.h"

#include <stdlib.h>
#include <string.h>

static const char *const base[] = {
    "HOME=" AG_HOME,
    "USER=user",
    "LOGNAME=user",
    "SHELL=/bin/bash",
    "PATH=" AG_HOME "/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "LANG=C.UTF-8",
    "OPENBLAS_NUM_THREADS=1", // one vCPU; and a fork must find no BLAS threads
    "OMP_NUM_THREADS=1",
};

static bool valid_name(const char *s)
{
    if (!*s || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++)
        if (!(*s == '_' || (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9')))
            return false;
    return true;
}

// Replaces or appends NAME=value. Takes text over. -1 when full or NULL.
static int put(char **env, size_t room, char *text)
{
    if (!text)
        return -1;
    size_t len = (size_t)(strchr(text, '=') - text) + 1, i = 0;
    while (env[i] && strncmp(env[i], text, len) != 0)
        i++;
    if (i + 1 >= room) {
        free(text);
        return -1;
    }
    free(env[i]);
    env[i] = text;
    return 0;
}

static char *pair(const char *name, const json_t *value)
{
    size_t n = strlen(name), v = json_string_length(value);
    char *text = malloc(n + v + 2);
    if (text) {
        memcpy(text, name, n);
        text[n] = '=';
        memcpy(text + n + 1, json_string_value(value), v);
        text[n + 1 + v] = 0;
    }
    return text;
}

static int overlay(char **env, size_t room, const json_t *extra, struct ck_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)extra, name, value) {
        if (!valid_name(name) || !json_is_string(value) ||
            strlen(json_string_value(value)) != json_string_length(value))
            return ck_fail(err, 400, "bad_env", "env must map names like FOO_1 to strings without NUL");
        if (put(env, room, pair(name, value)) < 0)
            return ck_fail(err, 400, "bad_env", "more than %d environment variables", AG_ENV_MAX);
    }
    return 0;
}

char **ag_env_make(const json_t *extra, struct ck_err *err)
{
    const size_t nbase = sizeof base / sizeof *base, room = AG_ENV_MAX + nbase + 1;
    char **env = calloc(room, sizeof *env);
    if (!env) {
        ck_fail(err, 503, "no_memory", "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < nbase; i++)
        if (put(env, room, strdup(base[i])) < 0) {
            ck_fail(err, 503, "no_memory", "out of memory");
            ag_env_free(env);
            return NULL;
        }
    if (extra && overlay(env, room, extra, err) < 0) {
        ag_env_free(env);
        return NULL;
    }
    return env;
}

void ag_env_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}
