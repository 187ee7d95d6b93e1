// Validation of session fields, the same for every door.
#include "gateway/registry_check.h"

#include "common/ck_ignore.h"
#include "common/ck_utf8.h"

#include <string.h>

#define NAME_MAX_BYTES 128
#define METADATA_MAX (64 * 1024)
#define ENV_MAX 256
#define ENV_BYTES_MAX (64 * 1024)
#define CWD_MAX 4096
#define TIMEOUT_MAX_S (365LL * 24 * 3600)
#define CELL_MAX_S (7LL * 24 * 3600)

static int bad(struct ck_err *err, const char *field, const char *want)
{
    return ck_fail(err, 400, "bad_field", "\"%s\" must be %s", field, want);
}

static bool has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return true;
    return false;
}

int check_name(const char *name, struct ck_err *err)
{
    size_t n = strlen(name);
    if (!n || n > NAME_MAX_BYTES || has_control(name) || !ck_utf8_valid(name, n, NULL))
        return bad(err, "name", "1 to 128 bytes of text without control characters");
    return 0;
}

int check_checkpoint_name(const char *name, struct ck_err *err)
{
    size_t n = strlen(name);
    if (!n || n > NAME_MAX_BYTES || has_control(name) || strchr(name, '/') || ck_uuid_valid(name) || !ck_utf8_valid(name, n, NULL))
        return bad(err, "name", "1 to 128 bytes of text without slashes and control characters, and no id");
    return 0;
}

int check_metadata(const json_t *metadata, struct ck_err *err)
{
    if (!json_is_object(metadata) || json_dumpb(metadata, NULL, 0, JSON_COMPACT) > METADATA_MAX)
        return bad(err, "metadata", "an object of at most 64 KiB");
    return 0;
}

int check_timeouts(const json_t *timeouts, struct ck_err *err)
{
    static const char *const known[] = {"cell_s", "idle_s", "delete_s"};
    const char *key;
    const json_t *v;
    if (!json_is_object(timeouts))
        return bad(err, "timeouts", "an object with cell_s, idle_s and delete_s");
    json_object_foreach((json_t *)(uintptr_t)timeouts, key, v) {
        size_t i = 0;
        while (i < 3 && strcmp(key, known[i]))
            i++;
        if (i == 3)
            return ck_fail(err, 400, "bad_field", "\"timeouts\" has cell_s, idle_s and delete_s, not \"%.60s\"", key);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > (i ? TIMEOUT_MAX_S : CELL_MAX_S))
            return bad(err, key, i ? "whole seconds, 0 (never) to 31536000" : "whole seconds, 0 (no limit) to 604800");
    }
    return 0;
}

int check_env(const json_t *env, struct ck_err *err)
{
    const char *key;
    const json_t *v;
    size_t bytes = 0;
    if (!json_is_object(env))
        return bad(err, "env", "an object of names and text values");
    if (json_object_size(env) > ENV_MAX)
        return bad(err, "env", "at most 256 variables");
    json_object_foreach((json_t *)(uintptr_t)env, key, v) {
        const char *text = json_string_value(v);
        if (!*key || strchr(key, '=') || !text || strlen(text) != json_string_length(v))
            return bad(err, "env", "names without \"=\" and text values without NUL");
        bytes += strlen(key) + strlen(text) + 2;
    }
    return bytes > ENV_BYTES_MAX ? bad(err, "env", "at most 64 KiB in all") : 0;
}

int check_spec(const struct session_spec *spec, struct ck_err *err)
{
    if (spec->template_name && (!*spec->template_name || strlen(spec->template_name) > NAME_MAX_BYTES || has_control(spec->template_name)))
        return bad(err, "template", "the name of a template");
    if (spec->cwd && (*spec->cwd != '/' || strlen(spec->cwd) > CWD_MAX || has_control(spec->cwd)))
        return bad(err, "cwd", "an absolute path");
    if ((spec->name && check_name(spec->name, err)) || (spec->metadata && check_metadata(spec->metadata, err)) ||
        (spec->timeouts && check_timeouts(spec->timeouts, err)) || (spec->env && check_env(spec->env, err)) ||
        (spec->artifact_ignore && ck_ignore_check(spec->artifact_ignore, "artifact_ignore", err)))
        return -1;
    return 0;
}
