// Starting bridge processes: `cellkeep bridge`, detached, with nothing inherited but five descriptors
// and no environment. Loop thread only; what may block (folders, logs) is done on the thread pool.
#pragma once
#include "common/ck_crypto.h"
#include "common/ck_error.h"
#include "common/ck_proc.h"
#include "gateway/config.h"
#include "gateway/layer_files.h"

#include <limits.h>
#include <uv.h>

struct launcher;

struct launcher_options { // strings are copied
    const char *exe;          // of cellkeep
    const char *sessions_dir; // STATE/sessions
    const char *template_dir;
    const char *image_dir;
    const char *accelerator;
    int memory_mb;
    int ram_fd;               // the template's RAM, sealed; taken over
    const struct config *config; // borrowed
};

// A bridge that runs, whoever started it. Owned by whoever got it: bridge_proc_free() when its
// process and folder are gone, so that its uid can be used again.
struct bridge_proc {
    struct launcher *launcher;
    char id[CK_UUID_MAX];
    char dir[PATH_MAX];
    char socket[108];
    struct ck_proc_id proc; // pid 0 = no process
    int slot;               // of the uid range; -1 = none
};

int launcher_new(uv_loop_t *loop, const struct launcher_options *opt, struct launcher **out, struct ck_err *err);
// Stops following the processes that it started (they go on) and fails what is still starting. Call
// once, then let the loop run empty, then launcher_free.
void launcher_close(struct launcher *l);
void launcher_free(struct launcher *l); // NULL is fine

// Starts a pooled bridge of a new id; of the template `from`, NULL = the gateway's own. done is called from the
// loop when the bridge has said that it is ready, or with err (its process and folder are then already being
// removed). asked: somebody waits for it, so it may take a spare.
typedef void (*launch_done)(void *user, struct bridge_proc *p, const struct ck_err *err);
void launcher_start(struct launcher *l, const struct layer_origin *from, bool asked, launch_done done, void *user);
// Whether the host has the memory for one more, beside those that are starting and --memory-reserve-mb.
// Resumes and forks ask by themselves. *available_mb (may be NULL) is what it has.
bool launcher_has_room(const struct launcher *l, int64_t *available_mb);

// Bridges that begin from a layer (docs/PROTOCOL.md section 7), a few at a time. A resume is one of the
// paused session p, whose folder and struct it uses and leaves when it fails (the uid may change). A fork is one
// of a new id, whose folder exists and has the layer; it is removed when it fails. limits: the
// session's, for its bridge; the reference is taken. done as above; the launch may be cancelled until then (done is called all the same).
struct launch;
struct launch *launcher_resume(struct launcher *l, struct bridge_proc *p, const char *layer, json_t *limits,
                               launch_done done, void *user);
struct launch *launcher_fork(struct launcher *l, const char *id, const char *layer, json_t *limits, launch_done done,
                             void *user);
void launcher_cancel(struct launch *x);

// Spares: bridges in their jails whose QEMU waits for a template or a layer, kept at their number (--spare) in
// the background from launcher_fill() on, as far as the host has memory. A resume, a fork and a start that
// somebody waits for take one that fits; what goes wrong with it costs them time and nothing else. They end
// with their gateway.
struct launcher_spares {
    size_t ready, used, failed; // the latter two since the start
};
void launcher_fill(struct launcher *l);
void launcher_count_spares(const struct launcher *l, struct launcher_spares *out);

// A bridge found on disk at start. dir_uid is the owner of its folder, so that the uid is not given
// to another. -1 when the path does not fit.
int launcher_adopt(struct launcher *l, const char *id, struct ck_proc_id proc, uid_t dir_uid, struct bridge_proc **out);
uid_t launcher_uid(const struct bridge_proc *p); // of its files; our own when we give none away
void bridge_proc_free(struct bridge_proc *p); // NULL is fine
size_t launcher_starting(const struct launcher *l);
