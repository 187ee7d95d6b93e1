// The inside of a bridge process: one session, its VM, its log, its readers. Shared by the files
// that touch sockets; nobody outside kernel-bridge/ includes it. One thread, one loop.
//
//  state          allowed
//  BR_STARTING    queue cells, attach, read the log
//  BR_READY       everything
//  BR_RESTARTING  as STARTING: a fresh kernel is being started
//  BR_ROLLBACK    as STARTING: an older VM takes the place of the one that was
//  BR_PAUSING     nothing: no connection is read; back to READY when the pause fails
//  BR_PAUSED      nothing: everything is on disk, the process is about to exit
//  BR_DEAD        read the log and finished cells, shutdown: the VM is gone for good
//  BR_CLOSING     nothing: the process is about to exit
#pragma once
#include "kernel-bridge/aclient.h"
#include "kernel-bridge/bconf.h"
#include "kernel-bridge/bops.h"
#include "kernel-bridge/cellbook.h"
#include "kernel-bridge/consumers.h"
#include "kernel-bridge/evbuild.h"
#include "kernel-bridge/frozen.h"
#include "kernel-bridge/jscan.h"
#include "kernel-bridge/kclient.h"
#include "kernel-bridge/service.h"
#include "kernel-bridge/tracker.h"
#include "kernel-bridge/written.h"
#include "vmm/cpu_share.h"
#include "vmm/layer.h"
#include "vmm/machine.h"

enum br_state { BR_STARTING, BR_READY, BR_RESTARTING, BR_ROLLBACK, BR_PAUSING, BR_PAUSED, BR_DEAD, BR_CLOSING };

// What the VM that is there, or is being set up, began as.
enum br_origin {
    BR_OF_TEMPLATE,
    BR_OF_FORK,   // another session's layer
    BR_OF_PAUSE,  // this session's, in a new process
    BR_OF_PAST,   // this session's, rolled back to
};

#define BR_WAITERS_MAX 64
#define BR_PARKED_MAX 256                // messages of clients that wait for a fresh kernel
#define BR_PARKED_BYTES_MAX (32u << 20)
// Patience with a guest on a host that has too much to do: no client waits for these, the gateway's
// own deadlines are for them.
#define BR_SETUP_MS 120000        // of the whole
#define BR_AGENT_MS 30000         // for one answer of the agent
#define BR_ASKED_MS 10000         // the same, when it is for a client that waits
#define BR_TOPIC_MAX 40

struct artifacts;
struct command;
struct conn;

struct usage {
    int64_t cpu_ms, memory_bytes, peak_memory_bytes, disk_bytes; // -1 = unknown
    int64_t recent_peak_bytes; // since the look for changes before the last
    int64_t disk_free_bytes, pids_refused;
};

// What the session has used so far, as the host counts it (account.c).
struct account {
    int64_t cpu_us;        // as of the last look
    int64_t cpu_before_us; // of VMs that are no more; negative: what the VM used before the session began
    int64_t wall_before_ms, since_ms; // time that it ran: in earlier processes; since when in this one, 0 = not yet
    int64_t cells[CELL_STATUSES], cell_wall_ms, cell_cpu_ms;
};

// How the active cell ends, once it is known that it does.
struct closing {
    bool decided, changes_asked, changes_done;
    int64_t peak_memory_bytes; // that its kernel had when it ran out of memory; 0 = not told
    enum cell_status status;
    char ended_by[16], detail[320];
};

// The operation on the session as a whole that is under way (life.c, pause.c, rollback.c).
enum br_life_op { BR_LIFE_NONE, BR_LIFE_CHECKPOINT, BR_LIFE_PAUSE, BR_LIFE_ROLLBACK };

struct life {
    enum br_life_op op;
    struct reply_to to;
    char layer[CK_UUID_MAX];
    struct ck_checkpoint made;
    uv_idle_t turn;            // before a pause: the connections are read once more
    unsigned turns;
    uint64_t ops_before;
    struct ck_machine *next;   // of a rollback: until it takes over
    uint16_t port[CK_VM_PORTS]; // its
    char disk[PATH_MAX];        // its
    uv_timer_t deadline;
};

struct bridge {
    uv_loop_t *loop;
    struct bconf conf;
    struct ck_template template;
    void *zctx;
    uint16_t port[CK_VM_PORTS];
    int state_fd; // the template's device state until it is restored
    int ram_fd;
    char disk[PATH_MAX]; // of the VM that is there
    bool private_net;    // nobody else can have the ports we want

