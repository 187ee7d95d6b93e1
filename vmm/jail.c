// The jail: a table of named steps, applied in order, each reporting what came of it (theory: shed
// what can be shed while it can still be shed: descriptors and environment first, namespaces while
// privileged, credentials after that, no_new_privs and the filter last). A step that is not to be had does not stop
// the start unless it is required; nothing is ever reported as applied that is not.
#include "vmm/jail.h"
#include "vmm/jail_int.h"
#include "vmm/layer.h"

#include "common/ck_cgroup.h"
#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_jailnames.h"
#include "common/ck_json.h"
#include "common/ck_log.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_MS 10000
#define UID_RANGE_FIRST 0x70000000u // above what systemd and container tools hand out

static ck_jail_step_fn *const steps[] = {
    [CK_JAIL_DESCRIPTORS] = ck_jail_descriptors,
    [CK_JAIL_ENVIRONMENT] = ck_jail_environment,
    [CK_JAIL_CGROUP] = ck_jail_cgroup,
    [CK_JAIL_RLIMITS] = ck_jail_rlimits,
    [CK_JAIL_USER_NS] = ck_jail_user_ns,
    [CK_JAIL_NET_NS] = ck_jail_net_ns,
    [CK_JAIL_IPC_NS] = ck_jail_ipc_ns,
    [CK_JAIL_UTS_NS] = ck_jail_uts_ns,
    [CK_JAIL_MOUNT_NS] = ck_jail_mount_ns,
    [CK_JAIL_PID_NS] = ck_jail_pid_ns,
    [CK_JAIL_UID] = ck_jail_uid,
    [CK_JAIL_CAPABILITIES] = ck_jail_capabilities,
    [CK_JAIL_NO_NEW_PRIVS] = ck_jail_no_new_privs,
    [CK_JAIL_SECCOMP] = ck_jail_seccomp,
};
static_assert(sizeof steps / sizeof *steps == CK_JAIL_STEPS, "every step has a function");
static_assert(sizeof ck_jail_names / sizeof *ck_jail_names == CK_JAIL_STEPS, "and a name");

static const char *const result_names[] = {
    [CK_JAIL_UNAVAILABLE] = "unavailable",
    [CK_JAIL_REFUSED] = "refused",
    [CK_JAIL_APPLIED] = "applied",
    [CK_JAIL_SKIPPED] = "skipped",
};

const char *ck_jail_step_name(enum ck_jail_step step) { return ck_jail_names[step]; }
const char *ck_jail_result_name(enum ck_jail_result result) { return result_names[result]; }

enum ck_jail_result ck_jail_errno(enum ck_jail_result result, char *reason, size_t room, const char *what)
{
    const char *why = strerrordesc_np(errno);
    snprintf(reason, room, "%s: %s", what, why ? why : "unknown error");
    return result;
}

void ck_jail_session_ids(const char *id, uid_t *uid, gid_t *gid)
{
    uint8_t d[CK_SHA256_LEN] = {0};
    ck_sha256(ck_slice_str(id), d);
    uint32_t n = ((uint32_t)d[0] << 20 | (uint32_t)d[1] << 12 | (uint32_t)d[2] << 4 | d[3] >> 4) % 0x0ffffff0u;
    *uid = *gid = UID_RANGE_FIRST + n;
}

