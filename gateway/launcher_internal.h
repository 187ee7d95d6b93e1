// Shared by launcher*.c only.
#pragma once
#include "gateway/launcher.h"
#include "gateway/launcher_uid.h"

#include <jansson.h>

#define LINE_MAX_BYTES 4096

struct child { // one process of ours, until it is reaped
    uv_process_t process;
    struct launcher *launcher;
    struct launch *launch; // while it is starting
    struct child *next, *prev;
};

// A template that sessions are started from: the gateway's own, and those of paused sessions that are
// older than it. Never freed while the launcher lives: a host has a few.
struct launch_template {
    struct launch_template *next;
    char dir[PATH_MAX], image_dir[PATH_MAX];
    int ram_fd;
};

enum launch_kind {
    LAUNCH_POOL,   // a fresh machine of the template: a new folder
    LAUNCH_RESUME, // of a paused session: its folder, which stays when it fails, and its uid, when that is free
    LAUNCH_FORK,   // from a layer: a new folder, which has it already
    LAUNCH_SPARE,  // nobody's yet: a new folder
};

// A bridge that waits. While it is in the launcher's list its socket is watched; then it is a launch's.
struct spare {
    struct spare *next;
    struct launcher *l;
    struct bridge_proc *p;
    uv_pipe_t pipe;
    bool moves; // its folder may get another name
};

enum launch_spare { SPARE_NONE, SPARE_UNFIT, SPARE_SPOILED, SPARE_JOINED };

struct launch {
    uv_work_t work;
    uv_pipe_t status;
    uv_timer_t timer;
    int open_handles;
    struct launcher *l;
    struct bridge_proc *p;
    struct child *child;
    launch_done done;
    void *user;
    int tries;
    bool finished;
    enum launch_kind kind;
    char layer[CK_UUID_MAX]; // of a resume or fork
    struct layer_origin from; // of a pooled one; template "" = the gateway's own
    json_t *limits;          // likewise: the session's, owned
    bool asked;              // of a pooled one: somebody waits for it
    bool moves;              // of a spare
    struct spare *spare;     // taken, until it is joined
    enum launch_spare how;   // what came of it; JOINED: it is the process
    const struct launch_template *template;
    bool waiting, counted;   // a resume or fork: for its turn; has it
    struct ck_err stopped;   // why it shall not go on; err is the thread pool's while that works
    int fd_config, fd_log, fd_status_read, fd_status_write;
    struct ck_err err;
    size_t line_n;
    char line[LINE_MAX_BYTES];
    struct launch *next, *prev;
};

struct launcher {
    uv_loop_t *loop;
    char *exe, *sessions_dir, *accelerator;
    int memory_mb;
    struct launch_template *template; // the gateway's own
    struct launch_template *others;   // under the lock: the thread pool adds to them
    uv_mutex_t lock;
    const struct config *config;
    struct uid_pool *uids; // NULL when not root
    struct child *children;
    struct launch *launches;
    size_t nstarting;
    size_t nrestoring; // resumes and forks that have their turn
    bool closing;
    struct spare *spares; // that wait
    size_t nspares, spares_used, spares_failed;
    uv_timer_t spare_timer;
    bool filling;
    int64_t spare_backoff_ms, spare_not_before;
};

// launcher.c
struct bridge_proc *launch_proc_new(struct launcher *l, const char *id);
// Takes p over but for a resume. The launch is in the list and does nothing yet.
struct launch *launch_new(struct launcher *l, enum launch_kind kind, struct bridge_proc *p, launch_done done, void *user);
void launch_begin(struct launch *x);
void launch_on_demand(struct launch *x); // without a spare
// Hears what the process says on x->fd_status_read, which is taken over.
void launch_listen(struct launch *x);
void launch_give_up(struct launch *x); // x->err is set; what was begun is ended, then done is called

// launcher_prepare.c: folder, log, configuration; for the thread pool
void launch_prepare(struct launch *x);
int launch_own(struct launch *x, int slot); // of a resume or fork: what lies in its folder is to be that uid's
json_t *launch_limits(const struct launch *x);
json_t *launch_origin(const struct launch *x); // "restore", NULL for one of the template

// launcher_spare.c
void spare_init(struct launcher *l);
void spare_close(struct launcher *l);
void spare_soon(struct launcher *l); // perhaps one is missing: in a while
void spare_made(struct launcher *l, struct bridge_proc *p, int fd, bool moves); // takes both over
void spare_not_made(void *user, struct bridge_proc *p, const struct ck_err *err); // user: the launcher
bool spare_take(struct launch *x);      // true: it goes on with a spare, or without one after all
void spare_fall_back(struct launch *x); // its process, which was one, has failed: once more on demand

// launcher_template.c
int launch_templates_new(struct launcher *l, const char *dir, const char *image_dir, int ram_fd); // takes ram_fd over
void launch_templates_free(struct launcher *l);
int launch_template_choose(struct launch *x); // that of the launch's layer, or the gateway's; thread pool; -1 = x->err

// launcher_restore.c: not too many at once
void launch_next(struct launcher *l);    // begins those whose turn it is
void launch_turn_over(struct launch *x); // it ended

