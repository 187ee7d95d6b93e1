// What serve.c does with the registry beyond what the doors see. Loop thread only.
#pragma once
#include "gateway/config.h"
#include "gateway/registry.h"
#include "gateway/store.h"

struct pool;
struct launcher;

struct registry_options { // strings are copied
    uv_loop_t *loop;
    struct store *store;
    struct pool *pool;
    struct launcher *launcher;
    const struct config *config;
    const char *template_dir, *sessions_dir, *accelerator, *qemu; // qemu: its version
    int memory_mb;
};

struct registry *registry_new(const struct registry_options *opt); // NULL = out of memory
// Reads the database and the sessions folder: sessions whose bridge lives are taken up again, the
// others are dead; pooled bridges go to the pool; what nobody knows is ended and removed in the
// background. Before the loop runs (reads files).
int registry_recover(struct registry *r, struct ck_err *err);

// No new sessions; those on their way are finished. With kill, every session is ended for good,
// otherwise they are left running for the next gateway. quiet is called (perhaps from inside the
// call) when nothing is under way any more.
void registry_drain(struct registry *r, bool kill, void (*quiet)(void *user), void *user);
// Pauses every session that is at rest, a few at a time, in bounded time; the others are named in the log.
// Nothing is resumed from then on. done may be called from inside the call. Then registry_drain().
void registry_pause_all(struct registry *r, void (*done)(void *user), void *user);
void registry_close(struct registry *r); // drops links and timers; then let the loop run empty
void registry_free(struct registry *r);  // NULL is fine

#define REGISTRY_ENDINGS 8
struct registry_used { // numbers alone
    int64_t vm_cpu_ms;   // of the sessions' VMs, as the host counts
    int64_t wall_ms;     // time that sessions ran, pauses excluded
    int64_t cell_wall_ms, cell_cpu_ms; // of cells; cpu: as the guests count
    int64_t cells[REGISTRY_ENDINGS];
};
void registry_count_used(const struct registry *r, struct registry_used *out, int64_t *disk_bytes); // disk: held now
const char *registry_ending_name(int i);

struct registry_counts {
    size_t by_state[SESSION_DEAD + 1], creating, ending, created, failed, died;
};
struct registry_life { // operations of one kind since the start
    const char *name;
    size_t ended, failed;
    int64_t ms;
};
// i-th kind; false when there is none.
bool registry_count_life(const struct registry *r, int i, struct registry_life *out);
void registry_count_states(const struct registry *r, struct registry_counts *out);
