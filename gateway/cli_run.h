// Parts of `cellkeep run`: the cell that is followed to its end, and the files around it.
#pragma once
#include "gateway/cli_internal.h"

struct cli_cell {
    const char *session; // id
    json_t *request;     // body of POST .../cells
    bool quiet;          // do not show events
    bool ansi;           // colours may stay
    bool answers;        // input() is answered from standard input
    json_t *finished;    // out: the finished cell, owned by the caller
};

// From here on (off: not any more) SIGINT, SIGTERM, SIGHUP and a closed pipe do not end the process,
// so that a temporary session can be deleted. cli_stopped: has one of them come?
void cli_signals(bool on);
bool cli_stopped(void);

// Runs the cell, shows its output, passes Ctrl-C on as an interrupt. 0 = finished; 1 = the user gave
// up waiting (a second Ctrl-C), or nobody reads the output any more; -1 with err.
int cli_cell_run(struct cli_client *c, struct cli_cell *cell, struct ck_err *err);

// Copies a local file to /home/user/<its name> of the session.
int cli_upload(struct cli_client *c, const char *session, const char *local, struct ck_err *err);

// Saves the artifacts of a finished cell under dir: below /home/user with the same sub-folders, others
// with their whole path. Says on stderr what it saved.
int cli_save_artifacts(struct cli_client *c, const char *session, const json_t *finished, const char *dir,
                       struct ck_err *err);

// Where an artifact goes: dir/relative path. Pure. -1 for a path that is not absolute and clean.
int cli_artifact_path(const char *dir, const char *guest_path, char *out, size_t room, struct ck_err *err);
