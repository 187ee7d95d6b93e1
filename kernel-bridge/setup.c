// From nothing to a session: QEMU, the state of the template or of a layer, the agent made this
// session's own, the kernel too, both directions proved. A chain of callbacks, one step each, for
// every origin (enum br_origin); any failure ends in br_dead, which fails the start: a
// half-personalised VM never serves anyone.
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"

#include <stdio.h>

static bool under_way(const struct bridge *b) { return b->state == BR_STARTING || b->state == BR_ROLLBACK; }

static void fail(struct bridge *b, const char *step, const struct ck_err *err)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %.200s", step, err->text);
    br_dead(b, text);
}

// How long each step took, for whoever wonders why sessions start slowly.
static void took(struct bridge *b, const char *step)
{
    int64_t now = ck_mono_ms();
    ck_log(CK_LOG_INFO, "bridge", "setup step=%s ms=%lld", step, (long long)(now - b->setup_step_ms));
    b->setup_step_ms = now;
}

void br_vm_exit(struct ck_machine *m, const struct ck_machine_exit *how, void *user)
{
    const char *reason = how->reason[0] ? how->reason : "QEMU ended";
    if (!br_rollback_exit(user, m, reason))
        br_dead(user, reason);
}

static void on_push(void *user, const char *ev, const json_t *header, struct ck_slice payload)
{
    struct bridge *b = user;
    if (!strcmp(ev, "kernel_exit"))
        br_kernel_exit(b, header);
    else
        br_command_push(b, ev, header, payload);
}

static void on_hostile(void *user)
{
    br_dead(user, "the guest sent a thousand malformed or wrongly signed messages, so its VM was stopped");
}

static void finished(struct bridge *b)
{
    if (--b->setup_open)
        return;
    void (*tell)(struct bridge *, const struct ck_err *) = b->on_setup;
    b->on_setup = NULL;
    frozen_free(&b->frozen);
    b->state = BR_READY;
    if (!b->pool) // a pooled one is told when it is claimed
        br_cpu_share(b);
    br_state_event(b, "");
    br_parked_flush(b);
    br_cells_dispatch(b);
    if (tell)
        tell(b, NULL);
}

// The first `changes` sets the line: what the template's warm-up wrote is nobody's artifact.
static void baseline_taken(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)payload;
    if (!under_way(b))
        return;
    if (err) {
        fail(b, "asking for the files that exist", err);
        return;
    }
    took(b, "baseline");
    br_usage_read(&b->usage, json_object_get(answer, "usage"));
    b->usage_in_changes = json_object_get(answer, "usage") != NULL;
    if (!b->usage_in_changes)
        br_usage_refresh(b);
    finished(b);
}

static void kernel_proved(struct bridge *b, const struct ck_err *err)
{
    struct ck_err e = CK_ERR_INIT;
    took(b, "kernel_proved");
    if (err)
        fail(b, "proving the kernel's connection", err);
    else if (b->origin == BR_OF_PAUSE || b->origin == BR_OF_PAST)
        finished(b); // the agent remembers where the line was
    else if (ac_request(b->ac, json_pack("{s:s}", "op", "changes"), ck_slice("", 0), BR_AGENT_MS, baseline_taken, b,
                        &e) < 0)
        fail(b, "asking for the files that exist", &e);
}

static void kernel_personalised(void *user, const struct ck_slice *content, const struct ck_err *err)
{
    struct bridge *b = user;
    char status[16] = "";
    struct ck_err e = CK_ERR_INIT;
    if (!err) {
        jscan_field_str(*content, "status", status, sizeof status);
        if (strcmp(status, "ok")) {
            ck_fail(&e, 502, "kernel_refused", "the kernel refused its new key");
            err = &e;
        }
    }
    took(b, "kernel_personalised");
    if (err)
        fail(b, "personalising the kernel", err);
    else
        (b->origin == BR_OF_TEMPLATE ? br_kernel_prove : br_kernel_return)(b, ck_mono_ms() + BR_SETUP_MS / 2,
                                                                          kernel_proved);
}