static int apply(struct ck_jail_ctx *c, struct ck_err *err)
{
    const struct ck_jail_opts *o = c->o;
    c->root = geteuid() == 0;
    ck_jail_session_ids(o->id, &c->uid, &c->gid);
    if (o->uid)
        c->uid = o->uid;
    if (o->uid)
        c->gid = o->gid ? o->gid : (gid_t)o->uid;
    for (int i = 0; i < CK_JAIL_STEPS; i++)
        c->report->step[i].result = CK_JAIL_UNAVAILABLE;
    for (int i = 0; i < CK_JAIL_STEPS; i++) {
        char *reason = c->report->step[i].reason;
        size_t room = sizeof c->report->step[i].reason;
        reason[0] = 0;
        if (o->skip & CK_JAIL_BIT(i)) {
            c->report->step[i].result = CK_JAIL_SKIPPED;
            snprintf(reason, room, "switched off");
        } else {
            c->report->step[i].result = steps[i](c, reason, room);
        }
        bool missing = !ck_jail_applied(c->report, (enum ck_jail_step)i) && (o->required & CK_JAIL_BIT(i));
        if (c->fatal || missing)
            return ck_fail(err, 500, "jail", "jail step %s %s: %s", ck_jail_names[i],
                           result_names[c->report->step[i].result], reason);
    }
    return 0;
}

static int check(const struct ck_jail_opts *o, struct ck_err *err)
{
    const char *const dirs[] = {o->session_dir, o->template_dir, o->image_dir};
    if (!o->id || !*o->id || strchr(o->id, '/'))
        return ck_fail(err, 500, "jail", "the jail needs an id that is a file name");
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (!dirs[i] || dirs[i][0] != '/')
            return ck_fail(err, 500, "jail", "the jail needs absolute paths of the session, the template and the image");
    return o->extra_dir && o->extra_dir[0] != '/' ? ck_fail(err, 500, "jail", "extra_dir must be absolute") : 0;
}

int ck_jail_apply(const struct ck_jail_opts *opts, struct ck_jail_report *report, struct ck_err *err)
{
    *report = (struct ck_jail_report){0};
    if (check(opts, err))
        return -1;
    return apply(&(struct ck_jail_ctx){.o = opts, .report = report}, err);
}

// ---- probe ------------------------------------------------------------------------------------

static _Noreturn void probe_child(const struct ck_jail_opts *opts, int out)
{
    struct ck_jail_report report = {0};
    struct ck_jail_opts o = *opts;
    int keep[] = {out};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    o.keep = keep;
    o.nkeep = 1;
    o.required = 0;
    apply(&(struct ck_jail_ctx){.o = &o, .report = &report, .dry = true}, NULL);
    struct ck_err err = CK_ERR_INIT;
    report.layers = !ck_layer_probe(&err);
    snprintf(report.layers_reason, sizeof report.layers_reason, "%.150s", err.text);
    _exit(write(out, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 1);
}

int ck_jail_probe(const struct ck_jail_opts *opts, struct ck_jail_report *report, struct ck_err *err)
{
    int p[2];
    *report = (struct ck_jail_report){0};
    if (check(opts, err))
        return -1;
    if (pipe2(p, 0))
        return ck_fail_errno(err, errno, 500, "jail", "cannot make a pipe");
    CK_CLEAN_FD int rd = p[0];
    pid_t pid = fork();
    if (pid == 0)
        probe_child(opts, p[1]);
    close(p[1]);
    if (pid < 0)
        return ck_fail_errno(err, errno, 500, "jail", "cannot start the probe");
    struct pollfd pfd = {.fd = rd, .events = POLLIN};
    bool got = poll(&pfd, 1, PROBE_MS) == 1 && read(rd, report, sizeof *report) == (ssize_t)sizeof *report; // < PIPE_BUF: whole
    if (!got)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    ck_cgroup_sweep();
    return got ? 0 : ck_fail(err, 500, "jail", "the jail cannot be tried here: the probe ended without a report");
}

int ck_jail_report_json(const struct ck_jail_report *r, struct ck_buf *out)
{
    CK_CLEAN_JSON json_t *j = json_object();
    for (int i = 0; i < CK_JAIL_STEPS; i++)
        if (json_object_set_new(j, ck_jail_names[i],
                                json_pack("{s:s, s:s}", "result", result_names[r->step[i].result], "reason",
                                          r->step[i].reason)))
            return -1;
    return ck_json_dump(j, out);
}
