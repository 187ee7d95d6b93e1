// What a session may use, beside its memory and its times: the "limits" of the API, each with a default
// and a maximum of the server's (--limit-NAME DEFAULT[:MAXIMUM]). Pure.
#pragma once
#include "common/ck_error.h"

#include <jansson.h>
#include <stdint.h>

enum cap {
    CAP_CPU_WEIGHT,
    CAP_DISK_MB,
    CAP_PIDS,
    CAP_OPEN_FILES,
    CAP_OUTPUT_MB,
    CAP_MESSAGE_MB,
    CAP_ARTIFACTS,
    CAP_ARTIFACT_MB,
    CAP_UPLOAD_MB,
    CAPS
};
#define CAP_DISK_ALL_MB 4096 // the disk that templates are made with

struct cap_range {
    int usual, max;
};
struct caps {
    int v[CAPS];
};

struct cap_info {
    const char *name;    // in the API; as an option: --limit- and '-' for '_'
    int min, usual, max; // max: beyond it nothing would work
};
extern const struct cap_info cap_infos[CAPS];

void caps_ranges(struct cap_range out[CAPS]); // those of a server that was told nothing
void caps_usual(const struct cap_range server[CAPS], struct caps *out);
// limits: the client's object, NULL = nothing asked. 400 "bad_field" or "unknown_field"; names the maximum.
int caps_parse(const json_t *limits, const struct cap_range server[CAPS], struct caps *out, struct ck_err *err);
json_t *caps_json(const struct caps *c); // new reference
// As stored by an earlier gateway, whose maxima may have been others; what is missing is usual.
void caps_read(const json_t *stored, const struct cap_range server[CAPS], struct caps *out);
// All that a session's bridge is told of its limits; timeouts: the session's, NULL = it has none of its own. New reference.
struct config;
json_t *caps_for_bridge(const struct caps *c, const struct config *server, const json_t *timeouts);
// A cell's time beyond the server's maximum, where 0 is none: 400 "bad_field".
int caps_check_timeouts(const json_t *timeouts, const struct config *server, struct ck_err *err);
uint64_t caps_bytes(const struct caps *c, enum cap which); // of one in MiB
