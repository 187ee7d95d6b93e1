// Boots a VM in the foreground: phases on a loop of its own, a deadline around all of it, and a
// machine that is closed (its process dead and reaped) before this returns, whatever happened.
#include "vmm/boot.h"

#include "common/ck_buf.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/console.h"
#include "vmm/machine_vm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SAVE_MS 60000
#define IDLE_SAMPLE_MS 500
#define IDLE_SAMPLES 4     // that many quiet samples in a row: idle
#define IDLE_PERCENT 20    // of one CPU; an idle guest under TCG takes some percent
#define IDLE_LATEST_MS 30000

enum phase { BOOTING, SETTLING, SAVING, DONE };

struct boot {
    const struct ck_boot_opts *o;
    uv_loop_t loop;
    struct ck_machine *m;
    struct ck_console console;
    uv_timer_t deadline, idle;
    uv_signal_t sig[3];
    enum phase phase;
    int quiet;
    int reached; // percent that the guest has told
    int64_t settling_since, last_cpu_ms;
    bool failed;
    struct ck_err err;
};

static void say(struct boot *b, int percent, const char *text)
{
    if (b->o->progress)
        b->o->progress(percent, text, b->o->user);
}

static void closed(void *user)
{
    struct boot *b = user;
    uv_close((uv_handle_t *)&b->deadline, NULL);
    uv_close((uv_handle_t *)&b->idle, NULL);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&b->sig[i], NULL);
}

// The one way out: the first outcome stands.
static void end(struct boot *b, const struct ck_err *err)
{
    if (b->phase == DONE)
        return;
    b->phase = DONE;
    b->failed = err != NULL;
    if (err)
        b->err = *err;
    uv_timer_stop(&b->deadline);
    uv_timer_stop(&b->idle);
    ck_machine_close(b->m, closed, b);
    b->m = NULL;
}

static void end_with(struct boot *b, int status, const char *reason, const char *what)
{
    char tail[CK_ERR_TEXT_MAX];
    struct ck_err e = CK_ERR_INIT;
    ck_console_tail(&b->console, tail, sizeof tail);
    ck_fail(&e, status, reason, "%s%s%s", what, tail[0] ? "; the guest's last lines: " : "", tail);
    end(b, &e);
}

// ---- saving -----------------------------------------------------------------------------------

static void on_quit(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    end(user, err);
}

static void on_saved(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct ck_err e = CK_ERR_INIT;
    if (!err && ck_machine_quit(m, on_quit, user, &e))
        err = &e;
    if (err)
        end(user, err);
}

static void on_stopped(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct boot *b = user;
    struct ck_err e = CK_ERR_INIT;
    if (!err && ck_machine_save(m, b->o->state_path, on_saved, b, &e))
        err = &e;
    if (err)
        end(b, err);
}

static void save(struct boot *b)
{
    struct ck_err e = CK_ERR_INIT;
    b->phase = SAVING;
    uv_timer_stop(&b->idle);
    say(b, 99, "saving");
    if (ck_machine_stop(b->m, on_stopped, b, &e))
        end(b, &e);
}

// ---- settling ---------------------------------------------------------------------------------

