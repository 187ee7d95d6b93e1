// Operations of a machine: what the state allows, the QMP commands of each, its deadline and its
// callback. Must never block and must never leave an operation without an answer.
#include "vmm/machine_int.h"
#include "vmm/machine_vm.h"

#include "common/ck_fs.h"
#include "common/ck_ramfd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHILD_QMP_FD 3
#define CHILD_OTHER_FD 4 // the session's RAM, or the console of a booting VM
#define GRACE_MS 1000    // between a lost control connection and the kill

// ---- operations: begin and finish -------------------------------------------------------------

int ck_machine_begin(struct ck_machine *m, enum ck_machine_op op, ck_machine_cb cb, void *user, struct ck_err *err)
{
    if (!ck_machine_allows(m->state, op) || m->closing)
        return ck_fail(err, 409, "vm_state", "a VM that is %s cannot %s", ck_machine_state_name(m->state),
                       ck_machine_op_name(op));
    if (m->op_pending || m->quit_cb)
        return ck_fail(err, 409, "vm_busy", "the VM is busy with %s", ck_machine_op_name(m->op));
    m->op_pending = true;
    m->op = op;
    m->op_cb = cb;
    m->op_user = user;
    m->console_cb = NULL;
    return 0;
}

int ck_machine_give_up(struct ck_machine *m)
{
    m->op_pending = false;
    ck_machine_deadline_clear(m);
    return -1;
}

void ck_machine_finish(struct ck_machine *m, const struct ck_err *err)
{
    if (!m->op_pending)
        return;
    m->op_pending = false;
    if (m->proc.pid && m->state != CK_MACHINE_QUITTING)
        ck_machine_deadline_clear(m);
    if (m->closing)
        return;
    if (m->console_cb)
        m->console_cb(m, NULL, 0, err, m->op_user);
    else if (m->op_cb)
        m->op_cb(m, err, m->op_user);
}

// It may end by itself, as its exit code and last words are the better reason; the exit ends the operation.
void ck_machine_dying(struct ck_machine *m, const char *reason)
{
    ck_machine_next(&m->state, CK_MEV_QUIT);
    ck_machine_deadline(m, GRACE_MS, reason);
}

// ---- start ------------------------------------------------------------------------------------

static void on_migration_events(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_machine *m = user;
    if (err) {
        char text[128];
        snprintf(text, sizeof text, "%.100s", err->text);
        ck_machine_dying(m, text);
        return;
    }
    ck_machine_next(&m->state, m->use == CK_VM_SESSION ? CK_MEV_QMP_INCOMING : CK_MEV_QMP_RUNNING);
    ck_machine_finish(m, NULL);
}

void ck_machine_qmp_ready(void *user)
{
    struct ck_machine *m = user;
    json_t *args = json_pack("{s:[{s:s, s:b}]}", "capabilities", "capability", "events", "state", 1);
    struct ck_err err = CK_ERR_INIT;
    if (ck_qmp_command(m->qmp, "migrate-set-capabilities", args, -1, m->command_ms, on_migration_events, m, &err))
        on_migration_events(NULL, &err, m);
}

void ck_machine_qmp_down(const struct ck_err *err, void *user)
{
    struct ck_machine *m = user;
    (void)err;
    if (m->state != CK_MACHINE_QUITTING)
        ck_machine_dying(m, "its control connection was lost");
}

int ck_machine_start(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err)
{
    if (ck_machine_begin(m, CK_MOP_START, cb, user, err))
        return -1;
    ck_machine_deadline(m, m->start_ms, "it did not start in time");
    return ck_machine_proc_start(m, err) ? ck_machine_give_up(m) : 0;
}

// ---- restore ----------------------------------------------------------------------------------

static void loaded(struct ck_machine *m)
{
    if (m->op_pending && m->op == CK_MOP_RESTORE && ck_machine_next(&m->state, CK_MEV_LOADED))
        ck_machine_finish(m, NULL);
}

static void on_migration(struct ck_machine *m, const char *status)
{
    if (!strcmp(status, "completed") && m->state == CK_MACHINE_LOADING)
        loaded(m);
    else if (!strcmp(status, "completed"))
        m->loaded_early = true;
    else if (!strcmp(status, "failed") && m->state != CK_MACHINE_QUITTING)
        ck_machine_dying(m, "it could not load the saved state");
}

