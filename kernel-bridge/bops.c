// Operation parsing: one row an operation, one function for its fields. The gateway is a peer, not a
// friend: everything is bounded and typed here, so that the rest of the bridge need not look again.
#include "kernel-bridge/bops.h"

#include "common/ck_ignore.h"
#include "common/ck_json.h"
#include "common/ck_name.h"
#include "common/ck_utf8.h"

#include <assert.h>
#include <stdlib.h>

typedef int (*fields_fn)(struct bop *b, struct ck_err *err);

static int need_cell(struct bop *b, struct ck_err *err)
{
    b->cell = ck_json_str(b->header, "cell", "", err);
    if (err->status)
        return -1;
    return ck_uuid_valid(b->cell) ? 0 : ck_fail(err, 400, "bad_field", "field \"cell\" must be a UUID");
}

static int get_path(struct bop *b, const char *key, const char **out, struct ck_err *err)
{
    char path[CK_NAME_MAX];
    char **keep = &b->bytes[b->bytes[0] != NULL];
    if (ck_name_get(b->header, key, path, err))
        return -1;
    if (!path[0])
        return ck_fail(err, 400, "bad_field", "field \"%s\" must be a path of 1 to %d bytes", key, CK_NAME_MAX - 1);
    *out = *keep = strdup(path);
    return *out ? 0 : ck_fail(err, 500, "no_memory", "no memory for a path");
}

static int check_env(json_t *env, struct ck_err *err)
{
    const char *key;
    json_t *value;
    if (env && json_object_size(env) > BOP_ENV_MAX)
        return ck_fail(err, 400, "bad_field", "at most %d environment variables are taken", BOP_ENV_MAX);
    json_object_foreach(env, key, value) {
        if (!*key || strchr(key, '=') || !json_is_string(value) ||
            strlen(json_string_value(value)) != json_string_length(value))
            return ck_fail(err, 400, "bad_field",
                           "environment variables need a name without \"=\" and a string without NUL as value");
    }
    return 0;
}

static int parse_claim(struct bop *b, struct ck_err *err)
{
    b->name = ck_json_str(b->header, "name", "", err);
    b->cwd = ck_json_str(b->header, "cwd", "", err);
    b->env = ck_json_obj(b->header, "kernel_env", err);
    b->limits = ck_json_obj(b->header, "limits", err);
    if (err->status)
        return -1;
    if (strlen(b->name) > 256 || strlen(b->cwd) > BOP_PATH_MAX)
        return ck_fail(err, 400, "bad_field", "\"name\" or \"cwd\" is too long");
    b->ignore = json_object_get(b->header, "artifact_ignore");
    if (b->ignore && ck_ignore_check(b->ignore, "artifact_ignore", err))
        return -1;
    return check_env(b->env, err);
}

static int parse_from(struct bop *b, struct ck_err *err)
{
    const json_t *from = json_object_get(b->header, "from");
    b->from_kind = BOP_FROM_NOW;
    if (json_is_integer(from) && json_integer_value(from) >= 0) {
        b->from_kind = BOP_FROM_SEQ;
        b->seq = (uint64_t)json_integer_value(from);
    } else if (json_is_string(from) && !strcmp(json_string_value(from), "resume")) {
        b->from_kind = BOP_FROM_RESUME;
    } else if (!json_is_string(from) || strcmp(json_string_value(from), "now")) {
        return ck_fail(err, 400, "bad_field", "field \"from\" must be a sequence number, \"resume\" or \"now\"");
    }
    return 0;
}

