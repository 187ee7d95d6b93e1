// Follows one cell from its start to its end: output to the terminal, input() from standard input,
// Ctrl-C as an interrupt of the cell. The stream may break (a gateway that is restarted): the events
// after the last one seen are then fetched again, so nothing is lost or shown twice.
#include "gateway/cli_run.h"

#include "common/ck_json.h"
#include "common/ck_time.h"
#include "gateway/cli_show.h"
#include "gateway/cli_sse.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define RETRY_FOR_MS 60000 // how long a broken stream is taken up again
#define RETRY_EVERY_MS 1000

// 1 = interrupt the cell, 2 and more = stop waiting.
static volatile sig_atomic_t interrupts;
static void on_signal(int sig) { interrupts = sig == SIGINT ? interrupts + 1 : 2; }

void cli_signals(bool on)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on ? on_signal : SIG_DFL};
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &act, NULL);
    signal(SIGPIPE, on ? SIG_IGN : SIG_DFL); // a reader that left: seen as a write error instead
}

bool cli_stopped(void) { return interrupts > 0; }

struct follow {
    struct cli_client *c;
    struct cli_cell *cell;
    struct cli_sse sse;
    char id[64];          // of the cell, "" until known
    uint64_t last_seq;    // last event seen
    int passed_on;        // interrupts that were passed on
    bool asking, hidden;  // a line of standard input is wanted, without echo
    struct ck_buf typed;  // read, not yet a line
    struct termios saved; // valid while hidden
};

static void echo_back(struct follow *f)
{
    if (!f->hidden)
        return;
    tcsetattr(STDIN_FILENO, TCSANOW, &f->saved);
    fputc('\n', stderr);
    f->hidden = false;
}

static void ask(struct follow *f, const json_t *event)
{
    if (!f->cell->answers)
        return;
    const char *prompt = ck_json_str(event, "prompt", "", NULL);
    fputs(prompt, stdout);
    fflush(stdout);
    f->asking = true;
    if (ck_json_bool(event, "password", false, NULL) && !tcgetattr(STDIN_FILENO, &f->saved)) {
        struct termios quiet = f->saved;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        f->hidden = !tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
}

static void answer(struct follow *f, json_t *body)
{
    char path[160];
    struct ck_err err = CK_ERR_INIT;
    snprintf(path, sizeof path, "/v1/sessions/%s/cells/%s/stdin", f->cell->session, f->id);
    if (cli_request(f->c, "POST", path, body, NULL, &err) && err.status != 409)
        cli_fail(&err);
    json_decref(body);
    f->asking = false;
    echo_back(f);
}

// Takes what standard input has, without waiting, until there is a line or the end.
static void take_input(struct follow *f)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char piece[4096];
    for (;;) {
        uint8_t *nl = f->typed.n ? memchr(f->typed.p, '\n', f->typed.n) : NULL;
        if (nl) {
            size_t n = (size_t)(nl - f->typed.p);
            answer(f, json_pack("{s:o}", "value", json_stringn((const char *)f->typed.p, n)));
            ck_buf_consume(&f->typed, n + 1);
            return;
        }
        if (poll(&p, 1, 0) <= 0)
            return;
        ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
        if (n > 0 && !ck_buf_add(&f->typed, piece, (size_t)n))
            continue;
        if (f->typed.n) { // a last line without an end
            ck_buf_add(&f->typed, "\n", 1);
            continue;
        }
        answer(f, json_pack("{s:b}", "eof", 1));
        return;
    }
}

static int on_event(void *ctx, const char *type, uint64_t seq, const char *data, size_t n)
{
    struct follow *f = ctx;
    json_t *o = json_loadb(data, n, JSON_ALLOW_NUL, NULL);
    // A cell's own stream ends with the finished cell, the session's has it inside of an event.
    json_t *finished = strcmp(type, "done") ? NULL : json_object_get(o, "finished") ? json_object_get(o, "finished") : o;
    const char *cell = finished ? ck_json_str(finished, "id", "", NULL) : ck_json_str(o, "cell", "", NULL);
    if (!f->id[0])
        snprintf(f->id, sizeof f->id, "%s", cell);
    if (seq > f->last_seq)
        f->last_seq = seq;
    bool ours = !strcmp(cell, f->id) || !strcmp(type, "gap") || !strcmp(type, "failed");
    if (ours && finished) {
        json_decref(f->cell->finished);
        f->cell->finished = json_incref(finished);
    } else if (ours && !strcmp(type, "input")) {
        ask(f, o);
    } else if (ours && !f->cell->quiet) {
        cli_show_event(type, o, stdout, stderr, f->cell->ansi);
    }
    json_decref(o);
    return f->cell->finished != NULL || ferror(stdout);
}

static int on_data(void *ctx, const void *p, size_t n) { return cli_sse_feed(&((struct follow *)ctx)->sse, p, n); }

static int tick(void *ctx)
{
    struct follow *f = ctx;
    if (interrupts > 1)
        return 1;
    if (interrupts > f->passed_on) {
        f->passed_on++;
        char path[128];
        struct ck_err err = CK_ERR_INIT;
        snprintf(path, sizeof path, "/v1/sessions/%s/interrupt", f->cell->session);
        fputs("cellkeep: interrupting; Ctrl-C again gives up waiting\n", stderr);
        if (cli_request(f->c, "POST", path, NULL, NULL, &err))
            cli_fail(&err);
    }
    if (f->asking)
        take_input(f);
    return 0;
}

// The stream broke while the cell runs on: go on after the last event seen, for a while.
static int take_up_again(struct follow *f, struct ck_err *err)
{
    int64_t until = ck_mono_ms() + RETRY_FOR_MS;
    fputs("cellkeep: the connection broke; trying to go on\n", stderr);
    while (!f->cell->finished && ck_mono_ms() < until) {
        char path[160];
        snprintf(path, sizeof path, "/v1/sessions/%s/events?from=%llu", f->cell->session,
                 (unsigned long long)f->last_seq + 1);
        memset(err, 0, sizeof *err);
        cli_sse_reset(&f->sse);
        uint64_t before = f->last_seq;
        int rc = cli_stream(f->c, path, NULL, on_data, tick, f, err);
        if (f->cell->finished)
            return 0;
        if (rc == 1 || interrupts > 1)
            return 1;
        if (err->status == 404 || err->status == 410)
            return -1;
        if (f->last_seq > before)
            until = ck_mono_ms() + RETRY_FOR_MS;
        poll(NULL, 0, RETRY_EVERY_MS); // not uv_sleep: Ctrl-C ends this one
    }
    return f->cell->finished ? 0 : -1;
}

static int follow(struct follow *f, struct ck_err *err)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/sessions/%s/cells", f->cell->session);
    int rc = cli_stream(f->c, path, f->cell->request, on_data, tick, f, err);
    if (f->cell->finished)
        return 0;
    if (rc == 1)
        return 1;
    if (!f->id[0])
        return rc ? rc : ck_fail(err, 502, "no_end", "the gateway ended the stream before the cell began");
    return take_up_again(f, err);
}

int cli_cell_run(struct cli_client *c, struct cli_cell *cell, struct ck_err *err)
{
    struct follow f = {.c = c, .cell = cell};
    cli_sse_init(&f.sse, on_event, &f);
    int rc = follow(&f, err);
    echo_back(&f);
    cli_sse_free(&f.sse);
    ck_buf_free(&f.typed);
    return rc;
}
