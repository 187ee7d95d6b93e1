// Pipelined QMP commands. Must never have more under way than a part of what the client allows, so
// that somebody else's command still fits.
#include "vmm/qmp_script.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define STEPS_MAX 40
#define WINDOW 8

struct step {
    const char *name; // a literal
    json_t *args;
    int fd;
};

struct ck_qmp_script {
    struct ck_qmp_script *next, **list;
    struct ck_qmp *q;
    unsigned timeout_ms;
    struct step step[STEPS_MAX];
    int n, sent, answered;
    bool broken; // could not be put together
    struct ck_err err;
    ck_qmp_script_cb cb;
    void *user;
};

struct ck_qmp_script *ck_qmp_script_new(struct ck_qmp_script **list)
{
    struct ck_qmp_script *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->list = list;
    s->next = *list;
    *list = s;
    return s;
}

static void drop_step(struct step *t)
{
    json_decref(t->args);
    if (t->fd >= 0)
        close(t->fd);
    t->args = NULL;
    t->fd = -1;
}

static void script_free(struct ck_qmp_script *s)
{
    for (struct ck_qmp_script **at = s->list; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    for (int i = s->sent; i < s->n; i++)
        drop_step(&s->step[i]);
    free(s);
}

void ck_qmp_scripts_drop(struct ck_qmp_script **list)
{
    while (*list)
        script_free(*list);
}

void ck_qmp_script_add(struct ck_qmp_script *s, const char *name, json_t *args, int fd)
{
    struct step t = {name, args, fd};
    if (s && !s->broken && s->n < STEPS_MAX) {
        s->step[s->n++] = t;
        return;
    }
    drop_step(&t);
    if (s)
        s->broken = true;
}

static void send_more(struct ck_qmp_script *s);

static void on_answer(json_t *ret, const struct ck_err *err, void *user)
{
    struct ck_qmp_script *s = user;
    (void)ret;
    s->answered++;
    if (err && !s->err.status)
        s->err = *err;
    send_more(s);
    if (s->answered < s->sent)
        return;
    ck_qmp_script_cb cb = s->cb;
    void *u = s->user;
    struct ck_err e = s->err;
    script_free(s);
    if (cb)
        cb(e.status ? &e : NULL, u);
}

static void send_more(struct ck_qmp_script *s)
{
    while (!s->err.status && s->sent < s->n && s->sent - s->answered < WINDOW) {
        struct step *t = &s->step[s->sent];
        if (ck_qmp_command(s->q, t->name, t->args, t->fd, s->timeout_ms, on_answer, s, &s->err)) {
            t->args = NULL;
            t->fd = -1;
            return;
        }
        s->sent++;
    }
}

int ck_qmp_script_run(struct ck_qmp_script *s, struct ck_qmp *q, unsigned timeout_ms, ck_qmp_script_cb cb, void *user,
                      struct ck_err *err)
{
    if (!s || s->broken) {
        if (s)
            script_free(s);
        return ck_fail(err, 500, "no_memory", "no memory for commands to QEMU");
    }
    s->q = q;
    s->timeout_ms = timeout_ms;
    s->cb = cb;
    s->user = user;
    send_more(s);
    if (s->sent)
        return 0;
    if (err && s->err.status)
        *err = s->err;
    else if (err)
        ck_fail(err, 500, "bad_vm", "an empty list of commands to QEMU");
    script_free(s);
    return -1;
}