void ck_machine_qmp_event(const char *name, json_t *data, void *user)
{
    struct ck_machine *m = user;
    const char *why;
    if (!strcmp(name, "MIGRATION") && (why = json_string_value(json_object_get(data, "status"))))
        on_migration(m, why);
    else if (!strncmp(name, "BLOCK_JOB_", 10))
        ck_machine_merge_event(m, name, data);
    else if (!strcmp(name, "RESUME"))
        ck_machine_next(&m->state, CK_MEV_RESUMED);
    else if (!strcmp(name, "STOP"))
        ck_machine_next(&m->state, CK_MEV_PAUSED);
    else if (!strcmp(name, "GUEST_PANICKED"))
        snprintf(m->shutdown, sizeof m->shutdown, "the guest's kernel panicked");
    else if (!strcmp(name, "SHUTDOWN"))
        snprintf(m->shutdown, sizeof m->shutdown, "%s",
                 json_is_true(json_object_get(data, "guest")) ? "the guest powered off or rebooted" : "QEMU was told to quit");
}

static void on_incoming(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_machine *m = user;
    if (err) {
        ck_machine_finish(m, err);
        return;
    }
    ck_machine_next(&m->state, CK_MEV_LOAD);
    if (m->loaded_early)
        loaded(m);
}

static void on_getfd(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_machine *m = user;
    struct ck_err e = CK_ERR_INIT;
    if (!err && ck_qmp_command(m->qmp, "migrate-incoming", json_pack("{s:s}", "uri", "fd:state"), -1, m->command_ms,
                               on_incoming, m, &e))
        err = &e;
    if (err)
        ck_machine_finish(m, err);
}

int ck_machine_load_state(struct ck_machine *m, int state_fd, struct ck_err *err)
{
    json_t *args = json_pack("{s:s}", "fdname", "state");
    return ck_qmp_command(m->qmp, "getfd", args, state_fd, m->command_ms, on_getfd, m, err);
}

int ck_machine_restore(struct ck_machine *m, int state_fd, ck_machine_cb cb, void *user, struct ck_err *err)
{
    if (ck_machine_begin(m, CK_MOP_RESTORE, cb, user, err)) {
        close(state_fd);
        return -1;
    }
    ck_machine_deadline(m, m->restore_ms, "it did not load the saved state in time");
    return ck_machine_load_state(m, state_fd, err) ? ck_machine_give_up(m) : 0;
}

// ---- cont, stop, save, console ----------------------------------------------------------------

static void on_simple(json_t *ret, const struct ck_err *err, void *user)
{
    (void)ret;
    struct ck_machine *m = user;
    if (!err && m->op == CK_MOP_CONT)
        ck_machine_next(&m->state, CK_MEV_RESUMED);
    if (!err && m->op == CK_MOP_STOP)
        ck_machine_next(&m->state, CK_MEV_PAUSED);
    if (!err && m->op == CK_MOP_CONT)
        ck_machine_merge_perhaps(m);
    ck_machine_finish(m, err);
}

static int simple(struct ck_machine *m, enum ck_machine_op op, const char *command, json_t *args, ck_machine_cb cb,
                  void *user, struct ck_err *err)
{
    if (ck_machine_begin(m, op, cb, user, err)) {
        json_decref(args);
        return -1;
    }
    if (ck_qmp_command(m->qmp, command, args, -1, m->command_ms, on_simple, m, err))
        return ck_machine_give_up(m);
    return 0;
}

int ck_machine_cont(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err)
{
    return simple(m, CK_MOP_CONT, "cont", NULL, cb, user, err);
}

int ck_machine_stop(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err)
{
    return simple(m, CK_MOP_STOP, "stop", NULL, cb, user, err);
}

int ck_machine_save(struct ck_machine *m, const char *path, ck_machine_cb cb, void *user, struct ck_err *err)
{
    // live=false: keep the images open, the machine may go on afterwards.
    json_t *args = json_pack("{s:s, s:b}", "filename", path, "live", 0);
    return simple(m, CK_MOP_SAVE, "xen-save-devices-state", args, cb, user, err);
}

