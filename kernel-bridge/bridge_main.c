// The process around a session: configuration in, one status line out, the jail, the loop, the end.
// The order matters: descriptors are opened while the host is still in view, then the jail closes
// the door, and only behind it do threads, ZeroMQ and QEMU come to be. Outlives the gateway; ends by
// `shutdown`, SIGTERM or a fatal error, and QEMU with it.
#include "kernel-bridge/bridge_main.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "common/ck_proc.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/spare.h"
#include "vmm/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <zmq.h>

#define RAM_FD 3
#define STATUS_FD 4
#define FILES_WANTED 8192 // connections, sockets, QEMU's pipes
#define MEMORY_OVERHEAD (1024ull << 20) // beyond the guest's own: translated code, the log, messages under way

struct process {
    struct bridge b;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint;
    uv_timer_t setup_timer;
    int listen_fd, status_fd, lock_fd;
    bool failed, closing;
    bool own_view;       // of the file system: its folder may get another name outside
    struct spare *spare; // while it waits for what it shall be
    char socket_path[PATH_MAX];
};

// One line for whoever started us. -1 when there is nobody to read it any more.
static int tell(struct process *p, const struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf line = CK_BUF_INIT;
    spare_free(p->spare);
    p->spare = NULL;
    if (p->status_fd < 0)
        return 0;
    int bad = 0, unread = 0;
    if (err)
        bad = ck_buf_printf(&line, "failed {\"status\":%d,\"reason\":", err->status) ||
              ck_buf_add_json_str(&line, err->reason, strlen(err->reason)) || ck_buf_add_str(&line, ",\"message\":") ||
              ck_buf_add_json_str(&line, err->text, strlen(err->text)) || ck_buf_add_str(&line, "}\n");
    else
        bad = ck_buf_add_str(&line, "ready\n");
    if (!bad && (unread = ck_write_all(p->status_fd, line.p, line.n)))
        ck_log(CK_LOG_INFO, "bridge", "status_unread errno=%d", errno);
    close(p->status_fd);
    p->status_fd = -1;
    return unread ? -1 : 0;
}

static int read_config(struct process *p, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    for (;;) {
        if (text.n > BCONF_BYTES_MAX || ck_buf_reserve(&text, 4096))
            return ck_fail(err, 500, "bad_config", "bridge configuration: over %d bytes", BCONF_BYTES_MAX);
        ssize_t n = read(STDIN_FILENO, text.p + text.n, 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ck_fail_errno(err, errno, 500, "bad_config", "bridge configuration: cannot read it");
        if (!n)
            break;
        text.n += (size_t)n;
    }
    CK_CLEAN_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return ck_fail_errno(err, errno, 500, "bad_config", "cannot open /dev/null");
    return bconf_parse(text.p, text.n, &p->b.conf, err);
}

static int open_socket(struct process *p, struct ck_err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (ck_path(p->socket_path, sizeof p->socket_path, err, "%s/bridge.sock", p->b.conf.dir))
        return -1;
    if (strlen(p->socket_path) >= sizeof a.sun_path)
        return ck_fail(err, 500, "path_too_long",
                       "the path %s is too long for a unix socket; use a shorter --state-dir", p->socket_path);
    memcpy(a.sun_path, p->socket_path, strlen(p->socket_path) + 1);
    CK_CLEAN_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cannot_listen", "cannot create a socket");
    unlink(p->socket_path); // of a bridge that was killed
    mode_t before = umask(0177);
    int rc = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(before);
    if (rc || listen(fd, 128))
        return ck_fail_errno(err, errno, 500, "cannot_listen", "cannot listen on %s", p->socket_path);
    p->listen_fd = ck_take_fd(&fd);
    return 0;
}

static int load_template(struct bridge *b, struct ck_err *err)
{
    struct bconf *c = &b->conf;
    if (ck_template_load(c->template_dir, c->image_dir[0] ? c->image_dir : NULL, &b->template, err))
        return -1;
    if (c->qemu[0])
        memcpy(b->template.qemu_path, c->qemu, sizeof b->template.qemu_path);
    if (c->accelerator[0] && strcmp(c->accelerator, ck_vm_accel_name(b->template.accel)))
        return ck_fail(err, 500, "bad_template", "the template is for %s, not for %s",
                       ck_vm_accel_name(b->template.accel), c->accelerator);
    if (c->memory_mb && c->memory_mb != (int64_t)b->template.memory_mb)
        return ck_fail(err, 500, "bad_template", "the template has %u MiB of memory, not %lld", b->template.memory_mb,
                       (long long)c->memory_mb);
    b->ram_fd = RAM_FD;
    return ck_template_open_state(&b->template, &b->state_fd, err);
}

static void raise_file_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= FILES_WANTED)
        return;
    r.rlim_cur = r.rlim_max < FILES_WANTED ? r.rlim_max : FILES_WANTED;
    setrlimit(RLIMIT_NOFILE, &r); // fewer connections then
}

