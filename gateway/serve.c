// `cellkeep serve`: puts the parts together, runs the loop, takes them apart again. Everything that can
// be wrong with the host is found before the ready line, cheapest first.
#include "gateway/serve.h"

#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "common/ck_ramfd.h"
#include "common/ck_time.h"
#include "gateway/auth_limit.h"
#include "gateway/drain.h"
#include "gateway/http_server.h"
#include "gateway/launcher.h"
#include "gateway/metrics.h"
#include "gateway/pool.h"
#include "gateway/registry_run.h"
#include "gateway/routes.h"
#include "gateway/startup.h"
#include "gateway/store.h"
#include "gateway/template_run.h"
#include "gateway/v1_tokens.h"
#include "gateway/web_bundle.h"

#include <ctype.h>
#include <malloc.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

struct serve {
    struct gateway g;
    struct config config;
    struct state_dir state;
    struct template_info template;
    struct launcher *launcher;
    struct metrics metrics;
    struct drain drain;
    uv_loop_t loop;
    char exe[PATH_MAX];
    int template_fd;
};

static int check_host(struct serve *s, struct ck_err *err)
{
    const struct config *c = &s->config;
    if (own_executable(s->exe, sizeof s->exe, err) ||
        web_bundle_find(c->web_dir, s->exe, c->base_url, &s->g.web, err) < 0)
        return -1;
    return state_dir_open(c->state_dir, &s->state, err) ||
           check_port_free(c->host, c->port, err) || auth_open(c->token, c->state_dir, &s->g.auth, err);
}

// 1 = failed, and the user has been told why already.
static int get_template(struct serve *s, int *ram_fd, struct ck_err *err)
{
    char path[PATH_MAX];
    int rc = template_ensure(s->exe, &s->config, &s->template, err);
    if (rc)
        return rc;
    snprintf(s->g.accelerator, sizeof s->g.accelerator, "%s", s->template.accelerator);
    snprintf(s->g.accel_reason, sizeof s->g.accel_reason, "%s", s->template.reason);
    s->template_fd = open(s->template.dir, O_PATH | O_DIRECTORY | O_CLOEXEC); // held: it is in use, and not to be pruned
    ck_log(CK_LOG_INFO, "serve", "accelerator=%s reason=\"%s\"", s->g.accelerator, s->g.accel_reason);
    if (ck_path(path, sizeof path, err, "%s/ram", s->template.dir))
        return -1;
    return ck_ramfd_load(path, (uint64_t)s->template.memory_mb << 20, ram_fd, err);
}

static int start_sessions(struct serve *s, int ram_fd, struct ck_err *err)
{
    struct launcher_options lo = {.exe = s->exe, .sessions_dir = s->state.sessions, .template_dir = s->template.dir,
                                  .image_dir = s->template.image_dir, .accelerator = s->template.accelerator,
                                  .memory_mb = s->template.memory_mb, .ram_fd = ram_fd, .config = &s->config};
    if (launcher_new(&s->loop, &lo, &s->launcher, err))
        return -1;
    s->g.launcher = s->launcher;
    s->g.pool = pool_new(&s->loop, s->launcher, s->config.pool_size);
    struct registry_options ro = {.loop = &s->loop, .store = s->g.store, .pool = s->g.pool, .launcher = s->launcher,
                                  .config = &s->config, .template_dir = s->template.dir, .sessions_dir = s->state.sessions,
                                  .accelerator = s->template.accelerator, .qemu = s->template.qemu,
                                  .memory_mb = s->template.memory_mb};
    s->g.registry = s->g.pool ? registry_new(&ro) : NULL;
    if (!s->g.registry)
        return ck_fail(err, 500, "no_memory", "out of memory");
    return registry_recover(s->g.registry, err);
}

