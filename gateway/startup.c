// Checks before the start, in the order in which they are cheap.
#include "gateway/startup.h"

#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// sun_path minus "/sessions/", a uuid, "/bridge.sock" and the NUL
#define STATE_PATH_MAX ((int)sizeof(((struct sockaddr_un *)0)->sun_path) - 10 - 36 - 12 - 1)

#define STOPPING " stopping" // behind the pid in the lock
#define WAIT_STOPPING_MS 15000
#define WAIT_MS 2000
#define POLL_MS 50

// Who holds the lock, as it wrote down; "" when nothing can be read.
static void read_holder(int fd, char out[48])
{
    ssize_t n = pread(fd, out, 47, 0);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
}

static int wait_for_lock(int fd, const char *path, struct ck_err *err)
{
    static const struct timespec poll = {.tv_nsec = POLL_MS * 1000000L};
    char holder[48];
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB); waited += POLL_MS) {
        read_holder(fd, holder);
        bool stopping = strstr(holder, STOPPING) != NULL;
        size_t pid = strcspn(holder, " ");
        if (waited >= (stopping ? WAIT_STOPPING_MS : WAIT_MS))
            return ck_fail(err, 500, "locked", "another gateway%s%.*s uses the state folder %s; stop it or choose another --state-dir",
                           *holder ? " with pid " : "", (int)pid, holder, path);
        if (!waited)
            fprintf(stderr, "serve: waiting for the gateway with pid %.*s to let go of %s\n", (int)pid, holder, path);
        nanosleep(&poll, NULL);
    }
    return 0;
}

static int write_holder(int fd, const char *what)
{
    char text[48];
    int n = snprintf(text, sizeof text, "%d%s\n", (int)getpid(), what);
    return ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n ? -1 : 0;
}

static int take_lock(const char *path, struct state_dir *out, struct ck_err *err)
{
    char file[PATH_MAX];
    if (ck_path(file, sizeof file, err, "%s/gateway.lock", path))
        return -1;
    out->lock_fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out->lock_fd < 0)
        return ck_fail_errno(err, errno, 500, "state_dir", "the state folder %s cannot be written", path);
    if (wait_for_lock(out->lock_fd, path, err))
        return -1;
    if (write_holder(out->lock_fd, ""))
        return ck_fail_errno(err, errno, 500, "state_dir", "the state folder %s cannot be written", path);
    return 0;
}

void state_dir_stopping(const struct state_dir *s)
{
    write_holder(s->lock_fd, STOPPING); // without it the next one waits less
}

int state_dir_open(const char *path, struct state_dir *out, struct ck_err *err)
{
    // Bridges have uids of their own when we are root: they must be able to pass, not to look.
    mode_t mode = geteuid() ? 0700 : 0711;
    struct stat st;
    out->lock_fd = -1;
    if ((int)strlen(path) > STATE_PATH_MAX)
        return ck_fail(err, 500, "state_dir", "the path of the state folder has %zu characters; unix sockets below it allow %d",
                       strlen(path), STATE_PATH_MAX);
    if (ck_path(out->sessions, sizeof out->sessions, err, "%s/sessions", path))
        return -1;
    if (ck_mkdirs(path, mode, err) || ck_mkdirs(out->sessions, mode, err))
        return ck_wrap(err, "the state folder %s cannot be made or written", path);
    if (stat(path, &st) || st.st_mode & 022)
        return ck_fail(err, 500, "state_dir", "the state folder %s can be written by others; run: chmod go-w %s", path, path);
    if (access(path, W_OK | X_OK) || access(out->sessions, W_OK | X_OK))
        return ck_fail_errno(err, errno, 500, "state_dir", "the state folder %s cannot be written", path);
    if (take_lock(path, out, err)) {
        state_dir_close(out);
        return -1;
    }
    return 0;
}

void state_dir_close(struct state_dir *s)
{
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->lock_fd = -1;
}

int check_port_free(const char *host, int port, struct ck_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    char text[8];
    int on = 1, rc;
    snprintf(text, sizeof text, "%d", port);
    rc = getaddrinfo(host, text, &hints, &list);
    if (rc)
        return ck_fail(err, 500, "bad_host", "cannot listen on host \"%s\": %s", host, gai_strerror(rc));
    int why = 0;
    bool bound = false; // a name may have addresses that this host has not, such as ::1 for localhost
    for (const struct addrinfo *a = list; a && !rc; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 1))
            bound = true;
        else
            why = errno;
        if (why == EADDRINUSE)
            rc = ck_fail(err, 500, "port_in_use", "port %d on %s is in use; stop the other program or choose another --port", port, host);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    if (!rc && !bound)
        rc = ck_fail_errno(err, why, 500, "bad_host", "cannot listen on port %d of host \"%s\"; give an address of this machine as --host", port, host);
    return rc;
}

int own_executable(char *out, size_t room, struct ck_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, room - 1);
    if (n <= 0)
        return ck_fail_errno(err, errno, 500, "no_exe", "cannot find the path of this program");
    out[n] = 0;
    return 0;
}
