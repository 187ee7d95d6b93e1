// The gateway's settings: option over environment (CELLKEEP_…) over a JSON --config file over the
// defaults. Filled once at start, read-only afterwards. All strings are owned by the config.
#pragma once
#include "common/ck_error.h"
#include "gateway/caps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_accel { CONFIG_ACCEL_AUTO, CONFIG_ACCEL_KVM, CONFIG_ACCEL_TCG };
enum config_on_exit { CONFIG_EXIT_KEEP, CONFIG_EXIT_PAUSE, CONFIG_EXIT_KILL };

// With its envelope a message must fit into a frame that bridges take (SVC_FRAME_MAX there).
#define CONFIG_MESSAGE_MB_MAX 104

struct config {
    char *host;         // address or name to listen on
    int port;           // 0 = any free one
    char *token;        // NULL = generated and kept in the state folder
    char *state_dir;    // absolute
    char *cache_dir;    // absolute
    enum config_accel accel;
    int memory_mb;      // of a session, unless it asks for another size
    int pool_size;      // sessions started ahead
    int spare;          // virtual machines that wait for a template or a layer
    int max_sessions;   // in all; 0 = no limit
    int memory_reserve_mb; // no session is started into the last of the host's memory; 0 = it may
    char *allow_origin; // NULL = not set; "*" or one origin
    char *tls_cert;     // both or none
    char *tls_key;
    char *base_url;     // "" or "/prefix" without a trailing slash
    enum config_on_exit on_exit;
    int uid_base;       // root only: uid of the first bridge's slot
    int max_connections;
    int max_auth_failures; // of one address a minute; 0 = any number
    int max_body_mb;    // upper bound of any collected request body
    char *qemu;         // NULL = found in PATH
    char *web_dir;      // NULL = found beside the program
    char *log_level;
    char *require_jail; // steps of the jail without which no session starts: "all" or a list with commas; or NULL
    char *artifact_ignore; // patterns of folders without artifacts, "A,B"; NULL = the usual ones
    char *env_allow;    // variables beyond KERNEL_* that a Jupyter client may set for its kernel:
                        // names separated by commas; NULL = none
    char *default_kernel_name; // what a Jupyter client gets that names no kernel
    bool list_kernels;         // Jupyter clients may list kernels and sessions
    int max_message_mb;        // a Jupyter message, either way
    int iopub_msg_rate_limit;  // messages a second to one Jupyter socket; 0 = no limit
    int iopub_data_rate_limit; // bytes of streams a second; 0 = no limit
    int64_t rate_limit_window_ms;
    // Limits of a session, defaults that a session may lower or (up to the maximum) raise.
    int64_t cell_timeout_ms;    // 0 = none
    int64_t command_timeout_ms; // 30 s
    int64_t kernel_start_ms;    // of a fresh kernel after a restart, each try; 120 s
    int64_t max_cell_timeout_ms, max_command_timeout_ms; // that anybody may ask for; 0 = any
    struct cap_range caps[CAPS];
    int max_memory_mb; // that a session may ask for; 0 = any that was built
    int idle_s;   // at rest for so long: paused; 0 = never
    int delete_s; // paused for so long: deleted; 0 = never
};

// Outcomes: 0 = ready; 1 = --help was asked for (print config_usage()); negative = err filled with
// one line for the user (exit 2). argv[0] is the subcommand. env is an environ-like array.
// Reads the --config file, nothing else: no folder is made, no address looked up.
int config_load(int argc, char **argv, char *const *env, struct config *out, struct ck_err *err);
void config_free(struct config *c); // a zeroed or half-filled one is fine
const char *config_usage(void);     // text of `cellkeep serve --help`

// Where state and cache live when nothing was said: root: /var/lib/cellkeep and /var/cache/cellkeep,
// else $XDG_STATE_HOME or ~/.local/state, $XDG_CACHE_HOME or ~/.cache. The caller frees.
char *config_default_dir(bool cache, char *const *env);
