// What must be true of the state folder before a gateway runs in it. Blocks; before the loop only.
#pragma once
#include "common/ck_error.h"
#include "gateway/config.h"

#include <limits.h>

struct state_dir {
    char sessions[PATH_MAX]; // STATE/sessions
    int lock_fd;             // holds gateway.lock as long as it is open
};

// Makes the folders, checks that they can be written and that their path is short enough for unix
// sockets, and takes the lock. A gateway that is stopping is waited for (15 s; one that does not say so
// may have been told a moment ago: 2 s), with one line on standard error. Errors are one line that says
// what to do.
int state_dir_open(const char *path, struct state_dir *out, struct ck_err *err);
void state_dir_close(struct state_dir *s);
void state_dir_stopping(const struct state_dir *s); // the next gateway may wait for us

// Fails when a listener on host:port would be refused, for a port in use as for an address that this
// machine has not (a short look: bind and close).
int check_port_free(const char *host, int port, struct ck_err *err);
int own_executable(char *out, size_t room, struct ck_err *err); // absolute path of this program
