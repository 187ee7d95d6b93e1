// Settings from options, environment and file. One table says everything about each setting; the
// three sources differ only in how they name it. Reads the --config file and nothing else.
#include "gateway/config.h"

#include "common/ck_buf.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_ignore.h"
#include "common/ck_jailnames.h"
#include "common/ck_json.h"
#include "common/ck_log.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { K_TEXT, K_PATH, K_INT, K_MS, K_BOOL, K_ACCEL, K_ON_EXIT, K_BASE_URL, K_LOG_LEVEL, K_JAIL, K_CAP, K_PATTERNS };
enum source { FROM_FILE, FROM_ENV, FROM_OPTION };

struct setting {
    const char *name; // as the option without "--"; env: CELLKEEP_ and upper case; file: '_' for '-'
    enum kind kind;
    size_t offset;
    long long min, max;
    const char *arg, *help;
};
#define AT(field) offsetof(struct config, field)

static const struct setting SETTINGS[] = {
    {"host", K_TEXT, AT(host), 0, 0, "ADDR", "address or name to listen on (127.0.0.1)"},
    {"port", K_INT, AT(port), 0, 65535, "N", "port, 0 = any free one (8888)"},
    {"token", K_TEXT, AT(token), 0, 0, "T", "the bearer token (generated, kept in the state folder)"},
    {"state-dir", K_PATH, AT(state_dir), 0, 0, "DIR", "sessions, database, token"},
    {"cache-dir", K_PATH, AT(cache_dir), 0, 0, "DIR", "guest images and templates"},
    {"accel", K_ACCEL, AT(accel), 0, 0, "auto|kvm|tcg", "how virtual machines run (auto: kvm when it works)"},
    {"memory-mb", K_INT, AT(memory_mb), 384, 32768, "N", "memory of a session (512)"},
    {"max-memory-mb", K_INT, AT(max_memory_mb), 0, 1024 * 1024, "N", "most memory that a session may ask for, 0 = any that was built (0)"},
    {"pool-size", K_INT, AT(pool_size), 0, 256, "N", "sessions started ahead (2)"},
    {"spare", K_INT, AT(spare), 0, 64, "N", "virtual machines that wait for a resume, a fork or a create beyond the pool (1)"},
    {"max-sessions", K_INT, AT(max_sessions), 0, 100000, "N", "sessions in all, 0 = no limit (50)"},
    {"memory-reserve-mb", K_INT, AT(memory_reserve_mb), 0, 100000000, "N", "memory of the host that no session is started into, 0 = none (512)"},
    {"max-kernels", K_INT, AT(max_sessions), 0, 100000, "N", "another name of --max-sessions"},
    {"allow-origin", K_TEXT, AT(allow_origin), 0, 0, "O", "origin allowed by CORS, or * (none)"},
    {"tls-cert", K_PATH, AT(tls_cert), 0, 0, "FILE", "certificate chain (PEM); needs --tls-key"},
    {"tls-key", K_PATH, AT(tls_key), 0, 0, "FILE", "its private key (PEM)"},
    {"base-url", K_BASE_URL, AT(base_url), 0, 0, "/p", "serve everything below this path"},
    {"on-exit", K_ON_EXIT, AT(on_exit), 0, 0, "WHAT", "what becomes of sessions when the gateway ends: keep, pause or kill (keep)"},
    {"uid-base", K_INT, AT(uid_base), 1000, 2000000000, "N", "root only: first uid for sessions (210000)"},
    {"max-connections", K_INT, AT(max_connections), 16, 1000000, "N", "open connections (16384)"},
    {"max-auth-failures", K_INT, AT(max_auth_failures), 0, 60000, "N", "wrong tokens of one address a minute before 429, 0 = any (60)"},
    {"max-body-mb", K_INT, AT(max_body_mb), 1, 1024, "N", "largest request body held in memory (64)"},
    {"cell-timeout-s", K_MS, AT(cell_timeout_ms), 0, 7 * 24 * 3600, "N", "wall time of a cell, 0 = none (0)"},
    {"command-timeout-s", K_MS, AT(command_timeout_ms), 1, 24 * 3600, "N", "wall time of a command (30)"},
    {"max-cell-timeout-s", K_MS, AT(max_cell_timeout_ms), 0, 7 * 24 * 3600, "N", "most that a cell may have, 0 = any (0)"},
    {"max-command-timeout-s", K_MS, AT(max_command_timeout_ms), 0, 24 * 3600, "N", "most that a command may have, 0 = any (0)"},
    {"kernel-start-s", K_MS, AT(kernel_start_ms), 1, 3600, "N", "for a fresh kernel to answer, each of three tries (120)"},
    {"idle-s", K_INT, AT(idle_s), 0, 365 * 24 * 3600, "N", "pause a session that was at rest so long, 0 = never (600)"},
    {"delete-s", K_INT, AT(delete_s), 0, 365 * 24 * 3600, "N", "delete a session that was paused so long, 0 = never (86400)"},
    {"qemu", K_PATH, AT(qemu), 0, 0, "FILE", "qemu-system-x86_64 (found in PATH)"},
    {"require-jail", K_JAIL, AT(require_jail), 0, 0, "all|STEP,…", "steps of the jail (see doctor) without which nothing runs (none)"},
    {"web-dir", K_PATH, AT(web_dir), 0, 0, "DIR", "bundle of the web front-end (found beside the program)"},
    {"artifact-ignore", K_PATTERNS, AT(artifact_ignore), 0, 0, "A,B", "folders whose files are no artifacts, * and ? allowed (.cache, __pycache__, site-packages and more)"},
    {"env-allow", K_TEXT, AT(env_allow), 0, 0, "A,B", "variables besides KERNEL_* that Jupyter clients may set (none)"},
    {"default-kernel-name", K_TEXT, AT(default_kernel_name), 0, 0, "NAME", "kernel of Jupyter clients that name none (python3)"},
    {"list-kernels", K_BOOL, AT(list_kernels), 0, 1, "yes|no", "let Jupyter clients list kernels and sessions (yes)"},
    {"max-message-mb", K_INT, AT(max_message_mb), 1, CONFIG_MESSAGE_MB_MAX, "N", "largest Jupyter message, MiB, either way (104)"},
    {"iopub-msg-rate-limit", K_INT, AT(iopub_msg_rate_limit), 0, 1000000000, "N", "iopub messages a second to a Jupyter client, 0 = any (0)"},
    {"iopub-data-rate-limit", K_INT, AT(iopub_data_rate_limit), 0, 2000000000, "N", "bytes of output a second to a Jupyter client, 0 = any (0)"},
    {"rate-limit-window", K_MS, AT(rate_limit_window_ms), 1, 3600, "S", "seconds over which the two are measured (3)"},
    {"limit-cpu-weight", K_CAP, AT(caps[CAP_CPU_WEIGHT]), 0, CAP_CPU_WEIGHT, "N[:MAX]", "share of the processors where they are short, 1 to 100 (100)"},
    {"limit-disk-mb", K_CAP, AT(caps[CAP_DISK_MB]), 0, CAP_DISK_MB, "N[:MAX]", "what a session's disk holds, MiB (4096)"},
    {"limit-pids", K_CAP, AT(caps[CAP_PIDS]), 0, CAP_PIDS, "N[:MAX]", "processes and threads of a kernel; a command twice as many (256:1024)"},
    {"limit-open-files", K_CAP, AT(caps[CAP_OPEN_FILES]), 0, CAP_OPEN_FILES, "N[:MAX]", "open files of each process (65536)"},
    {"limit-output-mb", K_CAP, AT(caps[CAP_OUTPUT_MB]), 0, CAP_OUTPUT_MB, "N[:MAX]", "output kept of a cell, MiB (10:20)"},
    {"limit-artifacts", K_CAP, AT(caps[CAP_ARTIFACTS]), 0, CAP_ARTIFACTS, "N[:MAX]", "artifacts listed of a cell (200)"},
    {"limit-artifact-mb", K_CAP, AT(caps[CAP_ARTIFACT_MB]), 0, CAP_ARTIFACT_MB, "N[:MAX]", "largest file listed as an artifact, MiB (4096)"},
    {"limit-upload-mb", K_CAP, AT(caps[CAP_UPLOAD_MB]), 0, CAP_UPLOAD_MB, "N[:MAX]", "largest upload, MiB (4096)"},
    {"log-level", K_LOG_LEVEL, AT(log_level), 0, 0, "LEVEL", "debug, info, warn or error (info)"},
};
#define NSETTINGS (sizeof SETTINGS / sizeof SETTINGS[0])

