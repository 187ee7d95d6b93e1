// Layers on a real QEMU, measured and thereby tested: a jailed process restores a template, lets a
// program in the guest fill memory and write the disk without end, and then checkpoints it, restores
// the layers into waiting QEMUs, merges its disks and pauses it. The guest's program checks its memory
// against a checksum and its file against what it remembers, in the source and in every clone.
//
//   vmm_layers [--no-jail] [--mb N] [--forks N] [--dir D] TEMPLATE_DIR
//
// One JSON line a step; exit code 0 when every answer was right. Times are for people: no test may
// depend on them.
#include "common/ck_cgroup.h"
#include "common/ck_fs.h"
#include "common/ck_ramfd.h"
#include "common/ck_time.h"
#include "vmm/jail.h"
#include "vmm/layer.h"
#include "vmm/machine.h"
#include "tests/bench/guest_call.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS_MAX 100
#define WAIT_MS 120000

static const char hog[] =
    "import os,time,zlib\n"
    "n=%u<<20\n"
    "b=bytearray(n)\n"
    "for i in range(0,n,4096): b[i:i+8]=(i*2654435761+1).to_bytes(8,'little')\n"
    "s=zlib.crc32(b); seen={}; c=0\n"
    "f=os.open('/home/user/loop',os.O_RDWR|os.O_CREAT)\n"
    "print('ready',flush=True)\n"
    "while 1:\n"
    "    c+=1; d=(b'%%8d'%%c)*512; at=c%%512*4096\n"
    "    os.pwrite(f,d,at); os.fsync(f); seen[at]=d\n"
    "    if os.path.exists('/home/user/ask'):\n"
    "        os.posix_fadvise(f,0,0,os.POSIX_FADV_DONTNEED)\n"
    "        bad=[k for k,v in seen.items() if os.pread(f,4096,k)!=v]; good=zlib.crc32(b)==s\n"
    "        with open('/home/user/answer','w') as o:\n"
    "            o.write('ok' if good and not bad else 'memory %%s disk %%s'%%(good,bad))\n"
    "        os.unlink('/home/user/ask')\n"
    "    time.sleep(0.01)\n";
static const char ask[] =
    "touch /home/user/ask; while [ -e /home/user/ask ]; do sleep 0.02; done; cat /home/user/answer";

struct vm {
    struct ck_machine *m;
    char disk[160];
    uint16_t port[CK_VM_PORTS];
    bool closed;
};

struct bench {
    uv_loop_t loop;
    struct ck_template t;
    int ram_fd, forks;
    unsigned mb;
    char dir[96], layers[128];
    void *zctx;
    uint8_t key[32];
    struct vm source, clone[FORKS_MAX];
    int done, frozen; // of the step under way: 1 = well, -1 = not
    struct ck_checkpoint made;
    struct ck_err err;
};

static void die(struct bench *b, const char *what)
{
    fprintf(stderr, "vmm_layers: %s: %s\n", what, b->err.text);
    exit(1); // QEMUs die with their parent
}

static void need(struct bench *b, int rc, const char *what)
{
    if (rc < 0)
        die(b, what);
}

static void wait_for(struct bench *b, const int *flag, const char *what)
{
    int64_t until = ck_mono_ms() + WAIT_MS;
    while (!*flag && ck_mono_ms() < until)
        uv_run(&b->loop, UV_RUN_ONCE);
    if (*flag != 1)
        die(b, what);
}

static void on_done(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    struct bench *b = user;
    b->done = err ? -1 : 1;
    if (err)
        b->err = *err;
}

static void on_count(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    struct bench *b = user;
    if (err)
        die((b->err = *err, b), "restoring a fork");
    b->done++;
}

// ---- machines ---------------------------------------------------------------------------------

