// Checkpoint, restore of a layer and merge on their loop, against this same program playing QEMU: the
// CPU model names the scenario. Its memory is real (a private mapping of the template's memfd), its
// disks are only names. What each failure must leave: a VM that goes on, no folder, and no descriptor.
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/layer.h"
#include "vmm/machine_int.h"
#include "vmm/machine_vm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((unsigned)CK_MEMORY_MB_MIN)

// ---- the other side ---------------------------------------------------------------------------

static const char *scenario = "ok";
static char *memory;
static int last_fd = -1; // the descriptor that came last: that of the state is the last but blockdev-add

static void say(const char *text)
{
    if (write(3, text, strlen(text)) < 0)
        _exit(9);
}

static void reply(const char *line, const char *what)
{
    const char *id = strstr(line, "\"id\":");
    char text[512];
    snprintf(text, sizeof text, "{%s,\"id\":%d}\r\n", what, id ? atoi(id + 5) : 0);
    say(text);
}

static bool is(const char *line, const char *command)
{
    char text[64];
    snprintf(text, sizeof text, "\"execute\": \"%s\"", command);
    char tight[64];
    snprintf(tight, sizeof tight, "\"execute\":\"%s\"", command);
    return strstr(line, text) || strstr(line, tight);
}

// "fail-COMMAND" refuses it, "die-COMMAND" ends there, "deaf-COMMAND" never answers.
static bool troubled(const char *line)
{
    const char *dash = strchr(scenario, '-');
    if (!dash || !is(line, dash + 1))
        return false;
    if (!strncmp(scenario, "die-", 4))
        _exit(5);
    if (!strncmp(scenario, "fail-", 5))
        reply(line, "\"error\":{\"class\":\"GenericError\",\"desc\":\"told to fail\"}");
    return true;
}

static void job_event(const char *name, const char *more)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"event\":\"BLOCK_JOB_%s\",\"data\":{\"device\":\"merge\",\"type\":\"stream\"%s}}\r\n", name, more);
    say(text);
}

static void serve(const char *line)
{
    if (troubled(line))
        return;
    if (is(line, "xen-save-devices-state") && write(last_fd, "state", 5) != 5) {
        reply(line, "\"error\":{\"class\":\"GenericError\",\"desc\":\"no descriptor\"}");
        return;
    }
    reply(line, "\"return\":{}");
    if (is(line, "migrate-incoming"))
        say("{\"event\":\"MIGRATION\",\"data\":{\"status\":\"completed\"}}\r\n");
    else if (is(line, "cont"))
        say("{\"event\":\"RESUME\"}\r\n");
    else if (is(line, "stop"))
        say("{\"event\":\"STOP\"}\r\n");
    else if (is(line, "block-job-cancel"))
        job_event("CANCELLED", "");
    else if (is(line, "block-stream") && !strcmp(scenario, "stream.fails"))
        job_event("COMPLETED", ",\"error\":\"told to\"");
    else if (is(line, "block-stream") && strcmp(scenario, "stream.lasts") != 0)
        job_event("COMPLETED", "");
    else if (is(line, "quit"))
        exit(0);
}

static int play_qemu(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "-cpu"))
            scenario = argv[i + 1];
    memory = mmap(NULL, (size_t)MIB << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, 4, 0);
    if (memory == MAP_FAILED)
        return 70;
    say("{\"QMP\":{\"version\":{},\"capabilities\":[]}}\r\n");
    static char buf[1 << 20];
    for (size_t n = 0;;) {
        char control[CMSG_SPACE(sizeof(int))];
        struct iovec iov = {buf + n, sizeof buf - n - 1};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t got = recvmsg(3, &m, MSG_CMSG_CLOEXEC);
        if (got <= 0)
            return 3;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (c && c->cmsg_type == SCM_RIGHTS)
            memcpy(&last_fd, CMSG_DATA(c), sizeof last_fd);
        n += (size_t)got;
        buf[n] = 0;
        for (char *nl; (nl = strchr(buf, '\n'));) {
            *nl = 0;
            if (strstr(buf, "\"cont\""))
                snprintf(memory + 5 * 4096, 64, "the guest was here");
            serve(buf);
            n -= (size_t)(nl + 1 - buf);
            memmove(buf, nl + 1, n + 1);
        }
    }
}

// ---- this side --------------------------------------------------------------------------------

