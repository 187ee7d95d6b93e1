// `cellkeep run`: code in, output on the terminal, files saved, the cell's exit code out. A temporary
// session is deleted however the run ends.
#include "gateway/cli_run.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "gateway/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_MAX (32u * 1024 * 1024)
#define EXIT_INTERRUPTED 130

static const char *env(const char *name) { return getenv(name); }

static int read_stdin(struct ck_buf *out, struct ck_err *err)
{
    char piece[65536];
    size_t n;
    out->cap = CODE_MAX;
    while ((n = fread(piece, 1, sizeof piece, stdin)))
        if (ck_buf_add(out, piece, n))
            return ck_fail(err, 413, "too_large", "the code on standard input is over %u bytes", CODE_MAX);
    return ferror(stdin) ? ck_fail(err, 400, "read_failed", "cannot read the code from standard input") : 0;
}

static json_t *request_of(const struct cli_run_args *a, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf code = CK_BUF_INIT;
    int rc = a->code                ? ck_buf_add_str(&code, a->code)
             : !strcmp(a->file, "-") ? read_stdin(&code, err)
                                     : ck_read_file(a->file, CODE_MAX, &code, err);
    json_t *text = rc ? NULL : json_stringn(code.n ? (const char *)code.p : "", code.n);
    if (!text) {
        if (!err->status)
            ck_fail(err, 400, "bad_utf8", "the code is not valid UTF-8 text");
        return NULL;
    }
    json_t *o = json_pack("{s:o}", "code", text);
    if (a->timeout_ms)
        json_object_set_new(o, "timeout_s", json_real((double)a->timeout_ms / 1000));
    if (!a->file || strcmp(a->file, "-"))
        json_object_set_new(o, "stdin", json_true());
    return o;
}

// The session to run in: the named one (made if it is not there), or a temporary one.
static json_t *session_of(struct cli_client *c, const char *name, struct ck_err *err)
{
    json_t *s = name ? cli_find_session(c, name, err) : NULL;
    if (s || (name && err->status != 404))
        return s;
    memset(err, 0, sizeof *err);
    CK_CLEAN_JSON json_t *body = json_pack("{s:s}", "name", name ? name : "cellkeep run");
    return cli_request(c, "POST", "/v1/sessions", body, &s, err) ? NULL : s;
}

static void delete_session(struct cli_client *c, const char *id)
{
    char path[128];
    struct ck_err err = CK_ERR_INIT;
    snprintf(path, sizeof path, "/v1/sessions/%s", id);
    if (cli_request(c, "DELETE", path, NULL, NULL, &err) && err.status != 404)
        cli_fail(&err);
}

static void print_finished(const json_t *finished)
{
    json_dumpf(finished, stdout, JSON_INDENT(2));
    putchar('\n');
}

// Why a cell that did not just end or fail in Python ended: its output does not say it.
static void explain(const json_t *finished)
{
    const char *status = ck_json_str(finished, "status", "", NULL);
    const char *detail = ck_json_str(finished, "detail", "", NULL);
    if (strcmp(status, "ok") && strcmp(status, "error"))
        fprintf(stderr, "cellkeep: the cell ended: %.40s%s%.400s\n", status, *detail ? ": " : "", detail);
}

static int run_in(struct cli_client *c, const struct cli_run_args *a, const char *session, json_t *request)
{
    struct ck_err err = CK_ERR_INIT;
    for (unsigned i = 0; i < a->nuploads && !cli_stopped(); i++)
        if (cli_upload(c, session, a->uploads[i], &err))
            return cli_fail(&err);
    if (cli_stopped())
        return EXIT_INTERRUPTED;
    struct cli_cell cell = {
        .session = session,
        .request = request,
        .quiet = a->json,
        .ansi = isatty(STDERR_FILENO),
        .answers = json_object_get(request, "stdin") != NULL,
    };
    int rc = cli_cell_run(c, &cell, &err);
    CK_CLEAN_JSON json_t *finished = cell.finished;
    if (rc < 0)
        return cli_fail(&err);
    if (rc > 0)
        return EXIT_INTERRUPTED;
    if (a->json)
        print_finished(finished);
    else
        explain(finished);
    if (a->out_dir && cli_save_artifacts(c, session, finished, a->out_dir, &err))
        return cli_fail(&err);
    int64_t code = ck_json_int(finished, "exit_code", 1, NULL);
    return code >= 0 && code <= 255 ? (int)code : 1;
}

int ck_cmd_run(int argc, char **argv)
{
    struct ck_err err = CK_ERR_INIT;
    struct cli_run_args a;
    int rc = cli_run_args_parse(argc, argv, env, &a, &err);
    if (rc > 0) {
        fputs(cli_run_help, stdout);
        return 0;
    }
    if (rc < 0)
        return cli_usage("run", &err);
    CK_CLEAN_JSON json_t *request = request_of(&a, &err);
    if (!request)
        return cli_fail(&err);
    struct cli_client c;
    CK_CLEAN_JSON json_t *session = NULL;
    cli_signals(true);
    if (cli_client_open(&a.target, &c, &err) || !(session = session_of(&c, a.session, &err))) {
        rc = cli_fail(&err);
    } else {
        rc = run_in(&c, &a, cli_session_id(session), request);
        if (!a.session)
            delete_session(&c, cli_session_id(session));
    }
    cli_client_close(&c);
    cli_signals(false);
    return rc;
}
