// The worker thread. A queue in, a queue out, an eventfd to wake the main loop. JSON values cross
// with their ownership: never is one referred to from both sides.
#include "guest/agent/worker.h"

#include "guest/agent/spawn.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <unistd.h>
#include <zmq.h>

struct job {
    struct job *next;
    ag_job_fn *fn;
    struct ag_request *req; // NULL for calls
    void (*done)(void *ctx, const struct ck_err *err);
    void *ctx;
    int rc;
    struct ag_result result;
    struct ck_err err;
};

struct queue {
    struct job *first, **last;
};

struct ag_worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct queue todo, finished;
    unsigned waiting;
    void *state;
    int event;
};

static void put(struct queue *q, struct job *j)
{
    j->next = NULL;
    *q->last = j;
    q->last = &j->next;
}

static struct job *take(struct queue *q)
{
    struct job *j = q->first;
    if (j) {
        q->first = j->next;
        if (!q->first)
            q->last = &q->first;
    }
    return j;
}

// setfsuid changes the calling thread only (a raw call: no wrapper may spread it), and leaving uid 0
// drops the capabilities that override file permissions.
static void become_user(void)
{
    setfsgid(AG_GID);
    setfsuid(AG_UID);
    if (setfsuid((uid_t)-1) != AG_UID || setfsgid((gid_t)-1) != AG_GID)
        abort(); // never touch a file of the user's choice as root
}

static void *worker_main(void *arg)
{
    struct ag_worker *w = arg;
    become_user();
    for (;;) {
        pthread_mutex_lock(&w->lock);
        struct job *j;
        while (!(j = take(&w->todo)))
            pthread_cond_wait(&w->wake, &w->lock);
        pthread_mutex_unlock(&w->lock);
        static const struct ck_slice none = {NULL, 0};
        j->rc = j->fn(w->state, j->req ? j->req->header : NULL, j->req ? ck_buf_slice(&j->req->payload) : none,
                      &j->result, &j->err);
        pthread_mutex_lock(&w->lock);
        put(&w->finished, j);
        pthread_mutex_unlock(&w->lock);
        uint64_t one = 1;
        if (write(w->event, &one, sizeof one) != sizeof one)
            abort(); // an eventfd below its maximum never refuses
    }
    return NULL;
}

static void finish(struct job *j)
{
    if (j->req && j->rc < 0) {
        json_decref(j->result.answer);
        ag_answer_error(j->req, &j->err);
    } else if (j->req) {
        ag_answer(j->req, j->result.answer, ck_buf_slice(&j->result.payload));
    } else {
        json_decref(j->result.answer);
        if (j->done)
            j->done(j->ctx, j->rc < 0 ? &j->err : NULL);
    }
    ck_buf_free(&j->result.payload);
    free(j);
}

static void on_finished(void *ctx, int fd, short revents)
{
    (void)revents;
    struct ag_worker *w = ctx;
    uint64_t count;
    if (read(fd, &count, sizeof count) != sizeof count)
        return;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        struct job *j = take(&w->finished);
        if (j)
            w->waiting--;
        pthread_mutex_unlock(&w->lock);
        if (!j)
            return;
        finish(j);
    }
}

struct ag_worker *ag_worker_start(struct ag_loop *loop, void *state, struct ck_err *err)
{
    struct ag_worker *w = calloc(1, sizeof *w);
    pthread_t thread;
    sigset_t all, old;
    if (!w || (w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        goto fail;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->todo.last = &w->todo.first;
    w->finished.last = &w->finished.first;
    w->state = state;
    if (ag_loop_watch(loop, w->event, ZMQ_POLLIN, on_finished, w) < 0)
        goto fail;
    sigfillset(&all); // signals are the main thread's
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        goto fail;
    pthread_detach(thread); // lives as long as the machine
    return w;
fail:
    ck_fail(err, 500, "worker", "starting a worker thread");
    if (w && w->event > 0) {
        ag_loop_unwatch(loop, w->event);
        close(w->event);
    }
    free(w);
    return NULL;
}

static int submit(struct ag_worker *w, struct job *j, struct ck_err *err)
{
    pthread_mutex_lock(&w->lock);
    bool full = w->waiting >= AG_WORKER_QUEUE_MAX;
    if (!full) {
        w->waiting++;
        put(&w->todo, j);
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    return full ? ck_fail(err, 429, "busy", "too many file operations are waiting") : 0;
}

void ag_worker_submit(struct ag_worker *w, ag_job_fn *fn, struct ag_request *req)
{
    struct ck_err err = CK_ERR_INIT;
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        ck_fail(&err, 503, "no_memory", "out of memory");
    else
        *j = (struct job){.fn = fn, .req = req};
    if (!j || submit(w, j, &err) < 0) {
        free(j);
        ag_answer_error(req, &err);
    }
}

void ag_worker_call(struct ag_worker *w, ag_job_fn *fn, void (*done)(void *ctx, const struct ck_err *err), void *ctx)
{
    struct ck_err err = CK_ERR_INIT;
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        ck_fail(&err, 503, "no_memory", "out of memory");
    else
        *j = (struct job){.fn = fn, .done = done, .ctx = ctx};
    if (!j || submit(w, j, &err) < 0) {
        free(j);
        if (done)
            done(ctx, &err);
    }
}