static void vm_start(struct bench *b, struct vm *v, const char *name)
{
    snprintf(v->disk, sizeof v->disk, "%s/%s.qcow2", b->dir, name);
    need(b, ck_template_make_disk(&b->t, v->disk, &b->err), "disk");
    need(b, ck_machine_ports_ephemeral(v->port, &b->err), "ports");
    struct ck_machine_opts o = {.loop = &b->loop, .template = &b->t, .disk = v->disk, .ram_fd = b->ram_fd,
                                .start_ms = 120000, .restore_ms = 120000};
    memcpy(o.host_port, v->port, sizeof o.host_port);
    b->done = 0;
    need(b, ck_machine_new(&o, &v->m, &b->err), "new");
    need(b, ck_machine_start(v->m, on_done, b, &b->err), "start");
    wait_for(b, &b->done, "start");
}

static void vm_cont(struct bench *b, struct vm *v)
{
    b->done = 0;
    need(b, ck_machine_cont(v->m, on_done, b, &b->err), "cont");
    wait_for(b, &b->done, "cont");
}

static void on_closed(void *user) { ((struct vm *)user)->closed = true; }

static void vm_end(struct bench *b, struct vm *v)
{
    ck_machine_close(v->m, on_closed, v);
    while (!v->closed)
        uv_run(&b->loop, UV_RUN_ONCE);
}

static void on_console(struct ck_machine *m, const char *text, size_t n, const struct ck_err *err, void *user)
{
    (void)m;
    if (!err)
        fprintf(stderr, "console: %.*s\n", (int)(n > 3000 ? 3000 : n), n > 3000 ? text + n - 3000 : text);
    ((struct bench *)user)->done = 1;
}

static void vm_check(struct bench *b, struct vm *v, const char *who)
{
    char answer[256];
    uint16_t port = v->port[CK_VM_PORT_AGENT];
    if (guest_call(b->zctx, port, b->key, ask, NULL, answer, sizeof answer, WAIT_MS, &b->err)) {
        b->done = 0;
        if (!ck_machine_console(v->m, on_console, b, NULL))
            wait_for(b, &b->done, who);
        die(b, who);
    }
    if (strcmp(answer, "ok") != 0) {
        snprintf(b->err.text, sizeof b->err.text, "its memory or its disk is wrong: %.200s", answer);
        die(b, who);
    }
}

// ---- layers -----------------------------------------------------------------------------------

static void on_frozen(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    ((struct bench *)user)->frozen = err ? -1 : 1;
}

static void on_made(const struct ck_checkpoint *made, const struct ck_err *err, void *user)
{
    struct bench *b = user;
    b->done = err ? -1 : 1;
    if (err)
        b->err = *err;
    else
        b->made = *made;
}

static int session_text(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err)
{
    (void)user;
    if (ck_machine_state(m) != CK_MACHINE_STOPPED)
        return ck_fail(err, 500, "bench", "asked while the VM runs");
    return ck_buf_add_str(out, "{}");
}

static void checkpoint(struct bench *b, bool stay, const char *step)
{
    char id[CK_UUID_MAX];
    ck_uuid4(id);
    struct ck_checkpoint_opts o = {.dir = b->layers, .id = id, .stay = stay, .session = session_text};
    b->done = b->frozen = 0;
    int64_t t0 = ck_mono_us();
    need(b, ck_machine_checkpoint(b->source.m, &o, on_frozen, on_made, b, &b->err), step);
    wait_for(b, &b->frozen, step);
    int64_t frozen = ck_mono_us() - t0;
    wait_for(b, &b->done, step);
    const struct ck_layer_info *i = &b->made.info;
    printf("{\"step\":\"%s\",\"stall_us\":%lld,\"frozen_us\":%lld,\"total_us\":%lld,\"private_mb\":%.1f,"
           "\"data_mb\":%.1f,"
           "\"zero_mb\":%.1f,\"ram_bytes\":%llu,\"state_bytes\":%llu,\"disk_bytes\":%llu,\"below\":%d}\n",
           step, (long long)b->made.stall_us, (long long)frozen, (long long)b->made.total_us,
           (double)b->made.private_pages / 256, (double)i->data_pages / 256, (double)i->zero_pages / 256,
           (unsigned long long)i->ram.bytes, (unsigned long long)i->state.bytes, (unsigned long long)i->disk.bytes,
           i->nbelow);
    fflush(stdout);
}