struct fix {
    uv_loop_t loop;
    struct ck_machine *m;
    struct ck_template t;
    int ram, done, made, frozen, exits, closed, order;
    char dir[64], disk[96], layers[96], id[CK_UUID_MAX];
    char reason[CK_ERR_REASON_MAX], text[CK_ERR_TEXT_MAX];
    struct ck_checkpoint layer;
    int (*session)(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err);
    int fds;
};

static int open_descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void on_done(struct ck_machine *m, const struct ck_err *err, void *user)
{
    (void)m;
    struct fix *f = user;
    f->done++;
    snprintf(f->reason, sizeof f->reason, "%s", err ? err->reason : "ok");
    snprintf(f->text, sizeof f->text, "%s", err ? err->text : "");
}

static void on_frozen(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct fix *f = user;
    f->frozen = err ? -1 : 1;
    assert_int_equal(f->made, 0); // first this, then that
    if (!err)
        assert_false(ck_machine_busy(m));
}

static void on_made(const struct ck_checkpoint *made, const struct ck_err *err, void *user)
{
    struct fix *f = user;
    f->made++;
    snprintf(f->reason, sizeof f->reason, "%s", err ? err->reason : "ok");
    snprintf(f->text, sizeof f->text, "%s", err ? err->text : "");
    assert_true(!made == !!err);
    if (made)
        f->layer = *made;
}

static void on_exit_cb(struct ck_machine *m, const struct ck_machine_exit *how, void *user)
{
    (void)m;
    (void)how;
    ((struct fix *)user)->exits++;
}

static void on_closed(void *user) { ((struct fix *)user)->closed++; }

static void put(const char *dir, const char *name, const void *p, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(ck_write_file_atomic(path, p, n, 0600, NULL), 0);
}

static void make_template(struct fix *f)
{
    static const uint8_t head[512] = {'Q', 'F', 'I', 0xfb, [7] = 3, [27] = 1, [103] = 112};
    snprintf(f->dir, sizeof f->dir, "/tmp/ck-checkpoint-%d", (int)getpid());
    snprintf(f->layers, sizeof f->layers, "%s/layers", f->dir);
    assert_int_equal(ck_remove_tree(f->dir, NULL) || ck_mkdirs(f->dir, 0700, NULL), 0);
    put(f->dir, "blank.qcow2", head, sizeof head);
    put(f->dir, "disk.qcow2", head, sizeof head);
    f->t = (struct ck_template){.memory_mb = MIB, .hash = "h", .image = "i", .qemu = "q", .cpu = "c", .created_us = 5};
    snprintf(f->t.dir, sizeof f->t.dir, "%s", f->dir);
    f->ram = memfd_create("ram", MFD_CLOEXEC);
    assert_int_equal(ftruncate(f->ram, (off_t)MIB << 20), 0);
}

static void machine(struct fix *f, const char *cpu, const char *disk)
{
    static char self[PATH_MAX];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(f->disk, sizeof f->disk, "%s/%s", f->dir, disk);
    assert_int_equal(ck_template_make_disk(&f->t, f->disk, NULL), 0);
    struct ck_vm_spec spec = {.use = CK_VM_SESSION, .qemu = self, .cpu = cpu, .memory_mb = MIB, .root_image = "/r",
                              .disk = f->disk, .disk_base = "/b", .host_port = {1, 2, 3, 4, 5, 6}};
    struct ck_machine_vm_opts o = {.loop = &f->loop,
                                   .spec = &spec,
                                   .ram_fd = f->ram,
                                   .template = &f->t,
                                   .on_exit = on_exit_cb,
                                   .user = f,
                                   .start_ms = 5000,
                                   .restore_ms = 5000,
                                   .command_ms = 400,
                                   .quit_ms = 200};
    assert_int_equal(ck_machine_new_vm(&o, &f->m, NULL), 0);
}

static void until(struct fix *f, const int *flag)
{
    int64_t end_at = ck_mono_ms() + 20000;
    while (!*flag && ck_mono_ms() < end_at) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    assert_true(*flag);
}

static void wait_done(struct fix *f, const char *reason)
{
    until(f, &f->done);
    assert_string_equal(f->reason, reason);
    f->done = 0;
}

static void start(struct fix *f)
{
    assert_int_equal(ck_machine_start(f->m, on_done, f, NULL), 0);
    wait_done(f, "ok");
}