// The kernel's half of what makes a clone its own; seed in hex.
static int personality(const struct bridge *b, const char *key, const char *seed, struct ck_buf *out)
{
    static const char *const modes[] = {
        [BR_OF_TEMPLATE] = "fresh", [BR_OF_FORK] = "fork", [BR_OF_PAUSE] = "resume", [BR_OF_PAST] = "resume"};
    if (ck_buf_printf(out, "{\"key\":\"%s\",\"seed\":\"%s\",\"mode\":\"%s\"", key, seed, modes[b->origin]))
        return -1;
    if (b->origin != BR_OF_TEMPLATE &&
        (ck_buf_printf(out, ",\"topic\":\"%s\",\"seen\":", b->topic) ||
         ck_buf_add_json_str(out, b->frozen.seen, strlen(b->frozen.seen))))
        return -1;
    return ck_buf_add_str(out, "}");
}

// The request is signed with the key that the guest knows, its reply with the new one.
static void personalise_kernel(struct bridge *b)
{
    uint8_t raw[32], seed[32];
    char key[65], seed_hex[65];
    CK_CLEAN_BUF struct ck_buf content = CK_BUF_INIT;
    struct ck_err err = CK_ERR_INIT;
    ck_random(raw, sizeof raw);
    ck_random(seed, sizeof seed);
    ck_hex(raw, sizeof raw, key);
    ck_hex(seed, sizeof seed, seed_hex);
    if (personality(b, key, seed_hex, &content))
        ck_fail(&err, 500, "no_memory", "no memory for a request");
    if (err.status || kc_call(b->kc, JW_CONTROL, "cellkeep_personalise", ck_buf_slice(&content), BR_SETUP_MS / 2,
                              kernel_personalised, b, &err)) {
        fail(b, "personalising the kernel", &err);
    } else {
        kc_set_key(b->kc, key);
        b->muted = false; // what is signed with the key before is dropped from here on
    }
    explicit_bzero(raw, sizeof raw);
    explicit_bzero(key, sizeof key);
    if (content.n)
        explicit_bzero(content.p, content.n);
}

static void clock_set(struct bridge *b, const struct ck_err *err)
{
    if (!under_way(b))
        return;
    if (err)
        fail(b, "setting the VM's clock", err);
    else
        finished(b);
}

// Which process is the kernel: needed to tell its exits from those of its predecessors.
static void hello(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    (void)payload;
    if (!err && !b->kernel_pid)
        b->kernel_pid = ck_json_int(answer, "kernel_pid", 0, NULL);
    if (under_way(b))
        br_clock_set(b, clock_set); // beside the kernel's steps
}

static void agent_personalised(void *user, const json_t *answer, struct ck_slice payload, const struct ck_err *err)
{
    struct bridge *b = user;
    struct ck_err e = CK_ERR_INIT;
    (void)answer;
    (void)payload;
    if (!under_way(b))
        return;
    took(b, "vm_personalised");
    if (err)
        fail(b, "personalising the VM", err);
    else if (ac_request(b->ac, json_pack("{s:s}", "op", "hello"), ck_slice("", 0), BR_AGENT_MS, hello, b, &e) < 0)
        fail(b, "asking for the kernel's process", &e);
    else
        personalise_kernel(b);
}

static void personalise_agent(struct bridge *b)
{
    uint8_t key[AW_KEY_LEN], entropy[64], id[16];
    char key_hex[2 * AW_KEY_LEN + 1], host[16];
    struct ck_err err = CK_ERR_INIT;
    ck_random(key, sizeof key);
    ck_random(entropy, sizeof entropy);
    ck_random(id, sizeof id);
    ck_hex(key, sizeof key, key_hex);
    ck_hex(id, sizeof id, b->machine_id);
    if (b->origin == BR_OF_PAUSE || b->origin == BR_OF_PAST) // the same machine as before
        memcpy(b->machine_id, b->frozen.machine_id, sizeof b->machine_id);
    snprintf(host, sizeof host, "ck-%.8s", b->conf.id);
    json_t *o = json_pack("{s:s,s:s,s:I,s:s,s:s}", "op", "personalise", "key", key_hex, "time_us",
                          (json_int_t)ck_wall_us(), "hostname", host, "machine_id", b->machine_id);
    if (ac_personalise(b->ac, o, ck_slice(entropy, sizeof entropy), key, BR_SETUP_MS / 2, agent_personalised, b, &err) <
        0)
        fail(b, "personalising the VM", &err);
    explicit_bzero(key, sizeof key);
    explicit_bzero(key_hex, sizeof key_hex);
    explicit_bzero(entropy, sizeof entropy);
}

