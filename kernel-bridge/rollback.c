// Rolling back: an older VM of this session takes the place of the one that runs. It is loaded beside
// the running one (on ports and a disk of its own), so that a layer that cannot be loaded costs
// nothing; then the clients' work is ended, the old VM goes, and the rest is the set-up of every
// session. Consumers, connections and the log stay. A VM that is too large to be there twice goes
// before the older one is loaded. Must never let two VMs of a session run at once.
#include "common/ck_fs.h"
#include "common/ck_log.h"
#include "kernel-bridge/bridge.h"

#include <stdlib.h>

#define BESIDE_MAX (512ull << 20) // of a layer's memory: what a session may have beyond its own (bridge_main.c) is 1 GiB
#define OTHER_PORTS 10 // between the guest's own numbers and those of every second VM of a session

struct loading {
    uv_work_t work;
    struct bridge *b;
    struct ck_layer layer;
    struct frozen frozen;
    char dir[PATH_MAX], disk[PATH_MAX], id[CK_UUID_MAX];
    const struct ck_template *template; // the bridge's, which outlives the work and does not change
    struct ck_err err;
};

static void give_up(struct bridge *b, const struct ck_err *err)
{
    struct ck_machine *next = b->life.next;
    struct ck_err e = *err;
    b->life.next = NULL;
    uv_timer_stop(&b->life.deadline);
    ck_layer_close(&b->layer);
    frozen_free(&b->frozen);
    ck_machine_close(next, NULL, NULL);
    ck_wrap(&e, "rolling back");
    br_life_end(b, &e);
}

static void too_late(uv_timer_t *t)
{
    struct bridge *b = t->data;
    struct ck_err err = CK_ERR_INIT;
    ck_fail(&err, 504, "timeout", "the older VM was not ready within %d s", BR_SETUP_MS / 1000);
    char text[100];
    snprintf(text, sizeof text, "the session was not ready within %d s after it was rolled back", BR_SETUP_MS / 1000);
    if (b->state == BR_ROLLBACK)
        br_dead(b, text);
    else if (b->life.op == BR_LIFE_ROLLBACK && b->life.next)
        give_up(b, &err);
}

bool br_rollback_exit(struct bridge *b, const struct ck_machine *m, const char *reason)
{
    struct ck_err err = CK_ERR_INIT;
    if (!m || m != b->life.next)
        return false;
    ck_fail(&err, 502, "vm_died", "%s", reason);
    give_up(b, &err);
    return true;
}

// ---- the old VM goes ----------------------------------------------------------------------------

static void rolled_back(struct bridge *b, const struct ck_err *err)
{
    uv_timer_stop(&b->life.deadline);
    svc_tell(b->svc); // that it runs again comes before the answer
    br_life_end(b, err);
}

static void end_present(struct bridge *b, const char *why)
{
    struct ck_err err = CK_ERR_INIT;
    struct ac *ac = b->ac;
    struct kc *kc = b->kc;
    ck_fail(&err, 409, "rolled_back", "%s", why);
    b->ac = NULL;
    b->kc = NULL;
    br_kernel_up_stop(b);
    uv_timer_stop(&b->restart_timer);
    b->doomed = b->restart_wanted = false;
    br_endings_reset(b);
    br_restart_fail(b, &err);
    ac_fail_all(ac, &err);
    ac_close(ac);
    kc_close(kc);
    br_commands_vm_died(b, &err);
    br_cells_shut_down(b, why);
    trk_kernel_gone(b->trk);
    br_fail_jupyter(b, "RolledBack", why);
    b->jupyter_changes = b->jupyter_changes_again = b->asks = false;
}

struct sweeping {
    uv_work_t work;
    char disk[PATH_MAX];
};

static void do_sweep(uv_work_t *w) { br_restore_sweep(((struct sweeping *)w->data)->disk); }

static void swept(uv_work_t *w, int status)
{
    (void)status;
    free(w->data);
}

static void sweep(struct bridge *b)
{
    struct sweeping *s = calloc(1, sizeof *s);
    if (!s)
        return; // the next start does it
    s->work.data = s;
    snprintf(s->disk, sizeof s->disk, "%s", b->disk);
    if (uv_queue_work(b->loop, &s->work, do_sweep, swept))
        free(s);
}

static void old_gone(void *user)
{
    struct bridge *b = user;
    if (b->state == BR_ROLLBACK)
        br_setup_load(b);
}

