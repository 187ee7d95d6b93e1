// The command line's HTTP requests. Tokens go into headers only: never into messages, URLs or logs.
#include "gateway/cli_client.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "gateway/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_S 10L
#define REQUEST_TIMEOUT_S 180L  // a session that waits for a free VM answers late
#define STALL_S 60L             // of a stream or a transfer: the gateway sends a comment every 15 s
#define ANSWER_MAX (64u * 1024 * 1024)
#define POLL_MS 100

extern char **environ;

static char *text_of(CURLU *u, CURLUPart part)
{
    char *s = NULL;
    return curl_url_get(u, part, &s, 0) == CURLUE_OK ? s : NULL;
}

// Takes ?token=T out of the URL and drops what follows the path.
static int split_url(const char *url, struct cli_client *c, struct ck_err *err)
{
    CURLU *u = curl_url();
    char *query, *base = NULL;
    int rc = -1;
    if (!u || curl_url_set(u, CURLUPART_URL, url, CURLU_DEFAULT_SCHEME) != CURLUE_OK) {
        ck_fail(err, 400, "usage", "--url is not a URL: it looks like http://127.0.0.1:8888");
        goto out;
    }
    query = text_of(u, CURLUPART_QUERY);
    if (query && !strncmp(query, "token=", 6) && !c->token)
        c->token = strndup(query + 6, strcspn(query + 6, "&"));
    curl_free(query);
    curl_url_set(u, CURLUPART_QUERY, NULL, 0);
    curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
    base = text_of(u, CURLUPART_URL);
    c->base = base ? strdup(base) : NULL;
    curl_free(base);
    for (size_t n = c->base ? strlen(c->base) : 0; n && c->base[n - 1] == '/'; n--)
        c->base[n - 1] = '\0';
    rc = c->base ? 0 : ck_fail(err, 500, "no_memory", "out of memory");
out:
    curl_url_cleanup(u);
    return rc;
}

// The gateway's own token, when this user may read it. Absent or unreadable is fine.
static void token_from_state(struct cli_client *c)
{
    const char *set = getenv("CELLKEEP_STATE_DIR");
    CK_CLEAN_FREE char *dir = set && *set ? strdup(set) : config_default_dir(false, environ);
    char path[4096];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (!dir || ck_path(path, sizeof path, NULL, "%s/token", dir) || ck_read_file(path, 4096, &b, NULL))
        return;
    c->token = strndup((const char *)b.p, strcspn((const char *)b.p, "\r\n "));
}

int cli_client_open(const struct cli_target *t, struct cli_client *c, struct ck_err *err)
{
    memset(c, 0, sizeof *c);
    c->token = t->token ? strdup(t->token) : NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(c->curl = curl_easy_init()))
        return ck_fail(err, 500, "no_memory", "libcurl cannot start");
    if (split_url(t->url, c, err))
        return -1;
    if (!c->token)
        token_from_state(c);
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (c->token && (ck_buf_printf(&b, "Authorization: Bearer %s", c->token) || ck_buf_add(&b, "", 1) ||
                     !(c->headers = curl_slist_append(c->headers, (const char *)b.p))))
        return ck_fail(err, 500, "no_memory", "out of memory");
    return 0;
}

void cli_client_close(struct cli_client *c)
{
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    free(c->base);
    free(c->token);
    memset(c, 0, sizeof *c);
}

static size_t to_buf(char *p, size_t size, size_t n, void *out) { return ck_buf_add(out, p, size * n) ? 0 : size * n; }

int cli_set_url(struct cli_client *c, CURL *h, const char *path, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf url = CK_BUF_INIT;
    if (ck_buf_add_str(&url, c->base) || ck_buf_add_str(&url, path) || ck_buf_add(&url, "", 1))
        return ck_fail(err, 500, "no_memory", "out of memory");
    curl_easy_setopt(h, CURLOPT_URL, (const char *)url.p); // copied
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(h, CURLOPT_USERAGENT, "cellkeep/" CK_VERSION);
    // A path of a guest may hold anything; libcurl must not clean it up on its own.
    curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    return 0;
}

