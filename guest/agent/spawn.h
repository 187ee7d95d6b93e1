// Starting a process as the guest's user (uid 1000). Main thread only.
#pragma once
#include "common/ck_error.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#define AG_UID 1000
#define AG_GID 1000
#define AG_HOME "/home/user"
#define AG_ENV_MAX 512
#define AG_USER_OOM_ADJ 500

struct ag_spawn {
    char *const *argv;           // argv[0] is looked up in PATH of envp
    char *const *envp;
    const char *cwd;             // NULL = AG_HOME
    int stdin_fd, stdout_fd, stderr_fd; // -1 = /dev/null; stay the caller's
    int pass_fd;                 // becomes descriptor 3; -1 = none
    int cgroup_fd;               // cgroup.procs to write to; -1 = none
    int oom_score_adj;
    unsigned open_files;         // that a process may have; 0 = AG_FILES_DEFAULT
    bool real_root;              // keep uid 0, with no capability but changing ids: for the zygote alone
};

// A new session and process group, default signals, no new privileges, only the named descriptors.
// Returns the pid, or -1 with err when anything up to and including exec failed.
pid_t ag_spawn(const struct ag_spawn *how, struct ck_err *err);

// A NULL-terminated environment: the base of every user process, overlaid with the strings of
// extra (an object or NULL). Free with ag_env_free. NULL with err for names that are not
// [A-Za-z_][A-Za-z0-9_]*, values that are not strings, or too many.
char **ag_env_make(const json_t *extra, struct ck_err *err);
void ag_env_free(char **env); // NULL is fine
