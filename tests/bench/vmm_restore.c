// Measures (and thereby tests on real QEMU) what a bridge does with a template: load its memory once,
// then, in one process a session, enter the jail, start QEMU, restore, run, and hear the guest's agent.
//
//   vmm_restore [--no-jail] [--hold MS] TEMPLATE_DIR [SESSIONS]
//   vmm_restore --attend TEMPLATE_DIR
//
// The second form lends one guest, without a jail, to whoever started it (guest/tests): it prints the agent's port and
// lets the guest run until its standard input ends.
//
// Prints one JSON line a session and one in all; exit code 0 when every guest answered. All sessions
// run at once, from one sealed memfd, so that sharing is tested too.
#include "common/ck_cgroup.h"
#include "common/ck_fs.h"
#include "common/ck_ramfd.h"
#include "common/ck_time.h"
#include "vmm/jail.h"
#include "vmm/machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS 60000

struct session {
    struct ck_template t;
    struct ck_machine *m;
    uv_loop_t loop;
    char dir[64];
    bool jailed, failed, attend;
    unsigned hold_ms;
    uv_timer_t wait;
    uv_poll_t input; // initialised when attended
    int64_t t_start, t_prepared, t_loaded, t_running, t_answer;
};

static void fail(struct session *s, const char *what, const char *why)
{
    fprintf(stderr, "vmm_restore: %s: %s\n", what, why);
    s->failed = true;
}

static void on_closed(void *user)
{
    struct session *s = user;
    uv_close((uv_handle_t *)&s->wait, NULL);
    if (s->attend)
        uv_close((uv_handle_t *)&s->input, NULL);
}

static void on_quit(struct ck_machine *m, const struct ck_err *err, void *user)
{
    if (err)
        fail(user, "quit", err->text);
    ck_machine_close(m, on_closed, user);
}

static void give_up(struct session *s, const char *what, const struct ck_err *err)
{
    fail(s, what, err->text);
    ck_machine_close(s->m, on_closed, s);
}

// Blocks: this program has nothing else to do. The guest speaks first or answers to a ZMTP greeting;
// QEMU accepts before the guest does, so that a connection alone proves nothing.
static bool guest_answers(struct session *s, int64_t until)
{
    static const unsigned char greeting[10] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(ck_machine_port(s->m, CK_VM_PORT_AGENT))};
    while (ck_mono_ms() < until) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char c;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        bool ok = !connect(fd, (struct sockaddr *)&a, sizeof a) && send(fd, greeting, sizeof greeting, MSG_NOSIGNAL) > 0 &&
                  poll(&p, 1, (int)(until - ck_mono_ms())) == 1 && recv(fd, &c, 1, 0) == 1;
        close(fd);
        if (ok)
            return true;
        usleep(5000);
    }
    return false;
}

static long smaps(pid_t pid, const char *field)
{
    char path[64];
    struct ck_buf b = CK_BUF_INIT;
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    if (!ck_read_file(path, 65536, &b, NULL)) {
        char *at = strstr((char *)b.p, field);
        kib = at ? atol(at + strlen(field) + 1) : -1;
    }
    ck_buf_free(&b);
    return kib;
}

static void on_held(uv_timer_t *t)
{
    struct session *s = t->data;
    struct ck_err err = CK_ERR_INIT;
    pid_t pid = ck_machine_proc(s->m).pid;
    char mem[64];
    snprintf(mem, sizeof mem, "/proc/%d/mem", (int)pid);
    int mem_fd = open(mem, O_RDWR | O_CLOEXEC); // what a later pause or fork will need
    printf("{\"jailed\":%s,\"spawn_to_prepared_us\":%lld,\"load_us\":%lld,\"cont_us\":%lld,\"running_to_answer_us\":%lld,"
           "\"spawn_to_running_us\":%lld,\"prepared_to_running_us\":%lld,\"anonymous_kib\":%ld,"
           "\"rss_kib\":%ld,\"mem_writable\":%s}\n",
           s->jailed ? "true" : "false", (long long)(s->t_prepared - s->t_start), (long long)(s->t_loaded - s->t_prepared),
           (long long)(s->t_running - s->t_loaded), (long long)(s->t_answer - s->t_running),
           (long long)(s->t_running - s->t_start), (long long)(s->t_running - s->t_prepared), smaps(pid, "Anonymous:"),
           smaps(pid, "Rss:"), mem_fd < 0 ? "false" : "true");
    close(mem_fd);
    fflush(stdout);
    if (ck_machine_quit(s->m, on_quit, s, &err))
        give_up(s, "quit", &err);
}