// What went wrong below HTTP, in words.
int cli_transport_error(const struct cli_client *c, CURLcode rc, struct ck_err *err)
{
    if (rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST)
        return ck_fail(err, 503, "no_gateway", "no gateway answers at %.200s: start one with cellkeep serve, or say --url",
                       c->base);
    return ck_fail(err, 502, "request_failed", "the request to %.200s failed: %s", c->base, curl_easy_strerror(rc));
}

// An answer of 400 and above as an error.
static int answer_error(long status, struct ck_slice body, struct ck_err *err)
{
    json_t *o = json_loadb((const char *)body.p, body.n, 0, NULL);
    const char *message = ck_json_str(o, "message", NULL, NULL), *reason = ck_json_str(o, "reason", "http_error", NULL);
    if (status == 401 || (status == 403 && (!message || !strcmp(message, "Forbidden")))) // a file says more
        ck_fail(err, (int)status, "unauthorized", "the gateway wants another token: say --token or CELLKEEP_TOKEN");
    else
        ck_fail(err, (int)status, reason, "%s", message ? message : "the gateway refused without saying why");
    json_decref(o);
    return -1;
}

static int perform(struct cli_client *c, struct ck_buf *out, struct ck_err *err)
{
    CURL *h = c->curl;
    long status = 0;
    CURLcode rc = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    if (rc && status < 400)
        return cli_transport_error(c, rc, err);
    return status >= 400 ? answer_error(status, ck_buf_slice(out), err) : 0;
}

int cli_request(struct cli_client *c, const char *method, const char *path, const json_t *body, json_t **out,
                struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf in = CK_BUF_INIT, answer = {.cap = ANSWER_MAX};
    curl_easy_reset(c->curl);
    if (cli_set_url(c, c->curl, path, err) || (body && ck_json_dump(body, &in)))
        return -1;
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, REQUEST_TIMEOUT_S);
    if (body || !strcmp(method, "POST")) {
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)in.n);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, in.n ? (const char *)in.p : "");
    }
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, to_buf);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &answer);
    if (perform(c, &answer, err))
        return -1;
    if (!out)
        return 0;
    *out = answer.n ? json_loadb((const char *)answer.p, answer.n, 0, NULL) : NULL;
    return answer.n && !*out ? ck_fail(err, 502, "bad_answer", "%.200s does not answer like a cellkeep gateway", c->base)
                             : 0;
}

void cli_set_stall(CURL *h)
{
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, STALL_S);
}

int cli_put_file(struct cli_client *c, const char *path, FILE *from, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf answer = {.cap = ANSWER_MAX};
    curl_easy_reset(c->curl);
    if (cli_set_url(c, c->curl, path, err))
        return -1;
    off_t size = fseeko(from, 0, SEEK_END) ? -1 : ftello(from); // -1, a pipe: chunked
    rewind(from);
    cli_set_stall(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c->curl, CURLOPT_READDATA, from);
    curl_easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, to_buf);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &answer);
    return perform(c, &answer, err);
}

struct download {
    CURL *curl;
    FILE *to;
    struct ck_buf error; // body of an error answer
    int errnum;
};

static size_t to_file(char *p, size_t size, size_t n, void *ctx)
{
    struct download *d = ctx;
    long status = 0;
    curl_easy_getinfo(d->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400)
        return to_buf(p, size, n, &d->error);
    size_t done = fwrite(p, 1, size * n, d->to);
    if (done < size * n)
        d->errnum = errno;
    return done;
}

