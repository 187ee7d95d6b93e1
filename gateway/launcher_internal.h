// Shared by launcher*.c only.
#pragma once
#include "gateway/launcher.h"
#include "gateway/launcher_uid.h"

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
};

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
};

// launcher.c
struct bridge_proc *launch_proc_new(struct launcher *l, const char *id);
// Takes p over but for a resume. The launch is in the list and does nothing yet.
struct launch *launch_new(struct launcher *l, enum launch_kind kind, struct bridge_proc *p, launch_done done, void *user);
void launch_begin(struct launch *x);
void launch_give_up(struct launch *x); // x->err is set; what was begun is ended, then done is called

// launcher_prepare.c: folder, log, configuration; for the thread pool
void launch_prepare(struct launch *x);

// launcher_template.c
int launch_templates_new(struct launcher *l, const char *dir, const char *image_dir, int ram_fd); // takes ram_fd over
void launch_templates_free(struct launcher *l);
int launch_template_choose(struct launch *x); // that of the launch's layer, or the gateway's; thread pool; -1 = x->err

// launcher_restore.c: not too many at once
void launch_next(struct launcher *l);    // begins those whose turn it is
void launch_turn_over(struct launch *x); // it ended