    enum br_origin origin;
    struct ck_layer layer;   // what the VM is made of, until that is done
    struct frozen frozen;    // what its guest knows, until that has changed
    bool muted;              // what the kernel says is not believed yet: it speaks with a key of the past
    char topic[BR_TOPIC_MAX]; // by which a restored kernel knows that we listen
    char machine_id[FROZEN_MACHINE_ID_MAX];
    char seen[JW_ID_MAX];    // msg_id of the last message on iopub
    bool asks;               // the kernel waits for stdin
    uint64_t ops;            // operations of clients so far, acks aside
    struct life life;

    enum br_state state;
    char reason[256];       // why it is dead
    char shown[12], shown_reason[256]; // the last `state` event
    int64_t last_activity_us;
    bool pool;

    struct evlog *log;
    struct tracker *trk;
    struct consumers *cons;
    struct cellbook book;
    struct service *svc;

    struct ck_machine *machine;
    struct ac *ac;
    struct kc *kc;
    char own_session[CK_UUID_MAX];    // header.session of the bridge's requests
    char kernel_session[JW_ID_MAX];   // header.session of the kernel, as last seen
    int64_t kernel_pid, execution_count;
    char *kernel_env;                 // JSON object text from claim; NULL = none
    char kernel_cwd[PATH_MAX];

    // bringing a kernel up (kernel_up.c)
    struct {
        bool active, saw_iopub, saw_reply;
        bool past, busy; // the kernel comes out of a layer; it was busy when it was frozen
        int64_t deadline;
        unsigned nudge_ms;
        uv_timer_t timer;
        void (*done)(struct bridge *b, const struct ck_err *err);
    } up;
    int64_t setup_step_ms; // when the last step of the set-up was done
    unsigned setup_open;   // its ends that are not reached yet: the kernel's and the clock's
    struct {
        unsigned rounds;
        int64_t asked_us, best_us, expected_us; // ck_mono_us; round trips
        void (*done)(struct bridge *b, const struct ck_err *err); // NULL = it is not being set
    } clock;
    unsigned start_attempts;
    int64_t start_deadline;
    char next_key[65];      // of the kernel that is being started

    bool doomed;            // the kernel was sent SIGKILL and its exit is awaited
    int64_t doomed_until;   // then even that had no effect; 0 = not yet
    char doomed_why[80];    // in words, for the session's state
    bool restart_wanted;    // the exit that comes is what `restart` asked for
    struct reply_to restart_waiter[BR_WAITERS_MAX];
    unsigned restart_waiters;
    bool restart_done;      // they are answered as soon as the old kernel's cell has its ending
    uv_timer_t restart_timer;

    struct closing closing;
    struct ending winding;   // of a cell that was reported as ended while the kernel still ran it
    struct {                 // the same cell, until it is known what became of it
        char id[CK_UUID_MAX]; // "" = none
        bool told;           // it is finished, and said this:
        char ended_by[16], detail[320];
        int64_t timeout_ms;
    } wound;
    unsigned interrupts;        // on their way: nothing that may run code is given to the kernel until all arrived,
    int64_t interrupt_until;    // or until then. 0 = none
    int64_t interrupt_again_at; // for a cell whose interrupt may have come too early
    int64_t changes_until;      // the active cell does not wait longer for its artifacts
    // (all 0 = not)
    struct artifacts *found; // of the active cell, once closing.changes_done
    bool jupyter_changes, jupyter_changes_again; // a look for artifacts of theirs is under way
    struct written written; // files that clients wrote
    bool client_wrote;      // since the last look for changes
    bool usage_in_changes;  // the agent's answers to `changes` carry it
    struct usage usage;     // as last heard
    struct account account;
    struct ck_cpu_group cpu_group;
    struct usage base;      // as known when the active cell began: of kernel CPU time, disk, refused processes
    uv_timer_t tick;        // endings and quiet watches
    uv_timer_t health;
    bool ping_under_way;
    unsigned pings_missed;

    struct ck_blob *parked[BR_PARKED_MAX]; // `send` frames waiting for a kernel
    unsigned parked_n;
    size_t parked_bytes;
    struct command *commands; // running ones

    void (*on_waiting)(struct bridge *b); // of a spare: QEMU waits, and br_setup_begin() is to be called
    void (*on_setup)(struct bridge *b, const struct ck_err *err); // once, when ready or failed
    void (*on_shutdown)(struct bridge *b, const char *why);       // the gateway wants it gone
};