static void running(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    struct ck_err e = CK_ERR_INIT;
    bool past = b->origin != BR_OF_TEMPLATE;
    (void)m;
    b->setup_open = 2;
    if (!under_way(b))
        return;
    took(b, "running");
    if (err) {
        fail(b, "letting the VM run", err);
        return;
    }
    struct ac_opts o = {.loop = b->loop, .zctx = b->zctx, .port = b->port[CK_VM_PORT_AGENT],
                        .key = past ? b->frozen.agent_key : NULL, .number = past ? b->frozen.agent_n : 0,
                        .on_push = on_push, .on_hostile = on_hostile, .user = b};
    b->kernel_pid = past ? b->frozen.kernel_pid : 0;
    b->muted = past;
    b->ac = ac_open(&o, &e);
    if (!b->ac)
        fail(b, "connecting to the VM's agent", &e);
    else if (br_kernel_connect(b, past ? b->frozen.kernel_key : "template", &e)) // connects while the agent works
        fail(b, "connecting to the kernel", &e);
    else
        personalise_agent(b);
}

void br_setup_run(struct bridge *b)
{
    struct ck_err e = CK_ERR_INIT;
    if (b->origin != BR_OF_TEMPLATE)
        snprintf(b->topic, sizeof b->topic, "restored-%.8s-%lld", b->own_session, (long long)ck_mono_us());
    if (ck_machine_cont(b->machine, running, b, &e))
        fail(b, "letting the VM run", &e);
}

static void restored(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    (void)m;
    if (!under_way(b))
        return;
    took(b, "restored");
    if (err)
        fail(b, b->origin == BR_OF_TEMPLATE ? "restoring the template" : "restoring the layer", err);
    else
        br_setup_run(b);
}

void br_setup_load(struct bridge *b)
{
    struct ck_err e = CK_ERR_INIT;
    if (ck_machine_restore_layer(b->machine, &b->layer, restored, b, &e))
        fail(b, "restoring the layer", &e);
}

// What the session begins from, into a QEMU that waits.
static void load(struct bridge *b)
{
    struct ck_err e = CK_ERR_INIT;
    int fd = b->state_fd;
    if (b->origin != BR_OF_TEMPLATE) {
        br_setup_load(b);
        return;
    }
    b->state_fd = -1; // the machine takes it over
    if (ck_machine_restore(b->machine, fd, restored, b, &e))
        fail(b, "restoring the template", &e);
}

static void started(struct ck_machine *m, const struct ck_err *err, void *user)
{
    struct bridge *b = user;
    (void)m;
    if (!under_way(b))
        return;
    took(b, "qemu_started");
    if (err)
        fail(b, "starting QEMU", err);
    else if (b->conf.spare)
        b->on_waiting(b);
    else
        load(b);
}

void br_setup_begin(struct bridge *b)
{
    struct ck_err e = CK_ERR_INIT;
    b->setup_step_ms = ck_mono_ms();
    if (br_begin(b, &e))
        fail(b, "reading what the session begins from", &e);
    else
        load(b);
}

int br_setup(struct bridge *b, struct ck_err *err)
{
    if (!b->conf.spare && br_begin(b, err))
        return -1;
    b->setup_step_ms = ck_mono_ms();
    struct ck_machine_opts o = {.loop = b->loop, .template = &b->template, .disk = b->disk, .ram_fd = b->ram_fd,
                                .on_exit = br_vm_exit, .user = b};
    memcpy(o.host_port, b->port, sizeof o.host_port);
    if (ck_machine_new(&o, &b->machine, err))
        return -1;
    return ck_machine_start(b->machine, started, b, err);
}