// The setting's name as its source writes it: --pool-size, CELLKEEP_POOL_SIZE, pool_size.
static void written_name(const struct setting *s, enum source from, char out[64])
{
    static const char *const prefix[] = {[FROM_FILE] = "", [FROM_ENV] = "CELLKEEP_", [FROM_OPTION] = "--"};
    size_t n = (size_t)snprintf(out, 64, "%s", prefix[from]);
    for (const char *p = s->name; *p && n < 63; p++) {
        char c = *p == '-' && from != FROM_OPTION ? '_' : *p;
        out[n++] = from == FROM_ENV ? (char)toupper((unsigned char)c) : c;
    }
    out[n] = 0;
}

static int invalid(const struct setting *s, enum source from, const char *value, const char *want, struct ck_err *err)
{
    char name[64];
    written_name(s, from, name);
    return ck_fail(err, 400, "bad_setting", "%s \"%.100s\": it %s", name, s->offset == AT(token) ? "…" : value, want);
}

static int set_text(char **field, const char *value, struct ck_err *err)
{
    char *copy = strdup(value);
    if (!copy)
        return ck_fail(err, 500, "no_memory", "out of memory");
    free(*field);
    *field = copy;
    return 0;
}

static int set_path(char **field, const char *value, struct ck_err *err)
{
    char path[PATH_MAX], cwd[PATH_MAX] = "";
    if (*value != '/' && !getcwd(cwd, sizeof cwd))
        return ck_fail(err, 500, "no_cwd", "the current folder cannot be read; give absolute paths");
    if (ck_path(path, sizeof path, err, "%s%s%s", cwd, *cwd ? "/" : "", value))
        return -1;
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    return set_text(field, path, err);
}