static void restore(struct bench *b, struct vm *v, const char *step)
{
    struct ck_layer l;
    int64_t t0 = ck_mono_us();
    need(b, ck_layer_open(b->layers, b->made.info.id, &l, &b->err), "open");
    int64_t t1 = ck_mono_us();
    b->done = 0;
    need(b, ck_machine_restore_layer(v->m, &l, on_done, b, &b->err), step);
    wait_for(b, &b->done, step);
    int64_t t2 = ck_mono_us();
    vm_cont(b, v);
    int64_t t3 = ck_mono_us();
    vm_check(b, v, step);
    printf("{\"step\":\"%s\",\"open_us\":%lld,\"load_us\":%lld,\"cont_us\":%lld,\"to_running_us\":%lld,"
           "\"to_checked_us\":%lld}\n",
           step, (long long)(t1 - t0), (long long)(t2 - t1), (long long)(t3 - t2), (long long)(t3 - t0),
           (long long)(ck_mono_us() - t0));
    fflush(stdout);
}

static void wait_count(struct bench *b, int n, const char *what)
{
    int64_t until = ck_mono_ms() + WAIT_MS;
    while (b->done < n && ck_mono_ms() < until)
        uv_run(&b->loop, UV_RUN_ONCE);
    if (b->done < n)
        die(b, what);
}

// All at once, as the bridges of N forks would. Loaded first and continued then, or the first clones, which
// find none of their code translated, would take the processor from the others.
static void forks(struct bench *b)
{
    int64_t t0 = ck_mono_us();
    for (int i = 0; i < b->forks; i++) {
        char name[32];
        snprintf(name, sizeof name, "fork%d", i);
        vm_start(b, &b->clone[i], name);
    }
    int64_t t1 = ck_mono_us();
    b->done = 0;
    for (int i = 0; i < b->forks; i++) {
        struct ck_layer l;
        need(b, ck_layer_open(b->layers, b->made.info.id, &l, &b->err), "open");
        need(b, ck_machine_restore_layer(b->clone[i].m, &l, on_count, b, &b->err), "fork");
    }
    wait_count(b, b->forks, "forks");
    int64_t t2 = ck_mono_us();
    b->done = 0;
    for (int i = 0; i < b->forks; i++)
        need(b, ck_machine_cont(b->clone[i].m, on_count, b, &b->err), "cont");
    wait_count(b, b->forks, "cont");
    int64_t t3 = ck_mono_us();
    for (int i = 0; i < b->forks; i++)
        vm_check(b, &b->clone[i], "a fork");
    printf("{\"step\":\"forks\",\"n\":%d,\"spawn_us\":%lld,\"load_us\":%lld,\"cont_us\":%lld,\"checked_us\":%lld}\n",
           b->forks, (long long)(t1 - t0), (long long)(t2 - t1), (long long)(t3 - t2), (long long)(ck_mono_us() - t3));
    fflush(stdout);
    for (int i = 0; i < b->forks; i++)
        vm_end(b, &b->clone[i]);
}

static void on_tick(uv_timer_t *t) { (void)t; }

// Layers until the disks are merged, by the machine itself.
static void chain(struct bench *b)
{
    while (ck_machine_disk_depth(b->source.m) < CK_LAYER_DISKS_MERGE)
        checkpoint(b, false, "checkpoint_again");
    int64_t t0 = ck_mono_us(), until = ck_mono_ms() + WAIT_MS;
    uv_timer_t tick;
    uv_timer_init(&b->loop, &tick);
    uv_timer_start(&tick, on_tick, 100, 0);
    while (ck_machine_disk_depth(b->source.m) && ck_mono_ms() < until) {
        uv_timer_start(&tick, on_tick, 100, 0);
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&tick, NULL);
    if (ck_machine_disk_depth(b->source.m))
        die(b, "the disks were not merged");
    printf("{\"step\":\"merged\",\"after_us\":%lld}\n", (long long)(ck_mono_us() - t0));
    vm_check(b, &b->source, "source after merging");
}

static void verify_all(struct bench *b)
{
    struct ck_layer l;
    int64_t t0 = ck_mono_us();
    need(b, ck_layer_open(b->layers, b->made.info.id, &l, &b->err), "open");
    need(b, ck_layer_verify(&l, &b->err), "verify");
    ck_layer_close(&l);
    printf("{\"step\":\"verify\",\"us\":%lld}\n", (long long)(ck_mono_us() - t0));
}