static int parse_attach(struct bop *b, struct ck_err *err)
{
    static const struct {
        const char *name;
        enum ev_mode mode;
    } modes[] = {{"jupyter", EV_MODE_JUPYTER}, {"all", EV_MODE_ALL}, {"cell", EV_MODE_CELL}, {"state", EV_MODE_STATE}};
    const char *mode = ck_json_str(b->header, "mode", "", err);
    b->consumer = ck_json_str(b->header, "consumer", "", err);
    if (err->status || parse_from(b, err))
        return -1;
    unsigned i = 0;
    while (i < 4 && strcmp(modes[i].name, mode))
        i++;
    if (i == 4)
        return ck_fail(err, 400, "bad_field", "field \"mode\" must be jupyter, all, cell or state");
    b->mode = modes[i].mode;
    size_t n = strlen(b->consumer);
    if (b->mode == EV_MODE_JUPYTER && (!n || n > 199))
        return ck_fail(err, 400, "bad_field", "mode jupyter needs \"consumer\" of 1 to 199 bytes");
    if (b->from_kind == BOP_FROM_RESUME && b->mode != EV_MODE_JUPYTER)
        return ck_fail(err, 400, "bad_field", "only mode jupyter can resume");
    return b->mode == EV_MODE_CELL ? need_cell(b, err) : 0;
}

static int parse_ack(struct bop *b, struct ck_err *err)
{
    int64_t seq = ck_json_int(b->header, "seq", -1, err);
    if (err->status || seq < 0)
        return ck_fail(err, 400, "bad_field", "field \"seq\" must be a sequence number");
    int64_t sent = ck_json_int(b->header, "sent", seq, err);
    if (err->status || sent < seq)
        return ck_fail(err, 400, "bad_field", "field \"sent\" must be a sequence number from \"seq\" on");
    b->seq = (uint64_t)seq;
    b->sent = (uint64_t)sent;
    return 0;
}

static int parse_send(struct bop *b, struct ck_err *err)
{
    const char *ch = ck_json_str(b->header, "ch", "", err);
    if (err->status)
        return -1;
    if (!jw_channel_from_name(ch, &b->channel) || b->channel == JW_IOPUB)
        return ck_fail(err, 400, "bad_field", "field \"ch\" must be shell, control or stdin");
    if (b->frame.nparts < 5 || b->frame.nparts - 5 > JW_BUFFERS_MAX)
        return ck_fail(err, 400, "bad_message", "a message has four JSON parts and at most %d buffers", JW_BUFFERS_MAX);
    return 0;
}

static int get_timeout(struct bop *b, struct ck_err *err)
{
    b->timeout_ms = ck_json_int(b->header, "timeout_ms", 0, err);
    if (err->status)
        return -1;
    if (b->timeout_ms < 0 || b->timeout_ms > BOP_TIMEOUT_MAX_MS)
        return ck_fail(err, 400, "bad_field", "field \"timeout_ms\" must be 0 to %lld", BOP_TIMEOUT_MAX_MS);
    return 0;
}

static int parse_execute(struct bop *b, struct ck_err *err)
{
    b->silent = ck_json_bool(b->header, "silent", false, err);
    b->allow_stdin = ck_json_bool(b->header, "allow_stdin", false, err);
    b->attach = ck_json_bool(b->header, "attach", false, err);
    b->url_prefix = ck_json_str(b->header, "url_prefix", "", err);
    if (err->status || need_cell(b, err) || get_timeout(b, err))
        return -1;
    if (strlen(b->url_prefix) > 500)
        return ck_fail(err, 400, "bad_field", "field \"url_prefix\" is too long");
    if (b->frame.nparts != 2)
        return ck_fail(err, 400, "bad_frame", "execute needs one part: the code");
    struct ck_slice code = ck_frame_part(&b->frame, 1);
    size_t at;
    if (!ck_utf8_valid(code.p, code.n, &at))
        return ck_fail(err, 400, "bad_code", "the code is not valid UTF-8 at byte %zu", at);
    return 0;
}

static int parse_stdin(struct bop *b, struct ck_err *err)
{
    // input() may be given any text, NUL included: the value is read by its length.
    const json_t *v = json_object_get(b->header, "value");
    if (!json_is_string(v))
        return ck_fail(err, 400, "bad_field", "field \"value\" must be a string");
    b->value = json_string_value(v);
    b->length = (int64_t)json_string_length(v);
    return need_cell(b, err);
}