// session.c: state, log, life and death
int br_init(struct bridge *b, int listen_fd, struct ck_err *err); // conf, loop, template are set; takes listen_fd
// The session that the configuration names begins: what it begins from is read, and it has a first state. Of
// a spare that is later than its VM; nobody connects before.
int br_begin(struct bridge *b, struct ck_err *err);
void br_free(struct bridge *b);                                   // after the loop has run out
bool br_kernel_ready(const struct bridge *b);
const char *br_state_word(const struct bridge *b); // pool, starting, idle, busy, dead
void br_state_event(struct bridge *b, const char *reason); // logs a `state` event when the word changed
void br_append(struct bridge *b, const struct ev_tag *tag, struct ck_blob *frame);
void br_active(struct bridge *b); // notes activity
void br_dead(struct bridge *b, const char *reason); // the VM is gone, or must go; idempotent
int br_check_alive(const struct bridge *b, struct ck_err *err); // 410 session_dead
// Ends everything: cells first, and their readers get a moment to hear of it. The loop then runs out.
void br_close(struct bridge *b, const char *why, void (*closed)(void *user), void *user);

void br_health_start(struct bridge *b); // health.c

// account.c
void br_account_begin(struct bridge *b);   // the session begins now: what its VM used until then is not its
void br_account_vm_goes(struct bridge *b); // b->machine is about to be closed or replaced
void br_account_cell(struct bridge *b, enum cell_status status, int64_t wall_ms, int64_t cpu_ms); // -1 = unknown
json_t *br_account_json(struct bridge *b); // new reference
void br_account_read(struct bridge *b, const json_t *o); // of an earlier process; NULL = nothing
json_t *br_usage_json(struct bridge *b);   // the guest's word and the host's; new reference

// guestlimits.c
json_t *br_guest_limits(const struct blimits *l); // the agent's request, NULL = it has them already; new reference
bool br_disk_full(const struct bridge *b); // as of the last look for changes
void br_cpu_share(const struct bridge *b);

// setup.c
int br_setup(struct bridge *b, struct ck_err *err); // starts; b->on_setup tells
void br_setup_begin(struct bridge *b); // a spare: b->conf says by now what it becomes
void br_setup_load(struct bridge *b); // b->layer into b->machine, a QEMU that waits; then
void br_setup_run(struct bridge *b); // the rest of it, of a machine that is restored but stands still
void br_vm_exit(struct ck_machine *m, const struct ck_machine_exit *how, void *user);

// clock.c: sets the guest's wall clock by the host's
void br_clock_set(struct bridge *b, void (*done)(struct bridge *b, const struct ck_err *err));

// kernel_up.c: connect, prove shell and iopub, warm up
int br_kernel_connect(struct bridge *b, const char *key, struct ck_err *err);
void br_kernel_prove(struct bridge *b, int64_t deadline, void (*done)(struct bridge *b, const struct ck_err *err));
bool br_kernel_up_message(struct bridge *b, const struct kc_message *m); // while proving: true = consumed
void br_kernel_up_stop(struct bridge *b);
// The same for a kernel with a past, which may be busy: done when it can be heard and, unless it was
// busy, has come to rest. What it runs is waited for beyond that (the tracker knows).
void br_kernel_return(struct bridge *b, int64_t deadline, void (*done)(struct bridge *b, const struct ck_err *err));

// life.c: layers of a living session
int br_life_may(const struct bridge *b, struct ck_err *err); // 409 life_busy, session_starting; 410
int br_checkpoint(struct bridge *b, struct reply_to to, const char *layer, struct ck_err *err);
void br_life_freeze(struct bridge *b);                        // makes the layer of b->life
void br_life_end(struct bridge *b, const struct ck_err *err); // answers; err NULL = it went well
void br_life_close(struct bridge *b);                         // the process ends
// pause.c
int br_pause(struct bridge *b, struct reply_to to, const char *layer, struct ck_err *err);
void br_pause_frozen(struct bridge *b, const struct ck_err *err); // the layer is there, or not
// rollback.c
int br_rollback(struct bridge *b, struct reply_to to, const char *layer, struct ck_err *err);
bool br_rollback_exit(struct bridge *b, const struct ck_machine *m, const char *reason); // true = it was not our VM

// restore.c: what a session begins from. Blocks; before the loop runs, or on the thread pool.
int br_restore_open(const char *dir, const char *layer, const struct ck_template *t, struct ck_layer *out,
                    struct frozen *frozen, struct ck_err *err);
int br_restore_begin(struct bridge *b, struct ck_err *err); // as the configuration says: layer and history
void br_restore_done(struct bridge *b);                     // the session runs: nothing of a pause is left
void br_restore_sweep(const char *disk); // blocks: removes the disk of a VM that is no more, and those it went on with