static int enter_jail(struct process *p, struct ck_err *err)
{
    struct bridge *b = &p->b;
    int keep[] = {RAM_FD, STATUS_FD, p->listen_fd, b->state_fd, p->lock_fd};
    struct ck_jail_report report;
    char qemu_dir[PATH_MAX];
    snprintf(qemu_dir, sizeof qemu_dir, "%s", b->template.qemu_path);
    char *slash = strrchr(qemu_dir, '/');
    if (slash)
        *slash = 0;
    struct ck_jail_opts o = {.id = b->conf.id,
                             .session_dir = b->conf.dir,
                             .template_dir = b->template.dir,
                             .image_dir = b->template.image_dir,
                             .extra_dir =
                                 strncmp(qemu_dir, "/usr/", 5) ? qemu_dir : NULL, // a QEMU of the operator's own
                             .kvm = b->template.accel == CK_ACCEL_KVM,
                             .uid = b->conf.uid,
                             .gid = b->conf.gid,
                             .keep = keep,
                             .nkeep = 5,
                             .cpu_group = &b->cpu_group,
                             .memory_bytes = ((uint64_t)b->template.memory_mb << 20) + MEMORY_OVERHEAD,
                             .required = b->conf.jail_required,
                             .skip = b->conf.jail_skip};
    if (ck_jail_apply(&o, &report, err))
        return ck_wrap(err, "jail");
    for (int i = 0; i < CK_JAIL_STEPS; i++)
        ck_log(CK_LOG_INFO, "bridge", "jail step=%s result=%s reason=\"%s\"", ck_jail_step_name((enum ck_jail_step)i),
               ck_jail_result_name(report.step[i].result), report.step[i].reason);
    p->own_view = ck_jail_applied(&report, CK_JAIL_MOUNT_NS);
    b->private_net = ck_jail_applied(&report, CK_JAIL_NET_NS);
    if (b->private_net) {
        ck_machine_ports_fixed(b->port);
        return 0;
    }
    return ck_machine_ports_ephemeral(b->port, err);
}

static int make_disk(struct bridge *b, struct ck_err *err)
{
    char other[PATH_MAX]; // of a rollback of the bridge before
    if (ck_path(b->disk, sizeof b->disk, err, "%s/disk.qcow2", b->conf.dir) ||
        ck_path(other, sizeof other, err, "%s/disk-2.qcow2", b->conf.dir))
        return -1;
    br_restore_sweep(b->disk);
    br_restore_sweep(other);
    return ck_template_make_disk(&b->template, b->disk, err);
}

// A gateway that is killed between starting a bridge and hearing of it may start a second one in the
// same folder: only one of them gets on. Held until the process ends.
static int lock_folder(struct process *p, struct ck_err *err)
{
    char path[PATH_MAX];
    if (ck_path(path, sizeof path, err, "%s/bridge.lock", p->b.conf.dir))
        return -1;
    CK_CLEAN_FD int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? ck_fail(err, 409, "folder_in_use", "another bridge runs in the folder of this session")
                   : ck_fail_errno(err, errno, 500, "cannot_lock", "cannot lock %s", path);
    p->lock_fd = ck_take_fd(&fd);
    return 0;
}

static int write_identity(const struct bridge *b, struct ck_err *err)
{
    char path[PATH_MAX], text[200];
    struct ck_proc_id me;
    if (ck_proc_identify(getpid(), &me))
        return ck_fail(err, 500, "no_proc", "cannot read /proc/self/stat");
    int n = snprintf(text, sizeof text, "{\"version\":1,\"id\":\"%s\",\"pid\":%d,\"start\":%llu}\n", b->conf.id,
                     (int)me.pid, (unsigned long long)me.start);
    return ck_path(path, sizeof path, err, "%s/bridge.json", b->conf.dir) ||
           ck_write_file_atomic(path, text, (size_t)n, 0644, err);
}

static void closed(void *user)
{
    struct process *p = user;
    uv_close((uv_handle_t *)&p->sigterm, NULL);
    uv_close((uv_handle_t *)&p->sigint, NULL);
    uv_close((uv_handle_t *)&p->setup_timer, NULL);
}

static void end(struct process *p, const char *why)
{
    if (p->closing)
        return;
    p->closing = true;
    spare_free(p->spare);
    p->spare = NULL;
    unlink(p->socket_path);
    br_close(&p->b, why, closed, p);
}

static void on_signal(uv_signal_t *s, int number)
{
    ck_log(CK_LOG_INFO, "bridge", "signal number=%d", number);
    end(s->data, "the session's process was told to stop by a signal");
}

static void on_shutdown(struct bridge *b, const char *why) { end(b->loop->data, why); }

