// Draining in two steps: first everything that is busy is brought to an end side by side (connections,
// sessions, pool), then what all of it stands on is closed.
#include "gateway/drain.h"

#include "common/ck_log.h"
#include "gateway/bridge_end.h"
#include "gateway/http_server.h"
#include "gateway/launcher.h"
#include "gateway/pool.h"
#include "gateway/registry_run.h"
#include "gateway/startup.h"
#include "gateway/store.h"

#include <signal.h>

#define GRACE_MS 5000 // for requests that are being answered

static void on_store_closed(void *user)
{
    struct drain *d = user;
    d->g->store = NULL;
    ck_log(CK_LOG_INFO, "serve", "drained");
}

static void second_step(struct drain *d)
{
    if (!d->http_done || !d->registry_done || !d->pool_done)
        return;
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    registry_close(d->g->registry);
    http_server_close(d->g->http);
    store_close(d->g->store, on_store_closed, d);
}

static void on_registry_quiet(void *user);

static void on_all_paused(void *user)
{
    struct drain *d = user;
    registry_drain(d->g->registry, false, on_registry_quiet, d);
}

// Sessions are paused when their clients are gone: until then they are in use.
static void on_http_drained(void *user)
{
    struct drain *d = user;
    d->http_done = true;
    if (d->g->config->on_exit == CONFIG_EXIT_PAUSE)
        registry_pause_all(d->g->registry, on_all_paused, d); // what follows it calls the second step
    else
        second_step(d);
}

static void on_registry_quiet(void *user)
{
    struct drain *d = user;
    d->registry_done = true;
    second_step(d);
}

static void on_pool_closed(void *user)
{
    struct drain *d = user;
    d->pool_done = true;
    second_step(d);
}

static void begin(struct drain *d)
{
    static const char *const words[] = {[CONFIG_EXIT_KEEP] = "keep", [CONFIG_EXIT_PAUSE] = "pause", [CONFIG_EXIT_KILL] = "kill"};
    enum config_on_exit what = d->g->config->on_exit;
    d->begun = true;
    d->g->draining = true;
    state_dir_stopping(d->state);
    ck_log(CK_LOG_INFO, "serve", "draining on_exit=%s sessions=%zu", words[what], registry_count(d->g->registry));
    http_server_drain(d->g->http, GRACE_MS, what == CONFIG_EXIT_KILL, on_http_drained, d);
    pool_close(d->g->pool, on_pool_closed, d);
    launcher_close(d->launcher); // fails what is still starting
    if (what != CONFIG_EXIT_PAUSE)
        registry_drain(d->g->registry, what == CONFIG_EXIT_KILL, on_registry_quiet, d);
}

static void on_signal(uv_signal_t *h, int signo)
{
    struct drain *d = h->data;
    ck_log(CK_LOG_INFO, "serve", "signal number=%d", signo);
    if (!d->begun) {
        begin(d);
        return;
    }
    bridge_end_kill_all();
    d->at_once = true;
    uv_stop(h->loop);
}

void drain_on_signals(struct drain *d, struct gateway *g, struct launcher *l, const struct state_dir *s)
{
    static const int signos[3] = {SIGTERM, SIGINT, SIGHUP};
    d->g = g;
    d->launcher = l;
    d->state = s;
    for (int i = 0; i < 3; i++) {
        uv_signal_init(g->loop, &d->signals[i]);
        d->signals[i].data = d;
        uv_signal_start(&d->signals[i], on_signal, signos[i]);
    }
}
