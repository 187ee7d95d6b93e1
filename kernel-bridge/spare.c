// The wait of a spare. It has run no guest yet and nobody knows of it but the gateway that started it: when
// that goes, however it goes, the socket closes and the spare ends. Must never outlive its gateway unused.
#include "kernel-bridge/spare.h"

#include "common/ck_fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

struct spare {
    uv_poll_t poll;
    int fd; // borrowed
    size_t n;
    char line[LINE_MAX_BYTES];
    void (*got)(void *user, const void *text, size_t n);
    void *user;
};

static void on_closed(uv_handle_t *h) { free(h->data); }

void spare_free(struct spare *s)
{
    if (s && !uv_is_closing((uv_handle_t *)&s->poll))
        uv_close((uv_handle_t *)&s->poll, on_closed);
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct spare *s = p->data;
    (void)status;
    (void)events;
    ssize_t n = read(s->fd, s->line + s->n, sizeof s->line - s->n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        s->n += (size_t)n;
    const char *end = memchr(s->line, '\n', s->n);
    if (!end && n > 0 && s->n < sizeof s->line)
        return;
    uv_poll_stop(p);
    s->got(s->user, end ? s->line : NULL, end ? (size_t)(end - s->line) : 0);
}

struct spare *spare_new(uv_loop_t *loop, int fd, bool moves, void (*got)(void *user, const void *text, size_t n),
                        void *user, struct ck_err *err)
{
    const char *line = moves ? "waiting\n" : "waiting here\n";
    struct spare *s = calloc(1, sizeof *s);
    if (!s || uv_poll_init(loop, &s->poll, fd)) {
        free(s);
        ck_fail(err, 500, "no_memory", "a spare cannot wait");
        return NULL;
    }
    s->poll.data = s;
    s->fd = fd;
    s->got = got;
    s->user = user;
    uv_poll_start(&s->poll, UV_READABLE, on_readable);
    if (!ck_write_all(fd, line, strlen(line)))
        return s;
    ck_fail_errno(err, errno, 500, "no_gateway", "nobody hears that a spare waits");
    spare_free(s);
    return NULL;
}