static void run(struct bench *b)
{
    int state_fd;
    char code[4096], line[64];
    vm_start(b, &b->source, "disk");
    need(b, ck_template_open_state(&b->t, &state_fd, &b->err), "state");
    b->done = 0;
    need(b, ck_machine_restore(b->source.m, state_fd, on_done, b, &b->err), "restore");
    wait_for(b, &b->done, "restore");
    vm_cont(b, &b->source);
    uint16_t port = b->source.port[CK_VM_PORT_AGENT];
    need(b, guest_personalise(b->zctx, port, b->key, WAIT_MS, &b->err), "personalise");
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): a constant above
    snprintf(code, sizeof code, hog, b->mb);
    need(b, guest_call(b->zctx, port, b->key, code, "ready\n", line, sizeof line, WAIT_MS, &b->err),
         "program in the guest");
    vm_check(b, &b->source, "source");
    vm_start(b, &b->clone[0], "clone");
    checkpoint(b, false, "checkpoint");
    verify_all(b);
    restore(b, &b->clone[0], "restore");
    vm_check(b, &b->source, "source after a checkpoint");
    vm_end(b, &b->clone[0]);
    chain(b);
    b->clone[0].closed = false;
    vm_start(b, &b->clone[0], "clone2");
    checkpoint(b, false, "checkpoint_merged");
    restore(b, &b->clone[0], "restore_merged");
    vm_end(b, &b->clone[0]);
    b->clone[0].closed = false;
    if (b->forks)
        forks(b);
    checkpoint(b, true, "pause");
    vm_end(b, &b->source);
    b->source.closed = false;
    vm_start(b, &b->source, "resumed");
    restore(b, &b->source, "resume");
    vm_end(b, &b->source);
}

static int child(struct bench *b, const char *template_dir, bool jail)
{
    struct ck_jail_report report;
    if (ck_template_load(template_dir, NULL, &b->t, &b->err))
        die(b, "template");
    struct ck_jail_opts o = {.id = strrchr(b->dir, '/') + 1, .session_dir = b->dir, .template_dir = b->t.dir,
                             .image_dir = b->t.image_dir, .keep = &b->ram_fd, .nkeep = 1};
    if (jail && ck_jail_apply(&o, &report, &b->err))
        die(b, "jail");
    uv_loop_init(&b->loop);
    b->zctx = guest_context();
    ck_random(b->key, sizeof b->key);
    run(b);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench b = {.mb = 2};
    const char *dir = "/tmp", *template_dir = NULL;
    bool jail = true;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--no-jail"))
            jail = false;
        else if (!strcmp(argv[i], "--mb") && i + 1 < argc)
            b.mb = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--forks") && i + 1 < argc)
            b.forks = (int)strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
            dir = argv[++i];
        else
            template_dir = argv[i];
    }
    char ram[PATH_MAX];
    if (!template_dir || b.forks < 0 || b.forks > FORKS_MAX) {
        fprintf(stderr, "usage: vmm_layers [--no-jail] [--mb N] [--forks N] [--dir D] TEMPLATE_DIR\n");
        return 2;
    }
    snprintf(b.dir, sizeof b.dir, "%.60s/vmm-layers-%d", dir, (int)getpid());
    snprintf(b.layers, sizeof b.layers, "%s/layers", b.dir);
    if (ck_template_load(template_dir, NULL, &b.t, &b.err) || ck_path(ram, sizeof ram, &b.err, "%s/ram", b.t.dir) ||
        ck_ramfd_load(ram, ck_template_ram_bytes(&b.t), &b.ram_fd, &b.err) || ck_mkdirs(b.dir, 0700, &b.err))
        die(&b, "set-up");
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(&b, template_dir, jail));
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        ;
    int bad = ck_remove_tree(b.dir, &b.err);
    ck_cgroup_sweep();
    bad |= !WIFEXITED(status) || WEXITSTATUS(status);
    printf("{\"mb\":%u,\"ok\":%s}\n", b.mb, bad ? "false" : "true");
    return bad ? 1 : 0;
}