// kernel_life.c: exits and restarts
void br_kernel_exit(struct bridge *b, const json_t *push);
// SIGKILL through the agent; a fresh one follows its exit. why: what made it necessary, in words.
void br_kernel_kill(struct bridge *b, const char *why);
void br_kernel_unkillable(struct bridge *b); // the VM goes
int br_restart(struct bridge *b, struct reply_to to, struct ck_err *err);
void br_restart_fail(struct bridge *b, const struct ck_err *err); // answers all waiters
void br_restart_settled(struct bridge *b); // the old kernel's cell has its ending: answers them, if that was all

// kernel_messages.c: from the kernel into log and tracker
void br_kernel_message(void *user, const struct kc_message *m);
void br_kernel_oversize(void *user, const struct kc_message *m);
// Injects a message as if the kernel had sent it; parent is JSON object text.
void br_inject(struct bridge *b, enum jw_channel ch, const char *type, struct ck_slice parent, struct ck_slice content);
void br_inject_status(struct bridge *b, const char *execution_state);
void br_fail_jupyter(struct bridge *b, const char *ename, const char *evalue); // ends their executions

// jupyter_send.c: from clients to the kernel
int br_jupyter_send(struct bridge *b, const struct bop *op, struct consumer *from, struct conn *conn,
                    struct ck_err *err);
void br_parked_flush(struct bridge *b);
void br_parked_drop(struct bridge *b);

// cells.c
int br_cell_queue(struct bridge *b, const struct bop *op, uint64_t *seq, struct ck_err *err);
int br_cell_cancel(struct bridge *b, const char *id, struct ck_err *err);
int br_cell_stdin(struct bridge *b, const struct bop *op, struct ck_err *err);
void br_cells_dispatch(struct bridge *b);                                // sends the next cell when it may
void br_cells_step(struct bridge *b, const struct trk_step *step, const struct kc_message *m);
// The active cell (if its code has not ended by itself) ends like this; artifacts are still asked for
// unless the VM is gone.
void br_cell_decide(struct bridge *b, enum cell_status status, const char *ended_by, const char *detail);
void br_cells_cancel_queued(struct bridge *b, const char *detail);
void br_cells_vm_died(struct bridge *b);
void br_cells_shut_down(struct bridge *b, const char *why); // all end as cancelled, with their output so far
void br_cell_finish(struct bridge *b, struct artifacts *a); // the closing cell, with what was found

// cell_endings.c
void br_interrupt(struct bridge *b);         // asks the kernel to interrupt what it runs
void br_interrupt_sent(struct bridge *b);    // somebody else did
void br_interrupt_arrived(struct bridge *b); // the kernel or the agent has answered
void br_cell_interrupted(struct bridge *b);  // a client wants the active cell interrupted
void br_ending_detail(const struct trk_cell *c, char *out, size_t room); // what was tried, in words
void br_wound_told(struct bridge *b, const char *ended_by, const char *detail);
void br_wound_outcome(struct bridge *b, const char *ended_by, const char *what); // what became of it in the end
void br_wound_rests(struct bridge *b);
void br_kernel_broken(struct bridge *b); // it cannot be heard: its cell ends, and it is replaced
void br_endings_reset(struct bridge *b); // the kernel that they were about is gone
void br_retime(struct bridge *b);
void br_tick(uv_timer_t *t);

// changes.c: artifacts and usage from the agent
void br_changes_for_cell(struct bridge *b);
void br_changes_give_up(struct bridge *b); // the cell ends without; they follow as events
void br_changes_for_jupyter(struct bridge *b);
void br_usage_read(struct usage *u, const json_t *o);
void br_usage_refresh(struct bridge *b);
// A client's file is no artifact. answer: the agent's, with its stat.
void br_client_wrote(struct bridge *b, const char *path, const json_t *answer);
void br_artifact_events(struct bridge *b, const char *cell, const struct artifacts *a);
// For a command's end: done gets a JSON array text and the number of changed files.
typedef void (*br_changes_cb)(void *user, struct ck_slice array, int64_t total);
void br_changes_for_command(struct bridge *b, const char *url_prefix, br_changes_cb done, void *user);

// ops.c: one operation of a connection; false = the connection must be closed
bool br_operation(struct bridge *b, struct conn *c, const struct ck_frame *f);

// ops_files.c, ops_command.c: jobs that live on a connection
int br_file_relay(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err);
int br_file_read(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err);
int br_file_write(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err);
int br_command(struct bridge *b, struct conn *c, const struct bop *op, struct ck_err *err);
void br_command_push(struct bridge *b, const char *ev, const json_t *push, struct ck_slice payload);
void br_commands_vm_died(struct bridge *b, const struct ck_err *err);
