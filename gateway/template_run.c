// The child that ensures the template. It dies with us, so that Ctrl-C or a SIGTERM during a build
// leaves no virtual machine behind.
#include "gateway/template_run.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX (64 * 1024)

static void child(const char *exe, const struct config *c, int out, pid_t parent)
{
    static const char *const accels[] = {"auto", "kvm", "tcg"};
    char memory[16];
    const char *argv[16] = {exe, "template", "ensure", "--json", "--cache-dir", c->cache_dir, "--accel", accels[c->accel], "--memory-mb", memory,
                            "--state-dir", c->state_dir};
    int n = 12;
    snprintf(memory, sizeof memory, "%d", c->memory_mb);
    if (c->qemu) {
        argv[n++] = "--qemu";
        argv[n++] = c->qemu;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(out, 1) < 0)
        _exit(1);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, 0);
    signal(SIGPIPE, SIG_DFL);
    execv(exe, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int read_all(int fd, struct ck_buf *out)
{
    for (;;) {
        if (ck_buf_reserve(out, 4096))
            return -1;
        ssize_t n = read(fd, out->p + out->n, 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        out->n += (size_t)n;
    }
}

static int parse(const struct ck_buf *text, struct template_info *out, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text->p, text->n, false, err);
    const json_t *accel = ck_json_obj(j, "accelerator", NULL);
    if (!j)
        return ck_wrap(err, "the answer of the template builder");
    const json_t *failed = ck_json_obj(j, "error", NULL);
    if (failed)
        return ck_fail(err, 500, ck_json_str(failed, "reason", "template_failed", NULL), "%s",
                       ck_json_str(failed, "message", "the template cannot be made", NULL));
    snprintf(out->dir, sizeof out->dir, "%s", ck_json_str(j, "dir", "", NULL));
    snprintf(out->image_dir, sizeof out->image_dir, "%s", ck_json_str(j, "image_dir", "", NULL));
    snprintf(out->qemu, sizeof out->qemu, "%s", ck_json_str(j, "qemu", "", NULL));
    snprintf(out->accelerator, sizeof out->accelerator, "%s", ck_json_str(accel, "name", "", NULL));
    snprintf(out->reason, sizeof out->reason, "%s", ck_json_str(accel, "reason", "", NULL));
    out->memory_mb = (int)ck_json_int(j, "memory_mb", 0, NULL);
    if (*out->dir != '/' || *out->image_dir != '/' || !*out->accelerator || out->memory_mb <= 0)
        return ck_fail(err, 500, "bad_template", "the template builder's answer lacks a field");
    return 0;
}

int template_ensure(const char *exe, const struct config *c, struct template_info *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf text = {NULL, 0, 0, ANSWER_MAX};
    int fds[2], status = 0;
    pid_t parent = getpid(), pid;
    if (pipe2(fds, O_CLOEXEC))
        return ck_fail_errno(err, errno, 500, "template_failed", "cannot start the template builder");
    pid = fork();
    if (!pid)
        child(exe, c, fds[1], parent);
    close(fds[1]);
    int rc = pid < 0 ? -1 : read_all(fds[0], &text);
    close(fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || rc)
        return ck_fail(err, 500, "template_failed", "the template builder could not be run");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && text.n)
        return parse(&text, out, err); // what was wrong
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        return 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return ck_fail(err, 500, "template_failed", "the template builder ended unexpectedly (status %d)", status);
    return parse(&text, out, err);
}