static int parse_path(struct bop *b, struct ck_err *err) { return get_path(b, "path", &b->path, err); }

static int parse_list(struct bop *b, struct ck_err *err)
{
    b->limit = ck_json_int(b->header, "limit", -1, err);
    return err->status ? -1 : parse_path(b, err);
}

static int parse_read(struct bop *b, struct ck_err *err)
{
    b->offset = ck_json_int(b->header, "offset", 0, err);
    b->length = ck_json_int(b->header, "length", -1, err);
    b->etag = ck_json_str(b->header, "etag", "", err);
    if (err->status || parse_path(b, err))
        return -1;
    if (b->offset < 0 || b->length < -1 || strlen(b->etag) > 200)
        return ck_fail(err, 400, "bad_field", "\"offset\", \"length\" or \"etag\" is out of range");
    return 0;
}

static int parse_write(struct bop *b, struct ck_err *err)
{
    b->file_mode = ck_json_int(b->header, "mode", -1, err);
    if (!err->status && (b->file_mode < -1 || b->file_mode > 07777))
        return ck_fail(err, 400, "bad_field", "field \"mode\" must be 0 to 4095");
    return err->status ? -1 : parse_path(b, err);
}

static int parse_data(struct bop *b, struct ck_err *err)
{
    if (b->frame.nparts != 2 || ck_frame_part(&b->frame, 1).n > BOP_CHUNK_MAX)
        return ck_fail(err, 400, "bad_frame", "data needs one part of at most %d bytes", BOP_CHUNK_MAX);
    return 0;
}

static int parse_remove(struct bop *b, struct ck_err *err)
{
    b->recursive = ck_json_bool(b->header, "recursive", false, err);
    return err->status ? -1 : parse_path(b, err);
}

static int parse_move(struct bop *b, struct ck_err *err)
{
    return get_path(b, "from", &b->path, err) || get_path(b, "to", &b->to, err) ? -1 : 0;
}

static int check_argv(json_t *argv, struct ck_err *err)
{
    if (!json_is_array(argv) || !json_array_size(argv) || json_array_size(argv) > BOP_ARGV_MAX)
        return ck_fail(err, 400, "bad_field", "field \"argv\" must be a list of 1 to %d strings", BOP_ARGV_MAX);
    size_t i;
    json_t *v;
    json_array_foreach(argv, i, v) {
        if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
            return ck_fail(err, 400, "bad_field", "field \"argv\" must hold strings without NUL");
    }
    return 0;
}

static int parse_command(struct bop *b, struct ck_err *err)
{
    b->cmd = ck_json_str(b->header, "cmd", NULL, err);
    b->argv = json_object_get(b->header, "argv");
    b->cwd = ck_json_str(b->header, "cwd", "", err);
    b->env = ck_json_obj(b->header, "env", err);
    b->url_prefix = ck_json_str(b->header, "url_prefix", "", err);
    if (json_is_null(b->argv))
        b->argv = NULL;
    if (err->status || get_timeout(b, err) || check_env(b->env, err))
        return -1;
    if (strlen(b->url_prefix) > 500 || b->frame.nparts > 2)
        return ck_fail(err, 400, "bad_field", "\"url_prefix\" is too long or there are too many parts");
    if (!b->cmd == !b->argv)
        return ck_fail(err, 400, "bad_field", "a command needs either \"cmd\" or \"argv\"");
    return b->argv ? check_argv(b->argv, err) : 0;
}

static int parse_layer(struct bop *b, struct ck_err *err)
{
    b->layer = ck_json_str(b->header, "layer", "", err);
    if (!err->status && !ck_uuid_valid(b->layer)) // it becomes the name of a folder
        ck_fail(err, 400, "bad_field", "field \"layer\" must be a UUID");
    return err->status ? -1 : 0;
}

static int parse_shutdown(struct bop *b, struct ck_err *err)
{
    b->why = ck_json_str(b->header, "why", "this session was shut down", err);
    if (!err->status && strlen(b->why) > BOP_WHY_MAX)
        ck_fail(err, 400, "bad_field", "field \"why\" may have at most %d bytes", BOP_WHY_MAX);
    return err->status ? -1 : 0;
}