static void begin(struct fix *f, const char *cpu)
{
    memset(f, 0, sizeof *f);
    make_template(f);
    uv_loop_init(&f->loop);
    f->fds = open_descriptors();
    machine(f, cpu, "disk0.qcow2");
    start(f);
    assert_int_equal(ck_machine_restore(f->m, open("/dev/null", O_RDONLY | O_CLOEXEC), on_done, f, NULL), 0);
    wait_done(f, "ok");
    assert_int_equal(ck_machine_cont(f->m, on_done, f, NULL), 0);
    wait_done(f, "ok");
}

static void close_machine(struct fix *f)
{
    f->closed = 0;
    ck_machine_close(f->m, on_closed, f);
    until(f, &f->closed);
}

static bool exists(const struct fix *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f->layers, name);
    return !access(path, F_OK);
}

static int entries(const char *dir)
{
    int n = -2; // . and ..
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return d ? n : 0;
}

static void end(struct fix *f)
{
    close_machine(f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(open_descriptors(), f->fds);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    close(f->ram);
    ck_remove_tree(f->dir, NULL);
}

static int ask(struct fix *f, bool stay, struct ck_err *err)
{
    ck_uuid4(f->id);
    f->made = f->frozen = 0;
    struct ck_checkpoint_opts o = {.dir = f->layers, .id = f->id, .stay = stay, .session = f->session};
    return ck_machine_checkpoint(f->m, &o, on_frozen, on_made, f, err);
}

static void checkpoint(struct fix *f, const char *reason)
{
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ask(f, false, &e), 0);
    assert_int_equal(f->frozen, 0);
    until(f, &f->made);
    assert_string_equal(f->reason, reason);
    assert_int_equal(f->made, 1);
}

static int say_session(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err)
{
    (void)user;
    (void)err;
    assert_int_equal(ck_machine_state(m), CK_MACHINE_STOPPED);
    return ck_buf_add_str(out, "{\"a\":1}");
}

static int refuse_session(struct ck_machine *m, struct ck_buf *out, void *user, struct ck_err *err)
{
    (void)m;
    (void)out;
    (void)user;
    return ck_fail(err, 500, "no_words", "nothing to say");
}

static void a_checkpoint_makes_a_layer_that_another_machine_becomes(void **state)
{
    (void)state;
    struct fix f;
    struct ck_layer l;
    struct ck_err e = CK_ERR_INIT;
    char path[256], page[64] = "";
    begin(&f, "ok");
    f.session = say_session;
    checkpoint(&f, "ok");
    assert_int_equal(f.frozen, 1);
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_RUNNING);
    assert_int_equal(f.layer.private_pages, 1);
    assert_int_equal(f.layer.info.data_pages, 1);
    assert_int_equal(f.layer.info.nbelow, 0);
    assert_int_equal(ck_machine_disk_depth(f.m), 1);
    snprintf(path, sizeof path, "%s/session.json", f.id);
    assert_true(exists(&f, path));
    assert_int_equal(entries(f.layers), 1);
    assert_int_equal(access(f.disk, F_OK), -1); // it is the layer's now
    if (ck_layer_open(f.layers, f.id, &l, &e))
        fail_msg("%s", e.text);
    assert_int_equal(ck_layer_verify(&l, &e), 0);
    close_machine(&f);
    machine(&f, "ok", "other.qcow2");
    start(&f);
    assert_int_equal(ck_machine_restore_layer(f.m, &l, on_done, &f, &e), 0);
    assert_int_equal(l.ram, -1);
    wait_done(&f, "ok");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_STOPPED);
    assert_int_equal(ck_machine_disk_depth(f.m), 1);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)ck_machine_proc(f.m).pid);
    FILE *maps = fopen(path, "r");
    char line[512];
    unsigned long at = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:ram"))
            at = strtoul(line, NULL, 16);
    fclose(maps);
    snprintf(path, sizeof path, "/proc/%d/mem", (int)ck_machine_proc(f.m).pid);
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, page, sizeof page, (off_t)at + 5 * 4096), (int)sizeof page);
    close(fd);
    assert_string_equal(page, "the guest was here");
    checkpoint(&f, "ok"); // of the stopped one, over the layer
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_STOPPED);
    assert_int_equal(f.layer.info.nbelow, 1);
    end(&f);
}

