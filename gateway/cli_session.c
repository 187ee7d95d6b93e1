// `cellkeep session ...`: sessions of a running gateway as a table for people or JSON for programs.
#include "gateway/cli.h"
#include "gateway/cli_internal.h"

#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_json.h"

#include <stdlib.h>
#include <string.h>

int cli_fail(const struct ck_err *err)
{
    fprintf(stderr, "cellkeep: %s\n", err->text);
    return 1;
}

int cli_usage(const char *command, const struct ck_err *err)
{
    fprintf(stderr, "cellkeep %s: %s\nTry: cellkeep %s --help\n", command, err->text, command);
    return 2;
}

const char *cli_session_id(const json_t *session)
{
    const char *id = ck_json_str(session, "id", "", NULL);
    return ck_uuid_valid(id) ? id : "";
}

json_t *cli_find_session(struct cli_client *c, const char *name_or_id, struct ck_err *err)
{
    char path[128];
    json_t *found = NULL;
    if (ck_uuid_valid(name_or_id)) {
        snprintf(path, sizeof path, "/v1/sessions/%s", name_or_id);
        if (!cli_request(c, "GET", path, NULL, &found, err) || err->status != 404)
            return found;
        memset(err, 0, sizeof *err); // a name may look like an id
    }
    char *escaped = curl_easy_escape(c->curl, name_or_id, 0);
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    int rc = ck_buf_printf(&b, "/v1/sessions?name=%s", escaped ? escaped : "") || ck_buf_add(&b, "", 1) ? -1 : 0;
    curl_free(escaped);
    CK_CLEAN_JSON json_t *list = NULL;
    if (rc || cli_request(c, "GET", (const char *)b.p, NULL, &list, err))
        return NULL;
    if (!json_array_size(list)) {
        ck_fail(err, 404, "no_such_session", "there is no session %.100s: cellkeep session list shows them", name_or_id);
        return NULL;
    }
    return json_incref(json_array_get(list, json_array_size(list) - 1));
}

static void print_row(const char *const cells[6]) { printf("%-20s  %-36s  %-8s  %6s  %-19s  %-19s\n", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]); }

static void print_table(const json_t *list)
{
    size_t i;
    json_t *s;
    print_row((const char *const[]){"NAME", "ID", "STATE", "MB", "CREATED (UTC)", "LAST ACTIVITY"});
    json_array_foreach (list, i, s) {
        char mb[24], created[20], active[20];
        snprintf(mb, sizeof mb, "%lld", (long long)ck_json_int(s, "memory_mb", 0, NULL));
        snprintf(created, sizeof created, "%.19s", ck_json_str(s, "created_at", "", NULL));
        snprintf(active, sizeof active, "%.19s", ck_json_str(s, "last_activity", "", NULL));
        print_row((const char *const[]){ck_json_str(s, "name", "", NULL), cli_session_id(s),
                                        ck_json_str(s, "state", "", NULL), mb, created, active});
    }
}

static void print_checkpoints(const json_t *list)
{
    size_t i;
    json_t *c;
    printf("%-30s  %-36s  %9s  %-19s\n", "CHECKPOINT", "ID", "KB", "CREATED (UTC)");
    json_array_foreach (list, i, c)
        printf("%-30s  %-36s  %9lld  %.19s\n", ck_json_str(c, "name", "", NULL), cli_session_id(c),
               (long long)ck_json_int(c, "bytes", 0, NULL) / 1024, ck_json_str(c, "created_at", "", NULL));
}

static void print_sessions(json_t *list, enum cli_session_verb verb, bool single, bool json)
{
    if (!json) {
        bool checkpoints = verb == CLI_SESSION_CHECKPOINT || verb == CLI_SESSION_CHECKPOINTS;
        (checkpoints ? print_checkpoints : print_table)(list);
        return;
    }
    json_dumpf(single ? json_array_get(list, 0) : list, stdout, JSON_INDENT(2));
    putchar('\n');
}

