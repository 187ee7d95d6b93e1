// The table of limits and what is done with all of them alike. Every message says which, and what would
// have been right.
#include "gateway/caps.h"

#include "common/ck_json.h"
#include "gateway/config.h"

#include <string.h>

const struct cap_info cap_infos[CAPS] = {
    [CAP_CPU_WEIGHT] = {"cpu_weight", 1, 100, 100},
    [CAP_DISK_MB] = {"disk_mb", 64, CAP_DISK_ALL_MB, CAP_DISK_ALL_MB},
    [CAP_PIDS] = {"pids", 32, 256, 4096},
    [CAP_OPEN_FILES] = {"open_files", 256, 65536, 65536},
    [CAP_OUTPUT_MB] = {"output_mb", 1, 10, 20},
    [CAP_MESSAGE_MB] = {"message_mb", 1, 104, 104},
    [CAP_ARTIFACTS] = {"artifacts", 0, 200, 200},
    [CAP_ARTIFACT_MB] = {"artifact_mb", 1, CAP_DISK_ALL_MB, CAP_DISK_ALL_MB},
    [CAP_UPLOAD_MB] = {"upload_mb", 1, CAP_DISK_ALL_MB, CAP_DISK_ALL_MB},
};

void caps_ranges(struct cap_range out[CAPS])
{
    for (int i = 0; i < CAPS; i++)
        out[i] = (struct cap_range){cap_infos[i].usual, cap_infos[i].max};
    out[CAP_PIDS].max = 1024;
}

void caps_usual(const struct cap_range server[CAPS], struct caps *out)
{
    for (int i = 0; i < CAPS; i++)
        out->v[i] = server[i].usual;
}

static int index_of(const char *name)
{
    for (int i = 0; i < CAPS; i++)
        if (!strcmp(name, cap_infos[i].name))
            return i;
    return -1;
}

static int unknown(const char *name, struct ck_err *err)
{
    char all[200];
    size_t n = 0;
    for (int i = 0; i < CAPS; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", cap_infos[i].name);
    return ck_fail(err, 400, "unknown_field", "unknown field \"%.64s\" in \"limits\": known are %s", name, all);
}

int caps_parse(const json_t *limits, const struct cap_range server[CAPS], struct caps *out, struct ck_err *err)
{
    const char *name;
    json_t *v;
    caps_usual(server, out);
    json_object_foreach((json_t *)(uintptr_t)limits, name, v) {
        int i = index_of(name);
        if (i < 0)
            return unknown(name, err);
        if (json_is_null(v))
            continue;
        int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;
        if (!json_is_integer(v) || n < cap_infos[i].min || n > server[i].max)
            return ck_fail(err, 400, "bad_field", "\"limits.%s\" must be a whole number from %d to %d, which is this server's maximum",
                           name, cap_infos[i].min, server[i].max);
        out->v[i] = (int)n;
    }
    return 0;
}

json_t *caps_json(const struct caps *c)
{
    json_t *o = json_object();
    for (int i = 0; i < CAPS; i++)
        json_object_set_new(o, cap_infos[i].name, json_integer(c->v[i]));
    return o;
}

void caps_read(const json_t *stored, const struct cap_range server[CAPS], struct caps *out)
{
    caps_usual(server, out);
    for (int i = 0; i < CAPS; i++) {
        int64_t v = ck_json_int(stored, cap_infos[i].name, out->v[i], NULL);
        if (v >= cap_infos[i].min && v <= cap_infos[i].max)
            out->v[i] = (int)v;
    }
}

uint64_t caps_bytes(const struct caps *c, enum cap which) { return (uint64_t)c->v[which] << 20; }

int caps_check_timeouts(const json_t *timeouts, const struct config *server, struct ck_err *err)
{
    int64_t max_s = server->max_cell_timeout_ms / 1000, cell_s = ck_json_int(timeouts, "cell_s", 0, NULL);
    if (max_s && cell_s > max_s)
        return ck_fail(err, 400, "bad_field", "\"timeouts.cell_s\" may be at most %lld: that is this server's maximum",
                       (long long)max_s);
    return 0;
}

json_t *caps_for_bridge(const struct caps *c, const struct config *server, const json_t *timeouts)
{
    int64_t cell_ms = 1000 * ck_json_int(timeouts, "cell_s", server->cell_timeout_ms / 1000, NULL);
    json_t *limits = json_pack("{s:I,s:I,s:I,s:I,s:I}", "cell_ms", (json_int_t)cell_ms, "cell_max_ms",
                               (json_int_t)server->max_cell_timeout_ms, "command_ms",
                               (json_int_t)server->command_timeout_ms, "command_max_ms",
                               (json_int_t)server->max_command_timeout_ms, "kernel_start_ms",
                               (json_int_t)server->kernel_start_ms);
    const struct {
        const char *name;
        uint64_t value;
    } given[] = {
        {"cpu_weight", (uint64_t)c->v[CAP_CPU_WEIGHT]},
        {"disk_bytes", c->v[CAP_DISK_MB] < CAP_DISK_ALL_MB ? caps_bytes(c, CAP_DISK_MB) : 0},
        {"pids", (uint64_t)c->v[CAP_PIDS]},
        {"open_files", (uint64_t)c->v[CAP_OPEN_FILES]},
        {"output_bytes", caps_bytes(c, CAP_OUTPUT_MB)},
        {"message_bytes", caps_bytes(c, CAP_MESSAGE_MB)},
        {"artifact_max", (uint64_t)c->v[CAP_ARTIFACTS]},
        {"artifact_bytes", caps_bytes(c, CAP_ARTIFACT_MB)},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        json_object_set_new(limits, given[i].name, json_integer((json_int_t)given[i].value));
    return limits;
}