static void a_pause_stays_stopped(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    assert_int_equal(ask(&f, true, NULL), 0);
    until(&f, &f.made);
    assert_string_equal(f.reason, "ok");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_STOPPED);
    assert_true(exists(&f, f.id));
    end(&f);
}

// Whatever QEMU refuses or never answers, the VM goes on and nothing is left behind; and the next
// attempt meets no remains.
static void a_refusal_leaves_a_vm_that_runs_and_no_folder(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"fail-add-fd", "qmp_error"},
                                         {"fail-blockdev-add", "qmp_error"},
                                         {"fail-stop", "qmp_error"},
                                         {"fail-xen-save-devices-state", "qmp_error"},
                                         {"deaf-stop", "qmp_timeout"},
                                         {"deaf-xen-save-devices-state", "qmp_timeout"},
                                         {"fail-blockdev-snapshot", "qmp_error"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fix f;
        begin(&f, bad[i][0]);
        checkpoint(&f, bad[i][1]);
        assert_int_equal(f.frozen, -1);
        assert_int_equal(ck_machine_state(f.m), CK_MACHINE_RUNNING);
        assert_int_equal(f.exits, 0);
        assert_int_equal(entries(f.layers), 0);
        assert_int_equal(access(f.disk, F_OK), 0);
        assert_int_equal(ck_machine_disk_depth(f.m), 0);
        assert_int_equal(entries(f.dir), 4); // the template's two, the disk, layers: no next disk
        checkpoint(&f, bad[i][1]);
        end(&f);
    }
}

static void the_caller_s_words_can_fail_it(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    f.session = refuse_session;
    checkpoint(&f, "no_words");
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_RUNNING);
    assert_int_equal(entries(f.layers), 0);
    f.session = NULL;
    checkpoint(&f, "ok");
    end(&f);
}

static void a_vm_that_cannot_go_on_is_ended(void **state)
{
    (void)state;
    static const char *const bad[] = {"fail-cont", "deaf-cont"};
    for (size_t i = 0; i < 2; i++) {
        struct fix f;
        memset(&f, 0, sizeof f);
        make_template(&f);
        uv_loop_init(&f.loop);
        f.fds = open_descriptors();
        machine(&f, bad[i], "disk0.qcow2");
        start(&f);
        assert_int_equal(ck_machine_restore(f.m, open("/dev/null", O_RDONLY | O_CLOEXEC), on_done, &f, NULL), 0);
        wait_done(&f, "ok");
        f.m->state = CK_MACHINE_RUNNING; // as after a cont that went well
        checkpoint(&f, "vm_died");
        assert_int_equal(f.exits, 1);
        assert_int_equal(entries(f.layers), 0);
        end(&f);
    }
}

static void a_death_at_any_step_is_told_once_and_leaves_no_folder(void **state)
{
    (void)state;
    static const char *const bad[] = {"die-add-fd", "die-blockdev-add",      "die-stop", "die-xen-save-devices-state",
                                      "die-blockdev-snapshot"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fix f;
        begin(&f, bad[i]);
        assert_int_equal(ask(&f, false, NULL), 0);
        until(&f, &f.made);
        assert_string_not_equal(f.reason, "ok");
        until(&f, &f.exits);
        assert_int_equal(f.made, 1);
        assert_int_equal(entries(f.layers), 0);
        end(&f);
    }
}

// The layer's disk must have no writer when done says that the layer is there; a QEMU that dies or is
// deaf then takes nothing from a layer that is written.
static void done_comes_after_qemu_let_go_and_whatever_becomes_of_it(void **state)
{
    (void)state;
    static const char *const bad[] = {"die-remove-fd", "deaf-remove-fd", "fail-remove-fd"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fix f;
        begin(&f, bad[i]);
        int64_t t0 = ck_mono_ms();
        checkpoint(&f, "ok");
        assert_int_equal(f.frozen, 1);
        assert_true(i != 1 || ck_mono_ms() - t0 >= 350); // waited for the answer that did not come
        assert_true(exists(&f, f.id));
        end(&f);
    }
}