// One verb on one named session; its JSON is appended to list when there is one.
static int act_on(struct cli_client *c, const struct cli_session_args *a, const char *name, json_t *list, struct ck_err *err)
{
    static const struct {
        const char *method, *suffix;
    } how[CLI_SESSION_VERBS] = {
        [CLI_SESSION_GET] = {"GET", ""},
        [CLI_SESSION_DELETE] = {"DELETE", ""},
        [CLI_SESSION_INTERRUPT] = {"POST", "/interrupt"},
        [CLI_SESSION_RESTART] = {"POST", "/restart"},
        [CLI_SESSION_PAUSE] = {"POST", "/pause"},
        [CLI_SESSION_RESUME] = {"POST", "/resume"},
        [CLI_SESSION_FORK] = {"POST", "/fork"},
        [CLI_SESSION_CHECKPOINT] = {"POST", "/checkpoints"},
        [CLI_SESSION_CHECKPOINTS] = {"GET", "/checkpoints"},
        [CLI_SESSION_ROLLBACK] = {"POST", "/rollback"},
    };
    CK_CLEAN_JSON json_t *s = cli_find_session(c, name, err);
    CK_CLEAN_JSON json_t *answer = NULL;
    CK_CLEAN_JSON json_t *body = json_object();
    char path[128];
    if (!s)
        return -1;
    if (a->verb == CLI_SESSION_CHECKPOINT && a->name)
        json_object_set_new(body, "name", json_string(a->name));
    if (a->count)
        json_object_set_new(body, "count", json_integer(a->count));
    if (a->checkpoint)
        json_object_set_new(body, "checkpoint", json_string(a->checkpoint));
    snprintf(path, sizeof path, "/v1/sessions/%s%s", cli_session_id(s), how[a->verb].suffix);
    if (cli_request(c, how[a->verb].method, path, json_object_size(body) ? body : NULL, &answer, err))
        return -1;
    if (json_is_array(answer))
        json_array_extend(list, answer);
    else if (answer)
        json_array_append(list, answer);
    return 0;
}

static int list_all(struct cli_client *c, json_t *list, struct ck_err *err)
{
    char path[128] = "/v1/sessions?limit=1000";
    for (;;) {
        CK_CLEAN_JSON json_t *page = NULL;
        if (cli_request(c, "GET", path, NULL, &page, err))
            return -1;
        size_t n = json_array_size(page);
        json_array_extend(list, page);
        if (n < 1000)
            return 0;
        snprintf(path, sizeof path, "/v1/sessions?limit=1000&after=%s", cli_session_id(json_array_get(page, n - 1)));
    }
}

static int act(struct cli_client *c, const struct cli_session_args *a, json_t *list, struct ck_err *err)
{
    if (a->verb == CLI_SESSION_LIST)
        return list_all(c, list, err);
    if (a->verb == CLI_SESSION_CREATE) {
        CK_CLEAN_JSON json_t *body = a->name ? json_pack("{s:s}", "name", a->name) : json_object();
        json_t *s = NULL;
        if (cli_request(c, "POST", "/v1/sessions", body, &s, err))
            return -1;
        json_array_append_new(list, s);
        return 0;
    }
    for (int i = 0; i < a->nids; i++)
        if (act_on(c, a, a->ids[i], list, err))
            return -1;
    return 0;
}

static const char *env(const char *name) { return getenv(name); }

int ck_cmd_session(int argc, char **argv)
{
    struct ck_err err = CK_ERR_INIT;
    struct cli_session_args a;
    int rc = cli_session_args_parse(argc, argv, env, &a, &err);
    if (rc > 0) {
        fputs(cli_session_help, stdout);
        return 0;
    }
    if (rc < 0)
        return cli_usage("session", &err);
    struct cli_client c;
    CK_CLEAN_JSON json_t *list = json_array();
    rc = cli_client_open(&a.target, &c, &err) || act(&c, &a, list, &err) ? cli_fail(&err) : 0;
    cli_client_close(&c);
    bool many = a.verb == CLI_SESSION_LIST || a.verb == CLI_SESSION_FORK || a.verb == CLI_SESSION_CHECKPOINTS;
    bool single = a.verb == CLI_SESSION_CREATE || (!many && a.nids == 1);
    if (a.verb != CLI_SESSION_DELETE && (!rc || json_array_size(list)))
        print_sessions(list, a.verb, single, a.json);
    return rc;
}
