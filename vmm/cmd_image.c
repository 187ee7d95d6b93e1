// `cellkeep image build`: runs the recipe guest/image/build.sh, which knows how to make an image and
// when there is nothing to do. Here only: finding it, running it, and believing nothing until the
// image has been checked.
#include "vmm/cmds.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/cmd_opts.h"
#include "vmm/image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char usage[] =
    "usage: cellkeep image build [options]\n"
    "\n"
    "Builds the guest image (root file system, kernel, initrd) from Debian packages, when it does not\n"
    "exist yet for this recipe. Needs root for that. One with packages or a warm-up of your own is not\n"
    "what sessions get by default: give it a name with `cellkeep template build --name NAME --image DIR`,\n"
    "or make both at once with `cellkeep template build --name NAME --packages FILE --warm-up FILE`.\n"
    "\n"
    "  --cache-dir DIR   where images and templates live (CELLKEEP_CACHE_DIR)\n"
    "  --packages FILE   Debian packages, one a line, added to those that every image has\n"
    "  --warm-up FILE    Python that is run once in the template, as the user: what it imports is there in\n"
    "                    every kernel, what it writes to /home/user in every session\n"
    "  --recipe FILE     the script to run; default: guest/image/build.sh of the source tree\n"
    "  --agent FILE      the guest agent; default: guest/ck-agent beside this program\n";

static int find_recipe(const struct ck_cmd_opts *o, char out[PATH_MAX], struct ck_err *err)
{
    int rc = o->recipe ? ck_path(out, PATH_MAX, err, "%s", o->recipe)
                       : ck_path(out, PATH_MAX, err, "%s/guest/image/build.sh", CK_SOURCE_DIR);
    if (rc)
        return rc;
    if (access(out, R_OK))
        return ck_fail_errno(err, errno, 500, "no_recipe", "cannot read the recipe (say --recipe FILE) %s", out);
    return 0;
}

static int find_agent(const struct ck_cmd_opts *o, char out[PATH_MAX], struct ck_err *err)
{
    char self[PATH_MAX];
    if (o->agent)
        return ck_path(out, PATH_MAX, err, "%s", o->agent);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (!slash)
        return ck_fail(err, 500, "no_agent", "cannot find the guest agent, say --agent FILE");
    *slash = 0;
    return ck_path(out, PATH_MAX, err, "%s/guest/ck-agent", self);
}

// The recipe's last line on stdout is the image's folder. Anything longer than a path is cut.
static void read_last_line(int fd, char line[PATH_MAX])
{
    size_t n = 0;
    bool ended = false;
    FILE *f = fdopen(fd, "r");
    for (int c; f && (c = getc(f)) != EOF;) {
        if (ended && c != '\n')
            n = 0;
        ended = c == '\n';
        if (!ended && n < PATH_MAX - 1)
            line[n++] = (char)c;
    }
    line[n] = 0;
    if (f)
        fclose(f);
    else
        close(fd);
}

static int start(char **argv, int out, pid_t *pid)
{
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t act;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&act);
    posix_spawn_file_actions_adddup2(&act, out, STDOUT_FILENO);
    int rc = posix_spawnp(pid, "bash", &act, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&act);
    posix_spawnattr_destroy(&attr);
    return rc;
}

// The recipe inherits our environment (proxies, TMPDIR) and terminal; Ctrl-C reaches it too, so it
// gets the time to clean up while we wait.
static int run_recipe(const struct ck_cmd_opts *o, const char *recipe, const char *agent, char dir[PATH_MAX], struct ck_err *err)
{
    const char *args[11] = {"bash", recipe, "--cache", o->cache_dir, "--agent", agent};
    char **argv = (char **)args;
    int n = 6;
    if (o->packages)
        args[n++] = "--own-packages", args[n++] = o->packages;
    if (o->warm_up)
        args[n++] = "--warm-up", args[n] = o->warm_up;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old_int, old_quit;
    pid_t pid = -1;
    int p[2], status = 0;
    if (pipe2(p, O_CLOEXEC))
        return ck_fail_errno(err, errno, 500, "cannot_start", "cannot make a pipe");
    sigaction(SIGINT, &ignore, &old_int);
    sigaction(SIGQUIT, &ignore, &old_quit);
    int rc = start(argv, p[1], &pid);
    close(p[1]);
    read_last_line(p[0], dir);
    while (!rc && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGQUIT, &old_quit, NULL);
    if (rc)
        return ck_fail_errno(err, rc, 500, "cannot_start", "cannot run bash");
    if (WIFSIGNALED(status))
        return ck_fail(err, 499, "interrupted", "the recipe was ended by signal %d; nothing half-made is used", WTERMSIG(status));
    if (WEXITSTATUS(status))
        return ck_fail(err, 500, "failed", "the recipe failed with exit code %d (its messages are above)", WEXITSTATUS(status));
    return 0;
}

// The newest image.json is the image in use: confirmed today counts as built today.
static int confirm(const char *dir, struct ck_image *image, struct ck_err *err)
{
    char path[PATH_MAX];
    if (ck_image_load(dir, image, err) || ck_path(path, sizeof path, err, "%s/image.json", image->dir))
        return -1;
    utimensat(AT_FDCWD, path, NULL, 0); // refused to others than its owner: then it stays as it is
    return 0;
}

int ck_cmd_image_build(const struct ck_cmd_opts *o, struct ck_image *out, struct ck_err *err)
{
    char recipe[PATH_MAX], agent[PATH_MAX], dir[PATH_MAX], size[32];
    int64_t t0 = ck_mono_ms();
    if (find_recipe(o, recipe, err) || find_agent(o, agent, err) || ck_mkdirs(o->cache_dir, 0755, err) ||
        run_recipe(o, recipe, agent, dir, err) || confirm(dir, out, err))
        return -1;
    ck_cmd_size(out->root_bytes, size);
    fprintf(stderr, "image: %s (%s) ready after %.1f s\n", out->hash, size, (double)(ck_mono_ms() - t0) / 1000);
    return 0;
}

int ck_cmd_image(int argc, char **argv)
{
    struct ck_cmd_opts o;
    struct ck_err err = CK_ERR_INIT;
    const char *words[1];
    int n, bad = ck_cmd_opts_parse(argc, argv, &o, words, 1, &n, &err);
    if (!bad && o.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (bad || n != 1 || strcmp(words[0], "build")) {
        fprintf(stderr, "cellkeep image: %s\n%s", bad ? err.text : "say build", usage);
        return 2;
    }
    struct ck_image image;
    if (ck_cmd_image_build(&o, &image, &err))
        return ck_cmd_fail("image", &err);
    ck_cmd_prune("image", o.cache_dir);
    printf("%s\n", image.dir);
    return 0;
}