static int parse_nothing(struct bop *b, struct ck_err *err)
{
    (void)b;
    (void)err;
    return 0;
}

static const struct {
    const char *name;
    fields_fn fields;
    bool no_rid; // none is needed
} table[] = {
    [BOP_INFO] = {"info", parse_nothing, false},
    [BOP_CLAIM] = {"claim", parse_claim, false},
    [BOP_ATTACH] = {"attach", parse_attach, false},
    [BOP_ACK] = {"ack", parse_ack, true},
    [BOP_SEND] = {"send", parse_send, true},
    [BOP_EXECUTE] = {"execute", parse_execute, false},
    [BOP_CELL] = {"cell", need_cell, false},
    [BOP_CANCEL] = {"cancel", need_cell, false},
    [BOP_STDIN] = {"stdin", parse_stdin, false},
    [BOP_INTERRUPT] = {"interrupt", parse_nothing, false},
    [BOP_RESTART] = {"restart", parse_nothing, false},
    [BOP_FILE_STAT] = {"file_stat", parse_path, false},
    [BOP_FILE_LIST] = {"file_list", parse_list, false},
    [BOP_FILE_READ] = {"file_read", parse_read, false},
    [BOP_FILE_WRITE] = {"file_write", parse_write, false},
    [BOP_DATA] = {"data", parse_data, false},
    [BOP_DATA_END] = {"data_end", parse_nothing, false},
    [BOP_DATA_ABORT] = {"data_abort", parse_nothing, false},
    [BOP_FILE_REMOVE] = {"file_remove", parse_remove, false},
    [BOP_FILE_MKDIR] = {"file_mkdir", parse_path, false},
    [BOP_FILE_MOVE] = {"file_move", parse_move, false},
    [BOP_COMMAND] = {"command", parse_command, false},
    [BOP_USAGE] = {"usage", parse_nothing, false},
    [BOP_CHECKPOINT] = {"checkpoint", parse_layer, false},
    [BOP_ROLLBACK] = {"rollback", parse_layer, false},
    [BOP_PAUSE] = {"pause", parse_layer, false},
    [BOP_SHUTDOWN] = {"shutdown", parse_shutdown, false},
};
static_assert(sizeof table / sizeof *table == BOP_KINDS, "a row for each operation");

const char *bop_name(enum bop_kind k) { return table[k].name; }

int bop_parse(const struct ck_frame *f, struct bop *out, struct ck_err *err)
{
    *out = (struct bop){.frame = *f, .offset = -1, .length = -1, .limit = -1, .file_mode = -1};
    struct ck_slice head = ck_frame_part(f, 0);
    struct ck_err e = CK_ERR_INIT;
    *err = e; // the field getters keep an error that is already set
    out->header = ck_json_parse_object(head.p, head.n, false, err);
    if (!out->header)
        return -1;
    const json_t *rid = json_object_get(out->header, "rid");
    out->has_rid = json_is_integer(rid);
    out->rid = json_integer_value(rid);
    const char *op = ck_json_str(out->header, "op", "", err);
    if (err->status)
        return -1;
    unsigned k = 0;
    while (k < BOP_KINDS && strcmp(table[k].name, op))
        k++;
    if (k == BOP_KINDS)
        return ck_fail(err, 400, "unknown_op", "there is no operation \"%.40s\"", op);
    out->kind = (enum bop_kind)k;
    if (!out->has_rid && !table[k].no_rid)
        return ck_fail(err, 400, "bad_field", "operation \"%s\" needs a number \"rid\"", op);
    return table[k].fields(out, err);
}

void bop_free(struct bop *b)
{
    json_decref(b->header);
    free(b->bytes[0]);
    free(b->bytes[1]);
    b->header = NULL;
    b->bytes[0] = b->bytes[1] = NULL;
}