static int set_base_url(char **field, const char *value, struct ck_err *err)
{
    char path[256];
    size_t n = strlen(value);
    while (n && value[n - 1] == '/')
        n--;
    if (ck_path(path, sizeof path, err, "%s%.*s", n && *value != '/' ? "/" : "", (int)n, value))
        return -1;
    return set_text(field, path, err);
}

static bool plain_path(const char *value)
{
    for (; *value; value++)
        if (!isalnum((unsigned char)*value) && !strchr("/-._~", *value))
            return false;
    return true;
}

static int set_number(const struct setting *s, void *field, enum source from, const char *value, struct ck_err *err)
{
    char *end, want[80];
    long long v = strtoll(value, &end, 10);
    if (end == value || *end || v < s->min || v > s->max) {
        snprintf(want, sizeof want, "must be a whole number from %lld to %lld", s->min, s->max);
        return invalid(s, from, value, want, err);
    }
    if (s->kind == K_MS)
        *(int64_t *)field = v * 1000;
    else
        *(int *)field = (int)v;
    return 0;
}

// The index of value in a list of words, or -1.
static int word_index(const char *value, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(value, words[i]))
            return i;
    return -1;
}

static int set_word(const struct setting *s, void *field, enum source from, const char *value, struct ck_err *err)
{
    static const char *const accels[] = {"auto", "kvm", "tcg"}, *const exits[] = {"keep", "pause", "kill"};
    static const char *const bools[] = {"no", "yes", "false", "true", "0", "1", "off", "on"};
    int i;
    if (s->kind == K_ACCEL) {
        if ((i = word_index(value, accels, 3)) < 0)
            return invalid(s, from, value, "must be auto, kvm or tcg", err);
        *(enum config_accel *)field = (enum config_accel)i;
    } else if (s->kind == K_ON_EXIT) {
        if ((i = word_index(value, exits, 3)) < 0)
            return invalid(s, from, value, "must be keep, pause or kill", err);
        *(enum config_on_exit *)field = (enum config_on_exit)i;
    } else {
        if ((i = word_index(value, bools, 8)) < 0)
            return invalid(s, from, value, "must be yes or no", err);
        *(bool *)field = i & 1;
    }
    return 0;
}

