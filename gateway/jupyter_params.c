// Filters for what a client asks of a new kernel. Values pass through here and must never be logged.
#include "gateway/jupyter_params.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool name_ok(const char *s)
{
    if (!*s || strlen(s) > 128 || isdigit((unsigned char)*s))
        return false;
    for (; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    }
    return true;
}

static bool listed(const char *allow, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = allow; p && *p;) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ", ");
        if (len == n && !memcmp(p, name, n))
            return true;
        p += len;
    }
    return false;
}

static bool value_ok(const json_t *v)
{
    return json_is_string(v) && json_string_length(v) <= JUP_ENV_VALUE_MAX &&
           strlen(json_string_value(v)) == json_string_length(v);
}

json_t *jup_env_filter(json_t *env, const char *allow)
{
    json_t *out = json_object();
    const char *name;
    json_t *v;
    int rc = out ? 0 : -1;
    if (!json_is_object(env))
        return out;
    json_object_foreach(env, name, v) {
        bool wanted = !strncmp(name, "KERNEL_", 7) || listed(allow, name);
        if (rc || json_object_size(out) >= JUP_ENV_MAX - 1)
            break;
        if (wanted && name_ok(name) && value_ok(v) && strcmp(name, "KERNEL_GATEWAY") != 0)
            rc = json_object_set(out, name, v);
    }
    if (!rc && json_object_size(out))
        rc = json_object_set_new(out, "KERNEL_GATEWAY", json_string("1"));
    if (rc) {
        json_decref(out);
        return NULL;
    }
    return out;
}

int jup_cwd(const char *path, char *out, size_t room)
{
    const char *base = path[0] == '/' ? "" : "/home/user";
    size_t n = strlen(base);
    if (n >= room)
        return -1;
    memcpy(out, base, n + 1);
    for (const char *p = path; *p;) {
        p += strspn(p, "/");
        size_t len = strcspn(p, "/");
        if (len == 2 && !memcmp(p, "..", 2))
            return -1;
        if (len && !(len == 1 && p[0] == '.')) {
            if (n + 1 + len >= room)
                return -1;
            out[n++] = '/';
            memcpy(out + n, p, len);
            out[n += len] = 0;
        }
        p += len;
    }
    if (!n)
        memcpy(out, "/", 2);
    return 0;
}