int cli_get_file(struct cli_client *c, const char *path, FILE *to, struct ck_err *err)
{
    curl_easy_reset(c->curl);
    struct download d = {.curl = c->curl, .to = to, .error = {.cap = ANSWER_MAX}};
    if (cli_set_url(c, c->curl, path, err))
        return -1;
    cli_set_stall(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, to_file);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &d);
    int rc = perform(c, &d.error, err);
    ck_buf_free(&d.error);
    if (d.errnum)
        return ck_fail_errno(err, d.errnum, 500, "write_failed", "cannot write the downloaded file");
    return rc;
}

struct stream {
    CURL *h;
    cli_data_fn on_data;
    void *ctx;
    struct ck_buf error;
    bool stopped;
};

static size_t stream_data(char *p, size_t size, size_t n, void *ctx)
{
    struct stream *s = ctx;
    long status = 0;
    curl_easy_getinfo(s->h, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400)
        return to_buf(p, size, n, &s->error);
    s->stopped = s->on_data(s->ctx, p, size * n) != 0;
    return s->stopped ? 0 : size * n;
}

// Runs the transfer of s to its end. 0 with *rc, or 1 = stopped by tick or on_data.
static int stream_loop(CURLM *m, struct stream *s, cli_tick_fn tick, CURLcode *rc)
{
    int running = 1, left;
    *rc = CURLE_OK;
    while (running) {
        if (curl_multi_perform(m, &running) != CURLM_OK) {
            *rc = CURLE_OUT_OF_MEMORY;
            return 0;
        }
        for (CURLMsg *msg = curl_multi_info_read(m, &left); msg; msg = curl_multi_info_read(m, &left))
            if (msg->msg == CURLMSG_DONE)
                *rc = msg->data.result;
        if (s->stopped || (tick && tick(s->ctx)))
            return 1;
        if (running)
            curl_multi_poll(m, NULL, 0, POLL_MS, NULL);
    }
    return 0;
}

static int stream_run(struct cli_client *c, struct stream *s, cli_tick_fn tick, struct ck_err *err)
{
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    long status = 0;
    CURLM *m = curl_multi_init();
    int stopped = 0;
    if (m) {
        curl_multi_add_handle(m, s->h);
        stopped = stream_loop(m, s, tick, &rc);
        curl_easy_getinfo(s->h, CURLINFO_RESPONSE_CODE, &status);
        curl_multi_remove_handle(m, s->h);
        curl_multi_cleanup(m);
    }
    if (stopped)
        return 1;
    if (status >= 400)
        return answer_error(status, ck_buf_slice(&s->error), err);
    return rc ? cli_transport_error(c, rc, err) : 0;
}

int cli_stream(struct cli_client *c, const char *path, const json_t *body, cli_data_fn on_data, cli_tick_fn tick,
               void *ctx, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf in = CK_BUF_INIT;
    struct stream s = {.h = curl_easy_init(), .on_data = on_data, .ctx = ctx, .error = {.cap = ANSWER_MAX}};
    struct curl_slist *headers = curl_slist_append(NULL, "Accept: text/event-stream"), *more;
    int rc = -1;
    for (struct curl_slist *l = c->headers; l && headers; l = l->next) {
        more = curl_slist_append(headers, l->data);
        if (!more)
            break;
        headers = more;
    }
    if (!s.h || !headers || (body && ck_json_dump(body, &in))) {
        ck_fail(err, 500, "no_memory", "out of memory");
        goto out;
    }
    if (cli_set_url(c, s.h, path, err))
        goto out;
    cli_set_stall(s.h);
    curl_easy_setopt(s.h, CURLOPT_HTTPHEADER, headers);
    if (body) {
        curl_easy_setopt(s.h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)in.n);
        curl_easy_setopt(s.h, CURLOPT_POSTFIELDS, (const char *)in.p);
    }
    curl_easy_setopt(s.h, CURLOPT_WRITEFUNCTION, stream_data);
    curl_easy_setopt(s.h, CURLOPT_WRITEDATA, &s);
    rc = stream_run(c, &s, tick, err);
out:
    ck_buf_free(&s.error);
    curl_easy_cleanup(s.h);
    curl_slist_free_all(headers);
    return rc;
}