static void on_setup_overdue(uv_timer_t *t)
{
    struct process *p = t->data;
    char text[80];
    snprintf(text, sizeof text, "the session was not ready within %d s", BR_SETUP_MS / 1000);
    br_dead(&p->b, text);
}

static void on_setup(struct bridge *b, const struct ck_err *err)
{
    struct process *p = b->loop->data;
    struct ck_err e = CK_ERR_INIT;
    uv_timer_stop(&p->setup_timer);
    if (!err && write_identity(b, &e))
        err = &e;
    if (!err)
        br_restore_done(b);
    // The gateway died while we started: the next one may not know of us (it may have looked here before we said
    // who we are, or taken our folder away), so that nobody would ever end us. A resumed session is in its list.
    bool unknown = tell(p, err) && (b->pool || b->conf.restore == BCONF_FORK);
    if (err || unknown) {
        p->failed = true;
        end(p, "the session could not be started");
    } else {
        ck_log(CK_LOG_INFO, "bridge", "ready id=%s pool=%d", b->conf.id, b->pool);
    }
}

// ---- a spare ------------------------------------------------------------------------------------------

static void on_order(void *user, const void *text, size_t n)
{
    struct process *p = user;
    struct ck_err err = CK_ERR_INIT;
    spare_free(p->spare);
    p->spare = NULL;
    if (!text) {
        end(p, "the gateway that it waited for is gone");
        return;
    }
    uv_timer_start(&p->setup_timer, on_setup_overdue, BR_SETUP_MS, 0);
    if (bconf_begin(text, n, &p->b.conf, &err))
        br_dead(&p->b, err.text);
    else
        br_setup_begin(&p->b);
}

static void on_waiting(struct bridge *b)
{
    struct process *p = b->loop->data;
    struct ck_err err = CK_ERR_INIT;
    uv_timer_stop(&p->setup_timer); // it may wait for ever
    p->spare = spare_new(b->loop, p->status_fd, p->own_view, on_order, p, &err);
    if (!p->spare)
        br_dead(b, err.text);
}

static int start_loop(struct process *p, struct ck_err *err)
{
    struct bridge *b = &p->b;
    if (uv_loop_init(&p->loop))
        return ck_fail(err, 500, "no_loop", "cannot create an event loop");
    p->loop.data = p;
    b->loop = &p->loop;
    uv_signal_init(&p->loop, &p->sigterm);
    uv_signal_init(&p->loop, &p->sigint);
    uv_timer_init(&p->loop, &p->setup_timer);
    p->sigterm.data = p->sigint.data = p->setup_timer.data = p;
    uv_signal_start(&p->sigterm, on_signal, SIGTERM);
    uv_signal_start(&p->sigint, on_signal, SIGINT);
    uv_timer_start(&p->setup_timer, on_setup_overdue, BR_SETUP_MS, 0);
    if (br_init(b, p->listen_fd, err))
        return -1;
    b->on_waiting = on_waiting;
    b->on_setup = on_setup;
    b->on_shutdown = on_shutdown;
    return br_setup(b, err);
}

static int prepare(struct process *p, struct ck_err *err)
{
    signal(SIGPIPE, SIG_IGN);
    // glibc raises the threshold with every large block that is freed, and a heap full of holes stays
    // with the process: large messages are to be given back to the host.
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
    raise_file_limit();
    return read_config(p, err) || load_template(&p->b, err) || lock_folder(p, err) || open_socket(p, err) ||
           enter_jail(p, err) || make_disk(&p->b, err) ? -1 : 0;
}

int ck_cmd_bridge(int argc, char **argv)
{
    (void)argv;
    struct ck_err err = CK_ERR_INIT;
    if (argc != 1) {
        static const char usage[] =
            "cellkeep bridge is internal: the gateway starts it with its configuration on stdin\n";
        ck_write_all(STDERR_FILENO, usage, sizeof usage - 1);
        return 2;
    }
    static struct process process; // too large for the stack, and there is but one
    struct process *p = &process;
    p->listen_fd = p->b.state_fd = p->lock_fd = -1;
    p->b.layer = (struct ck_layer)CK_LAYER_INIT;
    p->b.cpu_group.fd = -1;
    p->status_fd = fcntl(STATUS_FD, F_GETFD) < 0 ? -1 : STATUS_FD;
    if (prepare(p, &err) || start_loop(p, &err)) {
        ck_log(CK_LOG_ERROR, "bridge", "start_failed reason=%s text=\"%s\"", err.reason, err.text);
        tell(p, &err);
        if (p->socket_path[0])
            unlink(p->socket_path);
        return 1; // QEMU, if it exists, dies with its parent
    }
    uv_run(&p->loop, UV_RUN_DEFAULT);
    br_free(&p->b);
    uv_loop_close(&p->loop);
    return p->failed;
}