static int start_http(struct serve *s, struct ck_err *err)
{
    const struct config *c = &s->config;
    struct http_server_options o = {.host = c->host, .port = c->port, .tls_cert = c->tls_cert, .tls_key = c->tls_key,
                                    .base_url = c->base_url, .allow_origin = c->allow_origin,
                                    .max_connections = c->max_connections, .max_body = (size_t)c->max_body_mb << 20,
                                    .auth = s->g.auth, .gateway = &s->g, .on_request = metrics_request};
    if (!(s->g.auth_limit = o.auth_limit = auth_limit_new(c->max_auth_failures)))
        return ck_fail(err, 500, "no_memory", "out of memory");
    if (http_server_start(&s->loop, &o, &s->g.http, err))
        return -1;
    if (http_server_add_routes(s->g.http, ck_base_routes, ck_base_nroutes) ||
        http_server_add_routes(s->g.http, ck_jupyter_routes, ck_jupyter_nroutes) ||
        http_server_add_routes(s->g.http, ck_v1_routes, ck_v1_nroutes) ||
        http_server_add_routes(s->g.http, ck_mcp_routes, ck_mcp_nroutes) ||
        http_server_add_routes(s->g.http, ck_web_routes, ck_web_nroutes))
        return ck_fail(err, 500, "bad_route", "a route of this build is malformed");
    return 0;
}

static void print_ready(const struct serve *s)
{
    const struct config *c = &s->config;
    bool six = strchr(c->host, ':') != NULL;
    printf("cellkeep ready: %s://%s%s%s:%d%s/?token=", c->tls_cert ? "https" : "http", six ? "[" : "", c->host, six ? "]" : "",
           http_server_port(s->g.http), c->base_url);
    for (const char *p = auth_token(s->g.auth); *p; p++)
        printf(isalnum((unsigned char)*p) || strchr("-._~", *p) ? "%c" : "%%%02X", (unsigned char)*p);
    printf("\n");
    fflush(stdout);
}

static int run(struct serve *s, struct ck_err *err)
{
    int ram_fd = -1;
    if (check_host(s, err) || store_open(&s->loop, s->config.state_dir, &s->g.store, err))
        return -1;
    if (tokens_load(s->g.store, s->g.auth, err))
        return -1;
    int rc = get_template(s, &ram_fd, err);
    if (rc)
        return rc;
    if (start_sessions(s, ram_fd, err) || start_http(s, err))
        return -1;
    drain_on_signals(&s->drain, &s->g, s->launcher, &s->state);
    pool_fill(s->g.pool);
    launcher_fill(s->launcher);
    print_ready(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return 0;
}

static void free_parts(struct serve *s)
{
    http_server_free(s->g.http);
    web_bundle_free(s->g.web);
    mcp_free(s->g.mcp);
    registry_free(s->g.registry);
    pool_free(s->g.pool);
    launcher_free(s->launcher);
    auth_free(s->g.auth);
    auth_limit_free(s->g.auth_limit);
    uv_loop_close(&s->loop);
    if (s->template_fd > 0)
        close(s->template_fd);
    state_dir_close(&s->state);
    config_free(&s->config);
}

static void prepare_process(const struct config *c)
{
    enum ck_log_level level = CK_LOG_INFO;
    ck_log_level_from_name(c->log_level, &level);
    ck_log_set_level(level);
    mallopt(M_MMAP_THRESHOLD, 256 * 1024); // large messages: their memory goes back when they are gone
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
    signal(SIGPIPE, SIG_IGN);
    // glibc raises the threshold with every large block that is freed, and then keeps heaps full of holes:
    // the bodies and messages of megabytes that pass through here are to be given back to the host.
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
    umask(022); // children inherit it: bridges of other uids read what the template builder makes
}

int ck_cmd_serve(int argc, char **argv)
{
    static struct serve s; // large, and one a process
    struct ck_err err = CK_ERR_INIT;
    int rc = config_load(argc, argv, environ, &s.config, &err);
    if (rc > 0) {
        fputs(config_usage(), stdout);
        return 0;
    }
    if (rc < 0) {
        fprintf(stderr, "cellkeep serve: %s\nTry: cellkeep serve --help\n", err.text);
        return 2;
    }
    prepare_process(&s.config);
    uv_loop_init(&s.loop);
    s.state.lock_fd = -1;
    s.g.loop = &s.loop;
    s.g.config = &s.config;
    s.g.metrics = &s.metrics;
    s.g.started_us = ck_wall_us();
    rc = run(&s, &err);
    if (rc) {
        if (rc < 0)
            fprintf(stderr, "cellkeep serve: %s\n", err.text);
        return 1; // nothing runs yet: the system frees what was opened
    }
    bool at_once = s.drain.at_once;
    if (!at_once)
        free_parts(&s);
    return at_once ? 1 : 0;
}
