// `cellkeep image build`: runs the recipe guest/image/build.sh, which knows how to make an image and
// when there is nothing to do. Here only: finding it, running it, and believing nothing until the
// image has been checked.
#include "vmm/cmds.h"

#include "common/ck_fs.h"
#include "common/ck_time.h"
#include "vmm/cmd_opts.h"
#include "vmm/image.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char usage[] =
    "usage: cellkeep image build [options]\n"
    "\n"
    "Builds the guest image (root file system, kernel, initrd) from Debian packages, when it does not\n"
    "exist yet for this recipe. Needs root.\n"
    "\n"
    "  --cache-dir DIR   where images and templates live (CELLKEEP_CACHE_DIR)\n"
    "  --recipe FILE     the script to run; default: guest/image/build.sh of the source tree\n";

static int find_recipe(const struct ck_cmd_opts *o, char out[PATH_MAX], struct ck_err *err)
{
    int rc = o->recipe ? ck_path(out, PATH_MAX, err, "%s", o->recipe)
                       : ck_path(out, PATH_MAX, err, "%s/guest/image/build.sh", CK_SOURCE_DIR);
    if (rc)
        return rc;
    if (access(out, R_OK))
        return ck_fail_errno(err, errno, 500, "no_recipe", "cannot read the recipe %s, say --recipe FILE", out);
    return 0;
}

// The recipe inherits our environment (proxies, TMPDIR) and terminal; Ctrl-C reaches it too, so it
// gets the time to clean up while we wait.
static int run_recipe(const char *recipe, const char *cache, struct ck_err *err)
{
    char *argv[] = {(char *)"bash", (char *)recipe, (char *)"--cache-dir", (char *)cache, NULL};
    pid_t pid;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old_int, old_quit;
    posix_spawnattr_t attr;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    sigaction(SIGINT, &ignore, &old_int);
    sigaction(SIGQUIT, &ignore, &old_quit);
    int status = 0, rc = posix_spawnp(&pid, "bash", NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
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

int ck_cmd_image(int argc, char **argv)
{
    struct ck_cmd_opts o;
    struct ck_err err = CK_ERR_INIT;
    const char *words[1];
    char recipe[PATH_MAX];
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
    int64_t t0 = ck_mono_ms();
    if (find_recipe(&o, recipe, &err) || ck_mkdirs(o.cache_dir, 0755, &err) || run_recipe(recipe, o.cache_dir, &err) ||
        ck_image_find(o.cache_dir, &image, &err))
        return ck_cmd_fail("image", &err);
    char size[32];
    ck_cmd_size(image.root_bytes, size);
    fprintf(stderr, "image: %s (%s) ready after %.1f s\n", image.hash, size, (double)(ck_mono_ms() - t0) / 1000);
    printf("%s\n", image.dir);
    return 0;
}