// At every turn of the loop: whatever is under way, closing waits for it and calls nothing.
static void closing_at_any_moment_calls_nothing_and_leaves_no_half_layer(void **state)
{
    (void)state;
    bool whole = false;
    for (int turns = 0; turns < 60 && !whole; turns++) {
        struct fix f;
        begin(&f, "ok");
        assert_int_equal(ask(&f, false, NULL), 0);
        for (int i = 0; i < turns && !f.made; i++) {
            uv_run(&f.loop, UV_RUN_NOWAIT);
            usleep(300);
        }
        whole = f.made;
        int frozen = f.frozen, made = f.made;
        close_machine(&f);
        assert_int_equal(f.made, made);
        assert_int_equal(f.frozen, frozen);
        char tmp[64];
        snprintf(tmp, sizeof tmp, "%s.tmp", f.id);
        assert_false(exists(&f, tmp));
        uv_run(&f.loop, UV_RUN_DEFAULT);
        assert_int_equal(open_descriptors(), f.fds);
        assert_int_equal(uv_loop_close(&f.loop), 0);
        close(f.ram);
        ck_remove_tree(f.dir, NULL);
    }
}

static void one_at_a_time_and_only_of_a_vm_that_has_begun(void **state)
{
    (void)state;
    struct fix f;
    struct ck_err e = CK_ERR_INIT;
    struct ck_checkpoint_opts o = {.dir = f.layers, .id = "11111111-2222-4333-8444-555555555555"};
    begin(&f, "ok");
    assert_int_equal(ask(&f, false, NULL), 0);
    assert_true(ck_machine_checkpoint(f.m, &o, NULL, on_made, &f, &e) < 0);
    assert_string_equal(e.reason, "vm_busy");
    assert_true(ck_machine_stop(f.m, on_done, &f, &e) < 0);
    assert_string_equal(e.reason, "vm_busy");
    until(&f, &f.frozen);
    assert_int_equal(ck_machine_stop(f.m, on_done, &f, &e), 0); // the VM is free again before the layer is written
    wait_done(&f, "ok");
    until(&f, &f.made);
    o.id = "../x";
    assert_true(ck_machine_checkpoint(f.m, &o, NULL, on_made, &f, &e) < 0);
    assert_string_equal(e.reason, "bad_layer_id");
    end(&f);
    begin(&f, "ok");
    close_machine(&f);
    machine(&f, "ok", "b.qcow2");
    start(&f);
    assert_true(ck_machine_checkpoint(f.m, &(struct ck_checkpoint_opts){.dir = f.layers, .id = f.layer.info.id}, NULL,
                                      on_made, &f, &e) < 0);
    assert_true(ask(&f, false, &e) < 0);
    assert_string_equal(e.reason, "vm_state");
    end(&f);
}

// The disk was switched, the layer could not be written: the frozen disk is nowhere but in QEMU, and
// no layer may build on it before it is merged.
static void a_layer_that_could_not_be_written_is_merged_before_the_next(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    assert_int_equal(ask(&f, false, NULL), 0);
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f.layers, f.id); // its name is taken: the very last step fails
    ck_mkdirs(path, 0700, NULL);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/x");
    ck_mkdirs(path, 0700, NULL);
    until(&f, &f.made);
    assert_string_equal(f.reason, "cannot_write");
    assert_int_equal(f.frozen, 1);
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_RUNNING);
    assert_int_equal(ck_machine_disk_depth(f.m), 1);
    assert_true(ck_machine_merge_needed(f.m));
    checkpoint(&f, "ok");
    assert_int_equal(f.layer.info.nbelow, 0);
    assert_int_equal(ck_machine_disk_depth(f.m), 1);
    end(&f);
}

static void a_chain_is_merged_by_itself_and_never_longer_than_allowed(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "ok");
    for (int i = 0; i < CK_LAYER_DISKS_MERGE; i++) {
        assert_int_equal(ck_machine_disk_depth(f.m), i);
        checkpoint(&f, "ok");
        assert_int_equal(f.layer.info.nbelow, i);
    }
    int64_t end_at = ck_mono_ms() + 20000;
    while (ck_machine_disk_depth(f.m) && ck_mono_ms() < end_at) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_int_equal(ck_machine_disk_depth(f.m), 0);
    checkpoint(&f, "ok");
    assert_int_equal(f.layer.info.nbelow, 0);
    for (int i = 0; i < CK_LAYER_DISKS_MAX + 2; i++) { // faster than the machine gets to it
        checkpoint(&f, "ok");
        assert_true(ck_machine_disk_depth(f.m) <= CK_LAYER_DISKS_MAX);
    }
    end(&f);
}