// User and system time of a process in milliseconds; -1 when it is gone.
static int64_t cpu_ms(pid_t pid)
{
    char path[64];
    uint64_t user, system;
    CK_CLEAN_BUF struct ck_buf t = CK_BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (ck_read_file(path, 8192, &t, NULL) || ck_proc_stat_number((char *)t.p, 14, &user) ||
        ck_proc_stat_number((char *)t.p, 15, &system))
        return -1;
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

static void on_idle_sample(uv_timer_t *t)
{
    struct boot *b = t->data;
    int64_t now = cpu_ms(ck_machine_proc(b->m).pid), used = now - b->last_cpu_ms;
    b->last_cpu_ms = now;
    b->quiet = used * 100 <= IDLE_PERCENT * IDLE_SAMPLE_MS ? b->quiet + 1 : 0;
    if (b->quiet >= IDLE_SAMPLES || ck_mono_ms() - b->settling_since > IDLE_LATEST_MS)
        save(b);
}

static void on_deadline(uv_timer_t *t)
{
    struct boot *b = t->data;
    char text[128];
    snprintf(text, sizeof text, "the guest did not %s within %u s",
             b->o->spec->use == CK_VM_PROBE ? "boot to the agent's hello" : b->reached ? "get any further" : "get ready",
             b->o->deadline_ms / 1000);
    end_with(b, 504, "boot_timeout", text);
}

static void settle(struct boot *b)
{
    b->phase = SETTLING;
    b->settling_since = ck_mono_ms();
    b->last_cpu_ms = cpu_ms(ck_machine_proc(b->m).pid);
    uv_timer_start(&b->deadline, on_deadline, IDLE_LATEST_MS + SAVE_MS, 0);
    uv_timer_start(&b->idle, on_idle_sample, IDLE_SAMPLE_MS, IDLE_SAMPLE_MS);
    say(b, 98, "ready; waiting until it is idle");
}

// ---- console, process, signals ----------------------------------------------------------------

static void on_line(const struct ck_console_line *l, void *user)
{
    struct boot *b = user;
    if (b->phase != BOOTING)
        return;
    bool probe = b->o->spec->use == CK_VM_PROBE;
    if (l->kind == CK_CONSOLE_FAILED) {
        struct ck_err e = CK_ERR_INIT;
        ck_fail(&e, 500, "boot_failed", "the guest reports: %s", l->text);
        end(b, &e);
    } else if (l->kind == CK_CONSOLE_HELLO && probe) {
        end(b, NULL);
    } else if (l->kind == CK_CONSOLE_HELLO) {
        say(b, 0, "the guest has booted");
    } else if (l->kind == CK_CONSOLE_PROGRESS) {
        if (l->percent > b->reached) { // slow is not stuck: a host with too much to do takes its time
            b->reached = l->percent;
            uv_timer_start(&b->deadline, on_deadline, b->o->deadline_ms, 0);
        }
        say(b, l->percent * 97 / 100, l->text);
    } else if (l->kind == CK_CONSOLE_READY && !probe) {
        settle(b);
    }
}

static void on_console(struct ck_machine *m, const void *p, size_t n, void *user)
{
    (void)m;
    struct boot *b = user;
    ck_console_feed(&b->console, p, n, on_line, b);
}

static void on_exit(struct ck_machine *m, const struct ck_machine_exit *how, void *user)
{
    (void)m;
    struct boot *b = user;
    if (!how->expected)
        end_with(b, 502, "vm_died", how->reason);
}

static void on_signal(uv_signal_t *s, int signum)
{
    struct ck_err e = CK_ERR_INIT;
    ck_fail(&e, 499, "interrupted", "interrupted by signal %d; nothing was kept", signum);
    end(s->data, &e);
}

static void on_started(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    if (err)
        end_with(user, err->status, err->reason, err->text);
}

static void watch_signals(struct boot *b)
{
    static const int which[3] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        uv_signal_init(&b->loop, &b->sig[i]);
        b->sig[i].data = b;
        uv_signal_start(&b->sig[i], on_signal, which[i]);
    }
}

// The caller may hold these signals back around its own steps; here they are wanted.
static void unblock_signals(sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, old);
}

int ck_boot_run(const struct ck_boot_opts *o, struct ck_err *err)
{
    struct boot b = {.o = o};
    sigset_t old;
    if (uv_loop_init(&b.loop))
        return ck_fail(err, 500, "no_memory", "cannot make an event loop");
    struct ck_machine_vm_opts v = {
        .loop = &b.loop, .spec = o->spec, .ram_fd = -1, .on_exit = on_exit, .on_console = on_console, .user = &b,
        .command_ms = SAVE_MS};
    int rc = ck_machine_new_vm(&v, &b.m, err);
    if (rc) {
        uv_loop_close(&b.loop);
        return rc;
    }
    uv_timer_init(&b.loop, &b.deadline);
    uv_timer_init(&b.loop, &b.idle);
    b.deadline.data = b.idle.data = &b;
    watch_signals(&b);
    unblock_signals(&old);
    uv_timer_start(&b.deadline, on_deadline, o->deadline_ms, 0);
    struct ck_err start_err = CK_ERR_INIT;
    if (ck_machine_start(b.m, on_started, &b, &start_err))
        end(&b, &start_err);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    sigprocmask(SIG_SETMASK, &old, NULL);
    uv_loop_close(&b.loop);
    if (b.failed && err)
        *err = b.err;
    return b.failed ? -1 : 0;
}

int ck_boot_cmdline(enum ck_vm_accel accel, uint32_t tsc_khz, const char *mode, char *out, size_t room,
                    struct ck_err *err)
{
    char tcg[160] = "";
    // TCG: a loaded host makes the guest hang when it calibrates its clock, so it is told (lpj is for
    // HZ=250); mitigations cost half of the interpreter's speed and protect nothing there.
    if (accel == CK_ACCEL_TCG)
        snprintf(tcg, sizeof tcg, " tsc_early_khz=%u lpj=%u no_timer_check tsc=reliable mitigations=off",
                 (unsigned)tsc_khz, (unsigned)tsc_khz * 4);
    int n = snprintf(out, room, "console=ttyS0 panic=-1 reboot=t loglevel=4 psi=0 random.trust_cpu=on init_on_free=1%s cellkeep.mode=%s", tcg, mode);
    return n < 0 || (size_t)n >= room ? ck_fail(err, 500, "bad_vm", "the kernel command line is too long") : 0;
}