// loaded: the older VM is whole and only has to run.
static void take_over(struct bridge *b, bool loaded)
{
    char why[100];
    struct ck_machine *old = b->machine;
    snprintf(why, sizeof why, "rolled back to %s", b->life.layer);
    b->state = BR_ROLLBACK;
    b->origin = BR_OF_PAST;
    b->on_setup = rolled_back;
    end_present(b, why);
    br_account_vm_goes(b);
    b->machine = b->life.next;
    b->life.next = NULL;
    ck_machine_close(old, loaded ? NULL : old_gone, b);
    sweep(b); // of the old VM: what it held that a layer needs lies in the layer's folder
    snprintf(b->disk, sizeof b->disk, "%s", b->life.disk);
    memcpy(b->port, b->life.port, sizeof b->port);
    b->execution_count = b->frozen.execution_count;
    b->usage.cpu_ms = -1; // the kernel's clock of its own went back too
    br_state_event(b, why);
    if (loaded)
        br_setup_run(b);
}

// ---- the older VM comes -------------------------------------------------------------------------

static void restored(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    struct ck_err e = CK_ERR_INIT;
    if (m != b->life.next)
        return;
    if (err) {
        give_up(b, err);
    } else if (br_check_alive(b, &e)) { // it died meanwhile
        give_up(b, &e);
    } else {
        take_over(b, true);
    }
}

static void started(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    struct ck_err e = CK_ERR_INIT;
    if (m != b->life.next)
        return;
    if (err || br_check_alive(b, &e))
        give_up(b, err ? err : &e);
    else if (b->layer.info.ram.bytes > BESIDE_MAX)
        take_over(b, false);
    else if (ck_machine_restore_layer(m, &b->layer, restored, b, &e))
        give_up(b, &e);
}

// Inside the private network all ports are free but those of the running VM.
static int other_ports(struct bridge *b, struct ck_err *err)
{
    uint16_t fixed[CK_VM_PORTS];
    ck_machine_ports_fixed(fixed);
    if (!b->private_net)
        return ck_machine_ports_ephemeral(b->life.port, err);
    for (int i = 0; i < CK_VM_PORTS; i++)
        b->life.port[i] = (uint16_t)(b->port[i] == fixed[i] ? fixed[i] + OTHER_PORTS : fixed[i]);
    return 0;
}

static int begin_next(struct bridge *b, struct ck_err *err)
{
    struct ck_machine_opts o = {.loop = b->loop, .template = &b->template, .disk = b->life.disk, .ram_fd = b->ram_fd,
                                .on_exit = br_vm_exit, .user = b};
    if (other_ports(b, err))
        return -1;
    memcpy(o.host_port, b->life.port, sizeof o.host_port);
    if (ck_machine_new(&o, &b->life.next, err))
        return -1;
    return ck_machine_start(b->life.next, started, b, err);
}

static void load(uv_work_t *w)
{
    struct loading *l = w->data;
    if (!br_restore_open(l->dir, l->id, l->template, &l->layer, &l->frozen, &l->err))
        ck_template_make_disk(l->template, l->disk, &l->err);
}

static void loaded(uv_work_t *w, int status)
{
    struct loading *l = w->data;
    struct bridge *b = l->b;
    struct ck_err err = l->err;
    (void)status;
    b->layer = l->layer;
    b->frozen = l->frozen;
    free(l);
    if (b->state == BR_CLOSING)
        return;
    if (!err.status && !br_check_alive(b, &err) && !begin_next(b, &err))
        return;
    give_up(b, &err);
}

int br_rollback(struct bridge *b, struct reply_to to, const char *layer, struct ck_err *err)
{
    struct loading *l = br_life_may(b, err) ? NULL : calloc(1, sizeof *l);
    if (!l)
        return err->status ? -1 : ck_fail(err, 500, "no_memory", "no memory to roll back");
    l->b = b;
    l->work.data = l;
    l->layer = (struct ck_layer)CK_LAYER_INIT;
    l->template = &b->template;
    snprintf(l->dir, sizeof l->dir, "%s", b->conf.dir);
    snprintf(l->id, sizeof l->id, "%s", layer);
    bool second = !strcmp(strrchr(b->disk, '/'), "/disk.qcow2");
    if (ck_path(l->disk, sizeof l->disk, err, "%s/%s", b->conf.dir, second ? "disk-2.qcow2" : "disk.qcow2") ||
        uv_queue_work(b->loop, &l->work, load, loaded)) {
        free(l);
        return err->status ? -1 : ck_fail(err, 500, "no_thread", "no thread to read a layer");
    }
    snprintf(b->life.layer, sizeof b->life.layer, "%s", layer);
    snprintf(b->life.disk, sizeof b->life.disk, "%s", l->disk);
    b->life.op = BR_LIFE_ROLLBACK;
    b->life.to = to;
    uv_timer_start(&b->life.deadline, too_late, BR_SETUP_MS, 0);
    return 0;
}