static void on_input(uv_poll_t *p, int status, int events)
{
    (void)events;
    struct session *s = p->data;
    struct ck_err err = CK_ERR_INIT;
    char ignored[256];
    if (status == 0 && read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        return;
    uv_poll_stop(p);
    if (ck_machine_quit(s->m, on_quit, s, &err))
        give_up(s, "quit", &err);
}

static void attend(struct session *s)
{
    printf("{\"agent_port\":%u,\"shell_port\":%u}\n", (unsigned)ck_machine_port(s->m, CK_VM_PORT_AGENT),
           (unsigned)ck_machine_port(s->m, 0)); // kernel's, for a bench of the link itself
    fflush(stdout);
    uv_poll_start(&s->input, UV_READABLE | UV_DISCONNECT, on_input);
}

static void on_running(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    struct session *s = user;
    if (err) {
        give_up(s, "cont", err);
        return;
    }
    s->t_running = ck_mono_us();
    if (!guest_answers(s, ck_mono_ms() + ANSWER_MS))
        fail(s, "guest", "did not answer");
    s->t_answer = ck_mono_us();
    if (s->attend)
        attend(s);
    else
        uv_timer_start(&s->wait, on_held, s->hold_ms, 0);
}

static void on_loaded(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct session *s = user;
    struct ck_err e = CK_ERR_INIT;
    s->t_loaded = ck_mono_us();
    if (!err && ck_machine_cont(m, on_running, s, &e))
        err = &e;
    if (err)
        give_up(s, "restore", err);
}

static void on_prepared(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct session *s = user;
    struct ck_err e = CK_ERR_INIT;
    int fd = -1;
    s->t_prepared = ck_mono_us();
    if (!err && (ck_template_open_state(&s->t, &fd, &e) || ck_machine_restore(m, fd, on_loaded, s, &e)))
        err = &e;
    if (err)
        give_up(s, "start", err);
}

static int enter_jail(struct session *s, int ram_fd, struct ck_err *err)
{
    struct ck_jail_report report;
    struct ck_jail_opts jail = {.id = strrchr(s->dir, '/') + 1, .session_dir = s->dir, .template_dir = s->t.dir,
                                .image_dir = s->t.image_dir, .kvm = s->t.accel == CK_ACCEL_KVM, .keep = &ram_fd, .nkeep = 1,
                                .memory_bytes = (ck_template_ram_bytes(&s->t) + (512u << 20))};
    if (ck_jail_apply(&jail, &report, err))
        return -1;
    s->jailed = ck_jail_applied(&report, CK_JAIL_NET_NS);
    for (int i = 0; i < CK_JAIL_STEPS; i++)
        if (report.step[i].result < CK_JAIL_APPLIED)
            fprintf(stderr, "vmm_restore: jail: %s %s %s\n", ck_jail_step_name((enum ck_jail_step)i),
                    ck_jail_result_name(report.step[i].result), report.step[i].reason);
    return 0;
}

static int run_session(struct session *s, const char *template_dir, int ram_fd, bool jail)
{
    struct ck_err err = CK_ERR_INIT;
    char disk[128];
    snprintf(disk, sizeof disk, "%s/disk.qcow2", s->dir);
    if (ck_template_load(template_dir, NULL, &s->t, &err) || (jail && enter_jail(s, ram_fd, &err)) ||
        ck_template_make_disk(&s->t, disk, &err)) {
        fail(s, "prepare", err.text);
        return 1;
    }
    uv_loop_init(&s->loop);
    uv_timer_init(&s->loop, &s->wait);
    s->wait.data = s;
    s->input.data = s;
    if (s->attend && uv_poll_init(&s->loop, &s->input, STDIN_FILENO)) {
        fail(s, "--attend", "standard input must be a pipe");
        return 1;
    }
    struct ck_machine_opts o = {.loop = &s->loop, .template = &s->t, .disk = disk, .ram_fd = ram_fd};
    if (s->jailed)
        ck_machine_ports_fixed(o.host_port);
    else if (ck_machine_ports_ephemeral(o.host_port, &err))
        fail(s, "ports", err.text);
    s->t_start = ck_mono_us();
    if (ck_machine_new(&o, &s->m, &err) || ck_machine_start(s->m, on_prepared, s, &err)) {
        fail(s, "start", err.text);
        return 1;
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    return s->failed;
}

int main(int argc, char **argv)
{
    bool jail = true, attended = false;
    unsigned hold = 1000;
    int n = 0, fd, bad = 0;
    const char *words[2] = {NULL, "1"};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--no-jail"))
            jail = false;
        else if (!strcmp(argv[i], "--attend"))
            attended = true;
        else if (!strcmp(argv[i], "--hold") && i + 1 < argc)
            hold = (unsigned)atoi(argv[++i]);
        else if (n < 2)
            words[n++] = argv[i];
    }
    struct ck_template t;
    struct ck_err err = CK_ERR_INIT;
    char ram[PATH_MAX];
    int64_t t0 = ck_mono_us();
    if (!n || ck_template_load(words[0], NULL, &t, &err) || ck_path(ram, sizeof ram, &err, "%s/ram", t.dir) ||
        ck_ramfd_load(ram, ck_template_ram_bytes(&t), &fd, &err)) {
        fprintf(stderr, "vmm_restore: %s\n", n ? err.text : "usage: vmm_restore [--no-jail] [--hold MS] [--attend] TEMPLATE_DIR [N]");
        return 1;
    }
    int64_t t_ram = ck_mono_us() - t0;
    int sessions = atoi(words[1]);
    for (int i = 0; i < sessions; i++) {
        struct session s = {.hold_ms = hold, .attend = attended};
        snprintf(s.dir, sizeof s.dir, "/tmp/vmm-restore-%d-%d", (int)getpid(), i);
        bad |= ck_mkdirs(s.dir, 0700, &err);
        if (fork() == 0)
            _exit(run_session(&s, words[0], fd, jail && !attended));
    }
    for (int status, left = sessions; left && wait(&status) > 0; left--)
        bad |= !WIFEXITED(status) || WEXITSTATUS(status);
    for (int i = 0; i < sessions; i++) {
        char dir[64];
        snprintf(dir, sizeof dir, "/tmp/vmm-restore-%d-%d", (int)getpid(), i);
        bad |= ck_remove_tree(dir, &err);
    }
    ck_cgroup_sweep();
    printf("{\"sessions\":%d,\"ram_load_us\":%lld,\"ok\":%s}\n", sessions, (long long)t_ram, bad ? "false" : "true");
    return bad ? 1 : 0;
}