static void a_checkpoint_cancels_a_merge(void **state)
{
    (void)state;
    struct fix f;
    begin(&f, "stream.lasts");
    checkpoint(&f, "ok");
    assert_int_equal(ck_machine_merge(f.m, on_done, &f, NULL), 0);
    for (int i = 0; i < 50; i++) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    assert_int_equal(ask(&f, false, NULL), 0);
    wait_done(&f, "merge_cancelled");
    until(&f, &f.made);
    assert_string_equal(f.reason, "ok");
    assert_int_equal(f.layer.info.nbelow, 1);
    end(&f);
}

static void a_merge_that_fails_says_so_and_the_chain_stays(void **state)
{
    (void)state;
    struct fix f;
    struct ck_err e = CK_ERR_INIT;
    begin(&f, "stream.fails");
    assert_true(ck_machine_merge(f.m, on_done, &f, &e) < 0); // nothing to merge
    checkpoint(&f, "ok");
    assert_int_equal(ck_machine_merge(f.m, on_done, &f, NULL), 0);
    wait_done(&f, "merge_failed");
    assert_int_equal(ck_machine_disk_depth(f.m), 1);
    end(&f);
}

static void a_layer_that_does_not_fit_or_is_damaged_is_never_run(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"fail-blockdev-reopen", "qmp_error"}, {"fail-add-fd", "qmp_error"},
                                         {"die-blockdev-add", NULL},            {"fail-migrate-incoming", "qmp_error"}};
    struct fix f;
    struct ck_layer l;
    struct ck_err e = CK_ERR_INIT;
    begin(&f, "ok");
    checkpoint(&f, "ok");
    close_machine(&f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%zu", i);
        machine(&f, bad[i][0], name);
        start(&f);
        f.exits = 0;
        assert_int_equal(ck_layer_open(f.layers, f.id, &l, &e), 0);
        assert_int_equal(ck_machine_restore_layer(f.m, &l, on_done, &f, &e), 0);
        until(&f, &f.done);
        f.done = 0;
        assert_string_not_equal(f.reason, "ok");
        if (bad[i][1])
            assert_string_equal(f.reason, bad[i][1]);
        until(&f, &f.exits); // half of a layer: ended
        close_machine(&f);
    }
    machine(&f, "ok", "c");
    start(&f);
    char path[512];
    snprintf(path, sizeof path, "%s/%s/ram", f.layers, f.id);
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "X", 1, 0), 1);
    close(fd);
    assert_int_equal(ck_layer_open(f.layers, f.id, &l, &e), 0);
    l.info.memory_mb = 512;
    assert_true(ck_machine_restore_layer(f.m, &l, on_done, &f, &e) < 0);
    assert_string_equal(e.reason, "layer_mismatch");
    assert_int_equal(l.ram, -1);
    assert_int_equal(ck_machine_state(f.m), CK_MACHINE_PREPARED); // untouched: another may follow
    assert_int_equal(ck_layer_open(f.layers, f.id, &l, &e), 0);
    f.exits = 0;
    assert_int_equal(ck_machine_restore_layer(f.m, &l, on_done, &f, &e), 0);
    wait_done(&f, "bad_layer");
    assert_non_null(strstr(f.text, "damaged"));
    until(&f, &f.exits);
    end(&f);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "-name"))
        return play_qemu(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_makes_a_layer_that_another_machine_becomes),
        cmocka_unit_test(a_pause_stays_stopped),
        cmocka_unit_test(a_refusal_leaves_a_vm_that_runs_and_no_folder),
        cmocka_unit_test(the_caller_s_words_can_fail_it),
        cmocka_unit_test(a_vm_that_cannot_go_on_is_ended),
        cmocka_unit_test(a_death_at_any_step_is_told_once_and_leaves_no_folder),
        cmocka_unit_test(done_comes_after_qemu_let_go_and_whatever_becomes_of_it),
        cmocka_unit_test(closing_at_any_moment_calls_nothing_and_leaves_no_half_layer),
        cmocka_unit_test(one_at_a_time_and_only_of_a_vm_that_has_begun),
        cmocka_unit_test(a_layer_that_could_not_be_written_is_merged_before_the_next),
        cmocka_unit_test(a_chain_is_merged_by_itself_and_never_longer_than_allowed),
        cmocka_unit_test(a_checkpoint_cancels_a_merge),
        cmocka_unit_test(a_merge_that_fails_says_so_and_the_chain_stays),
        cmocka_unit_test(a_layer_that_does_not_fit_or_is_damaged_is_never_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
