// Prometheus text format, version 0.0.4. Names carry no session ids: their number must stay bounded.
#include "gateway/metrics.h"

#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "gateway/auth_limit.h"
#include "gateway/http_server.h"
#include "gateway/launcher.h"
#include "gateway/pool.h"
#include "gateway/registry_run.h"
#include "gateway/serve.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void metrics_request(struct gateway *g, int status)
{
    if (status == 101)
        g->metrics->upgrades++;
    else
        g->metrics->requests[status >= 100 && status <= 599 ? status / 100 : 0]++;
}

long metrics_rss_bytes(void)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_read_file("/proc/self/statm", 256, &b, NULL))
        return 0;
    const char *second = strchr((const char *)b.p, ' ');
    return second ? strtol(second, NULL, 10) * sysconf(_SC_PAGESIZE) : 0; // resident pages
}

static int head(struct ck_buf *out, const char *name, const char *type, const char *help)
{
    return ck_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int gauge(struct ck_buf *out, const char *name, const char *help, double value)
{
    return head(out, name, "gauge", help) || ck_buf_printf(out, "%s %.17g\n", name, value);
}

static int counter(struct ck_buf *out, const char *name, const char *help, unsigned long long value)
{
    return head(out, name, "counter", help) || ck_buf_printf(out, "%s %llu\n", name, value);
}

static int sessions_text(const struct gateway *g, struct ck_buf *out)
{
    struct registry_counts n;
    registry_count_states(g->registry, &n);
    int rc = head(out, "cellkeep_sessions", "gauge", "Sessions by state.");
    for (int i = 0; i <= SESSION_DEAD; i++)
        rc |= ck_buf_printf(out, "cellkeep_sessions{state=\"%s\"} %zu\n", session_state_name((enum session_state)i), n.by_state[i]);
    rc |= gauge(out, "cellkeep_sessions_creating", "Sessions on their way.", (double)n.creating);
    rc |= gauge(out, "cellkeep_sessions_ending", "Sessions being removed.", (double)n.ending);
    rc |= counter(out, "cellkeep_sessions_created_total", "Sessions created since the start.", n.created);
    rc |= counter(out, "cellkeep_sessions_failed_total", "Sessions that could not be created.", n.failed);
    rc |= counter(out, "cellkeep_sessions_died_total", "Sessions that ended unasked.", n.died);
    rc |= gauge(out, "cellkeep_pool_ready", "Virtual machines that stand ready.", (double)pool_ready(g->pool));
    rc |= gauge(out, "cellkeep_pool_size", "Virtual machines that should stand ready.", g->config->pool_size);
    rc |= gauge(out, "cellkeep_pool_waiting", "Creations that wait for a virtual machine.", (double)pool_waiting(g->pool));
    rc |= counter(out, "cellkeep_pool_failures_total", "Virtual machines that failed to start.", pool_failures(g->pool));
    struct launcher_spares s;
    launcher_count_spares(g->launcher, &s);
    rc |= gauge(out, "cellkeep_spare_ready", "Virtual machines that wait for a template or a layer.", (double)s.ready);
    rc |= gauge(out, "cellkeep_spare_size", "Virtual machines that should wait.", g->config->spare);
    rc |= counter(out, "cellkeep_spare_used_total", "Of those, taken by a resume, a fork or a create.", s.used);
    rc |= counter(out, "cellkeep_spare_failures_total", "Of those, failed to start, while they waited or when they were needed.", s.failed);
    return rc;
}

static int seconds(struct ck_buf *out, const char *name, const char *help, int64_t ms)
{
    return head(out, name, "counter", help) || ck_buf_printf(out, "%s %.3f\n", name, (double)ms / 1000);
}

static int used_text(const struct gateway *g, struct ck_buf *out)
{
    struct registry_used u;
    int64_t disk;
    registry_count_used(g->registry, &u, &disk);
    int rc = seconds(out, "cellkeep_vm_cpu_seconds_total", "Processor time of sessions' virtual machines, as the host counts it.", u.vm_cpu_ms);
    rc |= seconds(out, "cellkeep_session_seconds_total", "Time that sessions ran, pauses excluded.", u.wall_ms);
    rc |= seconds(out, "cellkeep_cell_seconds_total", "Time that cells of the cell API and MCP took.", u.cell_wall_ms);
    rc |= seconds(out, "cellkeep_cell_cpu_seconds_total", "Processor time of these cells, as the guests count it.", u.cell_cpu_ms);
    rc |= head(out, "cellkeep_cells_total", "counter", "These cells by their ending.");
    for (int i = 0; i < REGISTRY_ENDINGS; i++)
        rc |= ck_buf_printf(out, "cellkeep_cells_total{status=\"%s\"} %lld\n", registry_ending_name(i), (long long)u.cells[i]);
    rc |= gauge(out, "cellkeep_session_disk_bytes", "What the disks of sessions hold, as last known.", (double)disk);
    return rc;
}

static int life_text(const struct gateway *g, struct ck_buf *out)
{
    struct registry_life n;
    int rc = head(out, "cellkeep_life_seconds", "summary",
                  "Pauses, resumes, checkpoints, rollbacks and forks (the source's part).");
    for (int i = 0; registry_count_life(g->registry, i, &n); i++) {
        rc |= ck_buf_printf(out, "cellkeep_life_seconds_sum{op=\"%s\"} %.3f\n", n.name, (double)n.ms / 1000);
        rc |= ck_buf_printf(out, "cellkeep_life_seconds_count{op=\"%s\"} %zu\n", n.name, n.ended);
    }
    rc |= head(out, "cellkeep_life_failed_total", "counter",
               "Those of them that did not come about, refusals of the session included.");
    for (int i = 0; registry_count_life(g->registry, i, &n); i++)
        rc |= ck_buf_printf(out, "cellkeep_life_failed_total{op=\"%s\"} %zu\n", n.name, n.failed);
    return rc;
}

int metrics_text(const struct gateway *g, struct ck_buf *out)
{
    static const char *const codes[] = {"gone", "1xx", "2xx", "3xx", "4xx", "5xx"};
    int rc = sessions_text(g, out) | used_text(g, out) | life_text(g, out);
    rc |= head(out, "cellkeep_http_requests_total", "counter", "Requests by class of status; gone = the client left first.");
    for (int i = 0; i < 6; i++)
        rc |= ck_buf_printf(out, "cellkeep_http_requests_total{code=\"%s\"} %llu\n", codes[i], g->metrics->requests[i]);
    rc |= counter(out, "cellkeep_auth_failures_total", "Requests with a wrong token.", auth_limit_failures(g->auth_limit));
    rc |= counter(out, "cellkeep_auth_refused_total", "Those of them that were told to wait.", auth_limit_refused(g->auth_limit));
    rc |= counter(out, "cellkeep_connections_evicted_total", "Connections without a right token that gave way to new ones.",
                  http_server_evicted(g->http));
    rc |= counter(out, "cellkeep_websocket_upgrades_total", "WebSockets accepted.", g->metrics->upgrades);
    rc |= gauge(out, "cellkeep_websockets", "Open WebSockets.", (double)http_server_websockets(g->http));
    rc |= gauge(out, "cellkeep_connections", "Open TCP connections.", (double)http_server_connections(g->http));
    rc |= gauge(out, "process_resident_memory_bytes", "Resident memory of the gateway.", (double)metrics_rss_bytes());
    rc |= gauge(out, "process_start_time_seconds", "Start of the gateway, seconds since the epoch.", (double)g->started_us / 1e6);
    rc |= head(out, "cellkeep_info", "gauge", "Version and accelerator.");
    rc |= ck_buf_printf(out, "cellkeep_info{version=\"%s\",accelerator=\"%s\"} 1\n", CK_VERSION, g->accelerator);
    return rc;
}