static void on_ring(json_t *ret, const struct ck_err *err, void *user)
{
    struct ck_machine *m = user;
    const char *text = json_string_value(ret);
    size_t n = text ? json_string_length(ret) : 0;
    struct ck_err bad = CK_ERR_INIT;
    unsigned char *out = text && n < 4 * CK_VM_CONSOLE_RING ? malloc(n + 1) : NULL;
    int got = out ? EVP_DecodeBlock(out, (const unsigned char *)text, (int)n) : -1;
    if (!err && got < 0) {
        ck_fail(&bad, 502, "bad_qmp", "QEMU's console buffer cannot be read");
        err = &bad;
    }
    if (err) {
        ck_machine_finish(m, err);
    } else {
        for (size_t i = n; i && text[i - 1] == '='; i--)
            got--; // EVP_DecodeBlock counts the padding
        ck_machine_console_cb cb = m->console_cb;
        m->op_pending = false;
        if (cb && !m->closing)
            cb(m, (const char *)out, (size_t)(got < 0 ? 0 : got), NULL, m->op_user);
    }
    free(out);
}

int ck_machine_console(struct ck_machine *m, ck_machine_console_cb cb, void *user, struct ck_err *err)
{
    if (ck_machine_begin(m, CK_MOP_CONSOLE, NULL, user, err))
        return -1;
    m->console_cb = cb;
    // base64: the guest's bytes need not be UTF-8.
    json_t *args = json_pack("{s:s, s:i, s:s}", "device", "console", "size", CK_VM_CONSOLE_RING, "format", "base64");
    if (ck_qmp_command(m->qmp, "ringbuf-read", args, -1, m->command_ms, on_ring, m, err))
        return ck_machine_give_up(m);
    return 0;
}

// ---- quit, kill, close ------------------------------------------------------------------------

int ck_machine_quit(struct ck_machine *m, ck_machine_cb cb, void *user, struct ck_err *err)
{
    if (m->closing || m->quit_cb)
        return ck_fail(err, 409, "vm_busy", "the VM is being ended already");
    if (!m->proc.pid)
        return 1;
    m->expected = true;
    m->quit_cb = cb;
    m->quit_user = user;
    bool ask = ck_machine_allows(m->state, CK_MOP_QUIT) && !m->op_pending;
    ck_machine_next(&m->state, CK_MEV_QUIT);
    if (!ask || ck_qmp_command(m->qmp, "quit", NULL, -1, m->quit_ms + 1000, NULL, NULL, NULL))
        ck_machine_end(m, "it was told to end");
    else
        ck_machine_deadline(m, m->quit_ms, "it did not quit in time");
    return 0;
}

void ck_machine_kill(struct ck_machine *m)
{
    m->expected = true;
    ck_machine_end(m, "it was told to end");
}

void ck_machine_close(struct ck_machine *m, void (*closed)(void *user), void *user)
{
    if (!m || m->closing)
        return;
    m->closing = true;
    m->closed = closed;
    m->closed_user = user;
    m->expected = true;
    ck_machine_end(m, "its owner closed it");
    if (m->job && !m->proc.pid && !m->job->working)
        m->job->abandon(m);
    else
        ck_machine_free_when_done(m);
}

void ck_machine_job_over(struct ck_machine *m)
{
    m->job = NULL;
    if (m->closing)
        ck_machine_free_when_done(m);
    else
        ck_machine_merge_perhaps(m);
}

// ---- making one -------------------------------------------------------------------------------

void ck_machine_forget(struct ck_machine *m)
{
    if (!m)
        return;
    ck_vm_argv_free(&m->argv);
    if (m->ram_fd >= 0)
        close(m->ram_fd);
    free(m->template);
    free(m);
}

// What layers need for as long as the machine lives.
static int keep(struct ck_machine *m, const struct ck_machine_vm_opts *o)
{
    m->ram_fd = -1;
    if (o->spec->use != CK_VM_SESSION)
        return 0;
    m->ram_fd = fcntl(o->ram_fd, F_DUPFD_CLOEXEC, 3);
    if (o->template && (m->template = malloc(sizeof *m->template)))
        *m->template = *o->template;
    return m->ram_fd < 0 || (o->template && !m->template) ||
                   ck_path(m->disks.first, sizeof m->disks.first, NULL, "%s", o->spec->disk)
               ? -1
               : 0;
}