// A list of the jail's steps, or "all".
static int set_patterns(const struct setting *s, char **field, enum source from, const char *value, struct ck_err *err)
{
    struct ck_err bad = CK_ERR_INIT;
    CK_CLEAN_JSON json_t *list = ck_ignore_split(value);
    if (ck_ignore_check(list, s->name, &bad))
        return invalid(s, from, value, "must be a list with commas of at most 64 names of folders, of 1 to 128 bytes without \"/\"", err);
    return set_text(field, value, err);
}

static int set_jail(const struct setting *s, char **field, enum source from, const char *value, struct ck_err *err)
{
    char want[400];
    size_t n = (size_t)snprintf(want, sizeof want, "must be all, or a list with commas of");
    for (size_t i = 0; i < sizeof ck_jail_names / sizeof *ck_jail_names; i++)
        n += (size_t)snprintf(want + n, sizeof want - n, " %s", ck_jail_names[i]);
    for (const char *p = value; strcmp(value, "all") != 0; p++) {
        size_t step = strcspn(p, ",");
        if (ck_jail_name_index(p, step) < 0)
            return invalid(s, from, value, want, err);
        p += step;
        if (!*p)
            break;
    }
    return set_text(field, value, err);
}

// "N" or "N:MAX"; alone, N raises the maximum to itself. max of the setting is the cap's index.
static int set_cap(const struct setting *s, struct cap_range *field, enum source from, const char *value, struct ck_err *err)
{
    const struct cap_info *info = &cap_infos[s->max];
    char *end, want[120];
    long long usual = strtoll(value, &end, 10), max = usual > field->max ? usual : field->max;
    bool bad = end == value;
    if (!bad && *end == ':') {
        const char *second = end + 1;
        max = strtoll(second, &end, 10);
        bad = end == second;
    }
    if (bad || *end || usual < info->min || usual > max || max > info->max) {
        snprintf(want, sizeof want, "must be N or N:MAXIMUM, whole numbers from %d to %d", info->min, info->max);
        return invalid(s, from, value, want, err);
    }
    *field = (struct cap_range){(int)usual, (int)max};
    return 0;
}

static int set(struct config *c, const struct setting *s, enum source from, const char *value, struct ck_err *err)
{
    void *field = (char *)c + s->offset;
    enum ck_log_level level;
    switch (s->kind) {
    case K_TEXT:
        return *value ? set_text(field, value, err) : invalid(s, from, value, "must not be empty", err);
    case K_PATH:
        return *value ? set_path(field, value, err) : invalid(s, from, value, "must not be empty", err);
    case K_BASE_URL:
        return plain_path(value) ? set_base_url(field, value, err)
                                 : invalid(s, from, value, "must be a path of letters, digits and /-._~", err);
    case K_LOG_LEVEL:
        return ck_log_level_from_name(value, &level) ? set_text(field, value, err)
                                                     : invalid(s, from, value, "must be debug, info, warn or error", err);
    case K_CAP:
        return set_cap(s, field, from, value, err);
    case K_JAIL:
        return set_jail(s, field, from, value, err);
    case K_PATTERNS:
        return set_patterns(s, field, from, value, err);
    case K_INT:
    case K_MS:
        return set_number(s, field, from, value, err);
    case K_BOOL:
    case K_ACCEL:
    case K_ON_EXIT:
        break;
    }
    return set_word(s, field, from, value, err);
}

// --- defaults ----------------------------------------------------------------------------------------

static const char *env_get(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env && *env; env++)
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

char *config_default_dir(bool cache, char *const *env)
{
    char path[PATH_MAX];
    const char *xdg = env_get(env, cache ? "XDG_CACHE_HOME" : "XDG_STATE_HOME"), *home = env_get(env, "HOME");
    if (!geteuid())
        return strdup(cache ? "/var/cache/cellkeep" : "/var/lib/cellkeep");
    int n = xdg && *xdg == '/' ? snprintf(path, sizeof path, "%s/cellkeep", xdg)
                               : snprintf(path, sizeof path, "%s/%s/cellkeep", home ? home : "/tmp", cache ? ".cache" : ".local/state");
    return n > 0 && (size_t)n < sizeof path ? strdup(path) : NULL;
}

