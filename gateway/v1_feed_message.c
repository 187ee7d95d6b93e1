// Parses what a client sends on the stream of a session. Pure; the socket is v1_feed.c's.
#include "gateway/v1_feed.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"

#include <string.h>

static const struct {
    const char *type;
    enum v1_feed_verb verb;
} verbs[] = {
    {"execute", V1_FEED_EXECUTE},
    {"stdin", V1_FEED_STDIN},
    {"cancel", V1_FEED_CANCEL},
    {"interrupt", V1_FEED_INTERRUPT},
};

static int verb_of(const char *type, struct v1_feed_message *out, struct ck_err *err)
{
    for (size_t i = 0; type && i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(type, verbs[i].type)) {
            out->verb = verbs[i].verb;
            return 0;
        }
    return ck_fail(err, 400, "bad_field", "field \"type\" must be execute, stdin, cancel or interrupt");
}

// What is left of the message when the fields that all have are taken away. New reference.
static json_t *rest_of(const json_t *body, bool cell)
{
    json_t *rest = json_copy((json_t *)body);
    json_object_del(rest, "type");
    json_object_del(rest, "ref");
    if (cell)
        json_object_del(rest, "cell");
    return rest;
}

static int check_rest(struct v1_feed_message *out, json_t *rest, struct ck_err *err)
{
    static const char *const nothing[] = {"type", "ref", NULL}, *const with_cell[] = {"type", "ref", "cell", NULL};
    switch (out->verb) {
    case V1_FEED_EXECUTE:
        if (v1_cell_body_check(json_incref(rest), &out->execute, err))
            return -1;
        if (out->execute.output.wanted)
            return ck_fail(err, 400, "bad_field", "a stream sends output as it is: \"output\" goes with POST .../cells");
        if (out->execute.stdin_mode == V1_STDIN_LINES)
            return ck_fail(err, 400, "bad_field", "on a stream \"stdin\" can only be true: answer with stdin messages");
        return 0;
    case V1_FEED_STDIN:
        out->value = v1_stdin_body_check(rest, err);
        return out->value ? 0 : -1;
    case V1_FEED_CANCEL:
        return v1_body_only(rest, "a cancel message", with_cell, err);
    default:
        return v1_body_only(rest, "an interrupt message", nothing, err);
    }
}

int v1_feed_message_parse(struct ck_slice json, struct v1_feed_message *out, struct ck_err *err)
{
    memset(out, 0, sizeof *out);
    json_t *o = out->body = v1_body_object(json, false, err);
    if (!o)
        return -1;
    out->ref = ck_json_str(o, "ref", NULL, err);
    if (!err->status && out->ref && strlen(out->ref) > 200)
        ck_fail(err, 400, "bad_field", "field \"ref\" may be at most 200 bytes");
    const char *type = err->status ? NULL : ck_json_str(o, "type", NULL, err);
    if (err->status || verb_of(type, out, err))
        return -1;
    bool cell = out->verb == V1_FEED_STDIN || out->verb == V1_FEED_CANCEL;
    out->cell = cell ? ck_json_str(o, "cell", "", NULL) : NULL;
    if (cell && !ck_uuid_valid(out->cell))
        return ck_fail(err, 400, "bad_field", "field \"cell\" must be the id of a cell");
    json_t *rest = rest_of(o, cell);
    int rc = check_rest(out, rest, err);
    json_decref(rest); // its values live on in body, or in execute.body
    return rc;
}

void v1_feed_message_free(struct v1_feed_message *m)
{
    v1_cell_body_free(&m->execute);
    json_decref(m->body);
    memset(m, 0, sizeof *m);
}
