// `cellkeep token ...`: tokens of a running gateway. The only place that prints one, once.
#include "gateway/cli.h"
#include "gateway/cli_internal.h"

#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_json.h"

#include <stdlib.h>
#include <string.h>

static const char *env(const char *name) { return getenv(name); }

static void print_json(const json_t *o)
{
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
}

static int create(struct cli_client *c, const struct cli_token_args *a, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *body =
        json_pack("{s:s,s:i}", "name", a->name ? a->name : "", "max_sessions", a->max_sessions);
    CK_CLEAN_JSON json_t *made = NULL;
    if (!body)
        return ck_fail(err, 400, "usage", "--name must be UTF-8");
    if (cli_request(c, "POST", "/v1/tokens", body, &made, err))
        return -1;
    if (a->json)
        print_json(made);
    else
        printf("%s\n", ck_json_str(made, "token", "", NULL));
    return 0;
}

static int list(struct cli_client *c, const struct cli_token_args *a, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *all = NULL;
    size_t i;
    json_t *t;
    if (cli_request(c, "GET", "/v1/tokens", NULL, &all, err))
        return -1;
    if (a->json) {
        print_json(all);
        return 0;
    }
    printf("%-24s  %-36s  %-12s  %s\n", "NAME", "ID", "MAX SESSIONS", "CREATED (UTC)");
    json_array_foreach (all, i, t) {
        int64_t max = ck_json_int(t, "max_sessions", 0, NULL);
        char text[24] = "-";
        if (max)
            snprintf(text, sizeof text, "%lld", (long long)max);
        printf("%-24s  %-36s  %-12s  %.19s\n", ck_json_str(t, "name", "", NULL), ck_json_str(t, "id", "", NULL), text,
               ck_json_str(t, "created_at", "", NULL));
    }
    return 0;
}

// The id that a name or an id means. A name that several tokens have means none.
static const char *id_of(const json_t *all, const char *which, struct ck_err *err)
{
    const char *found = NULL;
    size_t i;
    json_t *t;
    json_array_foreach ((json_t *)(uintptr_t)all, i, t) {
        const char *id = ck_json_str(t, "id", "", NULL);
        if (!strcmp(id, which))
            return id;
        if (strcmp(ck_json_str(t, "name", "", NULL), which))
            continue;
        if (found) {
            ck_fail(err, 409, "ambiguous", "several tokens have the name %.100s: give an id", which);
            return NULL;
        }
        found = id;
    }
    if (!found)
        ck_fail(err, 404, "no_such_token", "there is no token %.100s: cellkeep token list shows them", which);
    return found;
}

static int revoke_all(struct cli_client *c, const struct cli_token_args *a, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *all = NULL;
    if (cli_request(c, "GET", "/v1/tokens", NULL, &all, err))
        return -1;
    for (int i = 0; i < a->nids; i++) {
        char path[128];
        const char *id = id_of(all, a->ids[i], err);
        if (!id)
            return -1;
        if (!ck_uuid_valid(id))
            return ck_fail(err, 502, "bad_answer", "the gateway's answer has no id");
        snprintf(path, sizeof path, "/v1/tokens/%s", id);
        if (cli_request(c, "DELETE", path, NULL, NULL, err))
            return -1;
    }
    return 0;
}

int ck_cmd_token(int argc, char **argv)
{
    static int (*const run[])(struct cli_client *, const struct cli_token_args *, struct ck_err *) = {create, list,
                                                                                                      revoke_all};
    struct ck_err err = CK_ERR_INIT;
    struct cli_token_args a;
    struct cli_client c;
    int rc = cli_token_args_parse(argc, argv, env, &a, &err);
    if (rc > 0) {
        fputs(cli_token_help, stdout);
        return 0;
    }
    if (rc < 0)
        return cli_usage("token", &err);
    rc = cli_client_open(&a.target, &c, &err) || run[a.verb](&c, &a, &err) ? cli_fail(&err) : 0;
    cli_client_close(&c);
    return rc;
}