static int set_defaults(struct config *c, char *const *env, struct ck_err *err)
{
    *c = (struct config){.port = 8888, .memory_mb = 512, .pool_size = 2, .spare = 1, .max_sessions = 50, .memory_reserve_mb = 512,
                         .uid_base = 210000, .max_connections = 16384, .max_auth_failures = 60, .max_body_mb = 64, .list_kernels = true,
                         .max_message_mb = 104, .rate_limit_window_ms = 3000, .command_timeout_ms = 30000,
                         .kernel_start_ms = 120000,
                         .idle_s = 600, .delete_s = 86400};
    caps_ranges(c->caps);
    c->host = strdup("127.0.0.1");
    c->base_url = strdup("");
    c->log_level = strdup("info");
    c->default_kernel_name = strdup("python3");
    c->state_dir = config_default_dir(false, env);
    c->cache_dir = config_default_dir(true, env);
    if (!c->host || !c->base_url || !c->log_level || !c->default_kernel_name || !c->state_dir || !c->cache_dir)
        return ck_fail(err, 500, "no_memory", "out of memory");
    return 0;
}

// --- sources -----------------------------------------------------------------------------------------

// True when word is the setting's name with `sep` for '-'.
static bool named(const struct setting *s, const char *word, size_t n, char sep)
{
    if (strlen(s->name) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (word[i] != (s->name[i] == '-' ? sep : s->name[i]))
            return false;
    return true;
}

static const struct setting *find(const char *word, size_t n, char sep)
{
    for (size_t i = 0; i < NSETTINGS; i++)
        if (named(&SETTINGS[i], word, n, sep))
            return &SETTINGS[i];
    return NULL;
}

static int from_json_value(struct config *c, const struct setting *s, const json_t *v, struct ck_err *err)
{
    char number[32];
    if (json_is_string(v))
        return set(c, s, FROM_FILE, json_string_value(v), err);
    if (json_is_boolean(v))
        return set(c, s, FROM_FILE, json_is_true(v) ? "yes" : "no", err);
    if (json_is_integer(v)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        return set(c, s, FROM_FILE, number, err);
    }
    return invalid(s, FROM_FILE, "", "must be text, a whole number, true or false", err);
}

static int from_file(struct config *c, const char *path, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = NULL;
    const char *key;
    json_t *v;
    if (ck_read_file(path, 1024 * 1024, &text, err) || !(j = ck_json_parse_object(text.p, text.n, false, err)))
        return ck_wrap(err, "config file %s", path);
    json_object_foreach(j, key, v) {
        const struct setting *s = find(key, strlen(key), '_');
        if (!s)
            s = find(key, strlen(key), '-');
        if (!s)
            return ck_fail(err, 400, "unknown_setting", "config file %s: there is no setting \"%.100s\"", path, key);
        if (from_json_value(c, s, v, err))
            return ck_wrap(err, "config file %s", path);
    }
    return 0;
}

static int from_env(struct config *c, char *const *env, struct ck_err *err)
{
    char name[64];
    for (size_t i = 0; i < NSETTINGS; i++) {
        written_name(&SETTINGS[i], FROM_ENV, name);
        const char *v = env_get(env, name);
        if (v && set(c, &SETTINGS[i], FROM_ENV, v, err))
            return -1;
    }
    return 0;
}

static bool is_option(const char *name, size_t n)
{
    return (n == 6 && !strncmp(name, "config", n)) || find(name, n, '-') != NULL;
}

// Splits argv[*i] ("--name value" or "--name=value") and moves *i on. 1 = --help.
static int next_option(int argc, char **argv, int *i, size_t *name_len, const char **value, struct ck_err *err)
{
    const char *a = argv[*i];
    if (!strcmp(a, "--help") || !strcmp(a, "-h"))
        return 1;
    if (strncmp(a, "--", 2) || !a[2])
        return ck_fail(err, 400, "unknown_option", "\"%.100s\" is not an option; see cellkeep serve --help", a);
    *name_len = strcspn(a + 2, "=");
    if (!is_option(a + 2, *name_len))
        return ck_fail(err, 400, "unknown_option", "there is no option --%.*s; see cellkeep serve --help",
                       *name_len > 60 ? 60 : (int)*name_len, a + 2);
    if (a[2 + *name_len]) {
        *value = a + 2 + *name_len + 1;
    } else if (*i + 1 < argc) {
        *value = argv[++*i];
    } else {
        return ck_fail(err, 400, "missing_value", "%.100s needs a value", a);
    }
    return 0;
}

// Only looks for --config (the file comes before the other options), and for --help.
static int find_config_file(int argc, char **argv, const char **path, struct ck_err *err)
{
    for (int i = 1; i < argc && argv[i]; i++) {
        size_t n;
        const char *value, *name = argv[i] + 2;
        int rc = next_option(argc, argv, &i, &n, &value, err);
        if (rc)
            return rc;
        if (n == 6 && !strncmp(name, "config", n))
            *path = value;
    }
    return 0;
}

static int from_options(struct config *c, int argc, char **argv, struct ck_err *err)
{
    for (int i = 1; i < argc && argv[i]; i++) {
        size_t n;
        const char *value, *name = argv[i] + 2;
        if (next_option(argc, argv, &i, &n, &value, err))
            return -1;
        if (n == 6 && !strncmp(name, "config", n))
            continue;
        const struct setting *s = find(name, n, '-'); // next_option() knows it
        if (set(c, s, FROM_OPTION, value, err))
            return -1;
    }
    return 0;
}

static int check_together(struct config *c, struct ck_err *err)
{
    c->caps[CAP_MESSAGE_MB] = (struct cap_range){c->max_message_mb, c->max_message_mb};
    if (c->max_cell_timeout_ms && c->cell_timeout_ms > c->max_cell_timeout_ms)
        return ck_fail(err, 400, "bad_setting", "cell-timeout-s is more than max-cell-timeout-s");
    if (c->max_command_timeout_ms && c->command_timeout_ms > c->max_command_timeout_ms)
        return ck_fail(err, 400, "bad_setting", "command-timeout-s is more than max-command-timeout-s");
    if (!c->tls_cert != !c->tls_key)
        return ck_fail(err, 400, "bad_setting", "tls-cert and tls-key belong together; %s is missing",
                       c->tls_cert ? "tls-key" : "tls-cert");
    if (c->token && strpbrk(c->token, " \t\r\n"))
        return ck_fail(err, 400, "bad_setting", "the token must not have white space");
    return 0;
}

int config_load(int argc, char **argv, char *const *env, struct config *out, struct ck_err *err)
{
    const char *file = env_get(env, "CELLKEEP_CONFIG");
    memset(out, 0, sizeof *out);
    int rc = find_config_file(argc, argv, &file, err);
    if (rc)
        return rc;
    if (set_defaults(out, env, err) || (file && from_file(out, file, err)) || from_env(out, env, err) ||
        from_options(out, argc, argv, err) || check_together(out, err)) {
        config_free(out);
        return -1;
    }
    return 0;
}

void config_free(struct config *c)
{
    free(c->host);
    free(c->token);
    free(c->state_dir);
    free(c->cache_dir);
    free(c->allow_origin);
    free(c->tls_cert);
    free(c->tls_key);
    free(c->base_url);
    free(c->qemu);
    free(c->web_dir);
    free(c->log_level);
    free(c->env_allow);
    free(c->artifact_ignore);
    free(c->require_jail);
    free(c->default_kernel_name);
    memset(c, 0, sizeof *c);
}

const char *config_usage(void)
{
    static char text[12288];
    size_t n = 0;
    n += (size_t)snprintf(text, sizeof text, "usage: cellkeep serve [options]\n\nRuns the gateway. Every option is also an "
                          "environment variable (--pool-size:\nCELLKEEP_POOL_SIZE) and a key of the --config file (pool_size); "
                          "an option wins over\nthe environment, the environment over the file.\n\n");
    for (size_t i = 0; i < NSETTINGS && n < sizeof text; i++) {
        char left[48];
        snprintf(left, sizeof left, "--%s %s", SETTINGS[i].name, SETTINGS[i].arg);
        n += (size_t)snprintf(text + n, sizeof text - n, "  %-28s %s\n", left, SETTINGS[i].help);
    }
    if (n < sizeof text)
        snprintf(text + n, sizeof text - n, "  %-28s %s\n  %-28s %s\n", "--config FILE", "JSON file with any of the above",
                 "--help", "this text");
    return text;
}