int ck_machine_new_vm(const struct ck_machine_vm_opts *o, struct ck_machine **out, struct ck_err *err)
{
    *out = NULL;
    struct ck_machine *m = calloc(1, sizeof *m);
    if (!m || keep(m, o)) {
        ck_machine_forget(m);
        return ck_fail(err, 500, "no_memory", "no memory for a VM");
    }
    struct ck_vm_spec spec = *o->spec;
    spec.qmp_fd = CHILD_QMP_FD;
    spec.ram_fd = spec.use == CK_VM_SESSION ? CHILD_OTHER_FD : -1;
    spec.console_fd = spec.use == CK_VM_SESSION ? -1 : CHILD_OTHER_FD;
    if (ck_vm_argv_build(&spec, &m->argv, err)) {
        ck_machine_forget(m);
        return -1;
    }
    m->loop = o->loop;
    m->use = spec.use;
    memcpy(m->host_port, spec.host_port, sizeof m->host_port);
    m->start_ms = o->start_ms ? o->start_ms : 20000;
    m->restore_ms = o->restore_ms ? o->restore_ms : 20000;
    m->command_ms = o->command_ms ? o->command_ms : 10000;
    m->quit_ms = o->quit_ms ? o->quit_ms : 5000;
    m->on_exit = o->on_exit;
    m->on_console = o->on_console;
    m->user = o->user;
    m->pid.fd = m->output.fd = m->console.fd = -1;
    uv_timer_init(m->loop, &m->timer);
    uv_timer_init(m->loop, &m->merge.timer);
    m->timer.data = m->merge.timer.data = m;
    m->handles = 2;
    *out = m;
    return 0;
}

int ck_machine_new(const struct ck_machine_opts *o, struct ck_machine **out, struct ck_err *err)
{
    const struct ck_template *t = o->template;
    char root[PATH_MAX], base[PATH_MAX];
    *out = NULL;
    if (ck_path(root, sizeof root, err, "%s/root.erofs", t->image_dir) ||
        ck_path(base, sizeof base, err, "%s/disk.qcow2", t->dir) ||
        ck_ramfd_check(o->ram_fd, ck_template_ram_bytes(t), err))
        return -1;
    struct ck_vm_spec spec = {.use = CK_VM_SESSION,
                              .accel = t->accel,
                              .qemu = t->qemu_path,
                              .cpu = t->cpu,
                              .memory_mb = t->memory_mb,
                              .root_image = root,
                              .disk = o->disk,
                              .disk_base = base};
    memcpy(spec.host_port, o->host_port, sizeof spec.host_port);
    struct ck_machine_vm_opts v = {.loop = o->loop,
                                   .spec = &spec,
                                   .ram_fd = o->ram_fd,
                                   .template = t,
                                   .on_exit = o->on_exit,
                                   .user = o->user,
                                   .start_ms = o->start_ms,
                                   .restore_ms = o->restore_ms,
                                   .command_ms = o->command_ms,
                                   .quit_ms = o->quit_ms};
    return ck_machine_new_vm(&v, out, err);
}

void ck_machine_ports_fixed(uint16_t port[CK_VM_PORTS])
{
    for (int i = 0; i < CK_VM_PORTS; i++)
        port[i] = (uint16_t)(CK_VM_PORT_FIRST + i);
}

int ck_machine_ports_ephemeral(uint16_t port[CK_VM_PORTS], struct ck_err *err)
{
    int fd[CK_VM_PORTS], n, rc = 0;
    for (n = 0; n < CK_VM_PORTS && !rc; n++) { // all held open until all are known: no doubles
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof a;
        fd[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd[n] < 0 || bind(fd[n], (struct sockaddr *)&a, len) || getsockname(fd[n], (struct sockaddr *)&a, &len))
            rc = ck_fail_errno(err, errno, 503, "no_port", "no free loopback port");
        else
            port[n] = ntohs(a.sin_port);
    }
    while (n--)
        if (fd[n] >= 0)
            close(fd[n]);
    return rc;
}

enum ck_machine_state ck_machine_state(const struct ck_machine *m) { return m->state; }
bool ck_machine_busy(const struct ck_machine *m) { return m->op_pending || m->quit_cb; }
struct ck_proc_id ck_machine_proc(const struct ck_machine *m) { return m->proc; }
uint16_t ck_machine_port(const struct ck_machine *m, int index) { return m->host_port[index]; }
