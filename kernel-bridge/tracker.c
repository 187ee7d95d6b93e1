// Execution tracker. /v1 cells go to the kernel one at a time, so that an error or interrupt of one
// never aborts another, and in order with the requests of Jupyter clients. Must never hold a cell
// back for ever because a stranger's message did not come: trk_quiet finds a kernel that cannot be
// heard any more.
#include "kernel-bridge/tracker.h"

#include "kernel-bridge/jscan.h"

#include <stdlib.h>

#define HEADER_KEPT_MAX 4096

struct jexec {
    struct jexec *next;
    uint64_t order;
    int64_t half_ms; // when the first of reply and idle came, 0 = neither yet
    char msg_id[JW_ID_MAX], session[JW_ID_MAX];
    size_t header_n;
    uint8_t header[];
};

struct tracker {
    unsigned queue_max, queued, jexecs;
    size_t output_bytes;
    struct trk_cell *first, **last; // waiting
    struct trk_cell *active;
    struct jexec *jfirst, **jlast;
    struct jexec *popped; // keeps trk_jupyter_pop's header valid
    uint64_t order;
    struct {
        char id[CK_UUID_MAX]; // "" = nothing winds down
        bool reply, idle;
    } winding;
    int64_t heard_ms; // the last message on iopub
    struct {
        uint64_t bytes;                     // as last told
        int64_t told_ms, seen_ms, large_ms; // seen: they had grown; large: by a message that was not whole yet
    } moved;
    struct {
        int64_t of;           // waits_since of what it was sent for, 0 = none is under way
        bool answered, heard; // heard: something on iopub since
        int64_t at_ms;
    } probe;
    char busy_parent[JW_ID_MAX]; // msg_id that the main thread is busy with, "" = none
    bool inherited;              // what it runs was begun before us
};

struct tracker *trk_new(unsigned queue_max, size_t output_bytes)
{
    struct tracker *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->queue_max = queue_max;
    t->output_bytes = output_bytes;
    t->last = &t->first;
    t->jlast = &t->jfirst;
    return t;
}

void trk_limits(struct tracker *t, unsigned queue_max, size_t output_bytes)
{
    t->queue_max = queue_max;
    t->output_bytes = output_bytes;
}

void trk_cell_free(struct trk_cell *c)
{
    if (!c)
        return;
    ck_blob_unref(c->code);
    cout_free(&c->out);
    free(c);
}

void trk_free(struct tracker *t)
{
    if (!t)
        return;
    for (struct trk_cell *c = t->first, *next; c; c = next) {
        next = c->next;
        trk_cell_free(c);
    }
    trk_cell_free(t->active);
    for (struct jexec *j = t->jfirst, *next; j; j = next) {
        next = j->next;
        free(j);
    }
    free(t->popped);
    free(t);
}

struct trk_cell *trk_find(const struct tracker *t, const char *id)
{
    if (t->active && !strcmp(t->active->id, id))
        return t->active;
    for (struct trk_cell *c = t->first; c; c = c->next)
        if (!strcmp(c->id, id))
            return c;
    return NULL;
}

struct trk_cell *trk_active(const struct tracker *t) { return t->active; }
unsigned trk_queued(const struct tracker *t) { return t->queued; }
struct trk_cell *trk_first_queued(const struct tracker *t) { return t->first; }

int trk_queue(struct tracker *t, const struct trk_spec *s, struct trk_cell **out, struct ck_err *err)
{
    if (trk_find(t, s->id))
        return ck_fail(err, 409, "cell_exists", "a cell with this id is waiting or running already");
    if (t->queued >= t->queue_max)
        return ck_fail(err, 429, "queue_full", "%u cells are waiting already, which is the limit; wait for one to end",
                       t->queue_max);
    struct trk_cell *c = calloc(1, sizeof *c);
    if (c)
        c->code = ck_blob_new(s->code.n);
    if (!c || !c->code) {
        free(c);
        return ck_fail(err, 500, "no_memory", "no memory for another cell");
    }
    if (s->code.n)
        memcpy(c->code->p, s->code.p, s->code.n);
    strncpy(c->id, s->id, sizeof c->id - 1);
    strncpy(c->url_prefix, s->url_prefix, sizeof c->url_prefix - 1);
    c->timeout_ms = s->timeout_ms;
    c->silent = s->silent;
    c->allow_stdin = s->allow_stdin;
    c->order = ++t->order;
    cout_init(&c->out, t->output_bytes);
    *t->last = c;
    t->last = &c->next;
    t->queued++;
    *out = c;
    return 0;
}

struct trk_cell *trk_ready(const struct tracker *t)
{
    struct trk_cell *c = t->first;
    return !c || t->active || t->winding.id[0] || t->inherited || (t->jfirst && t->jfirst->order < c->order) ? NULL : c;
}

void trk_take(struct tracker *t, struct trk_cell *c, int64_t now_ms)
{
    t->first = c->next;
    if (!t->first)
        t->last = &t->first;
    c->next = NULL;
    t->queued--;
    t->active = c;
    c->phase = TRK_SENT;
    c->sent_ms = now_ms;
}

void trk_wind(struct tracker *t, const struct trk_cell *c)
{
    memset(&t->winding, 0, sizeof t->winding);
    memcpy(t->winding.id, c->id, sizeof t->winding.id);
    t->winding.reply = c->reply != TRK_NO_REPLY;
    t->winding.idle = c->idle;
}

bool trk_winding(const struct tracker *t) { return t->winding.id[0]; }

static void wind_message(struct tracker *t, bool reply, const char *state, struct trk_step *out)
{
    t->winding.reply |= reply;
    t->winding.idle |= !strcmp(state, "idle");
    out->late_start = !strcmp(state, "busy");
    if (t->winding.reply && t->winding.idle)
        t->winding.id[0] = 0;
}

void trk_finish(struct tracker *t, struct trk_cell *c)
{
    if (t->active == c) {
        t->active = NULL;
        return;
    }
    for (struct trk_cell **at = &t->first; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            if (!*at)
                t->last = at;
            t->queued--;
            break;
        }
    c->next = NULL;
}

// The active cell goes back to the head of the queue, as if it had never been sent.
static void unsend(struct tracker *t)
{
    struct trk_cell *c = t->active;
    t->active = NULL;
    c->phase = TRK_QUEUED;
    c->reply = TRK_NO_REPLY;
    c->idle = false;
    c->started_us = c->ended_us = c->half_ms = 0;
    c->ending = (struct ending){.rung = END_OFF};
    size_t budget = c->out.budget;
    cout_free(&c->out);
    cout_init(&c->out, budget);
    c->next = t->first;
    t->first = c;
    if (!c->next)
        t->last = &c->next;
    t->queued++;
}

static void jexec_remove(struct tracker *t, struct jexec **at)
{
    struct jexec *j = *at;
    *at = j->next;
    if (!*at)
        t->jlast = at;
    t->jexecs--;
    free(j);
}

void trk_jupyter_sent(struct tracker *t, const char *msg_id, const char *session, struct ck_slice header)
{
    if (t->jexecs >= TRK_JUPYTER_MAX && t->jfirst)
        jexec_remove(t, &t->jfirst);
    if (header.n > HEADER_KEPT_MAX)
        header.n = 0;
    struct jexec *j = calloc(1, sizeof *j + header.n);
    if (!j)
        return; // then only the busy state of this one is missed
    j->order = ++t->order;
    strncpy(j->msg_id, msg_id, sizeof j->msg_id - 1);
    strncpy(j->session, session, sizeof j->session - 1);
    j->header_n = header.n;
    if (header.n)
        memcpy(j->header, header.p, header.n);
    *t->jlast = j;
    t->jlast = &j->next;
    t->jexecs++;
}

bool trk_jupyter_running(const struct tracker *t) { return t->jfirst != NULL; }

bool trk_jupyter_pop(struct tracker *t, char msg_id[JW_ID_MAX], char session[JW_ID_MAX], struct ck_slice *header)
{
    free(t->popped);
    struct jexec *j = t->popped = t->jfirst;
    if (!j)
        return false;
    t->jfirst = j->next;
    if (!t->jfirst)
        t->jlast = &t->jfirst;
    t->jexecs--;
    memcpy(msg_id, j->msg_id, JW_ID_MAX);
    memcpy(session, j->session, JW_ID_MAX);
    *header = ck_slice(j->header, j->header_n);
    return true;
}

bool trk_busy(const struct tracker *t)
{
    return t->active || t->first || t->jfirst || t->busy_parent[0] || t->winding.id[0] || t->inherited;
}

static bool waits_for_end(const struct trk_cell *c) { return c && c->phase == TRK_RUNNING && c->half_ms; }

// Since when something is missing: 0 = nothing is. Also tells one wait from the next.
static int64_t waits_since(const struct tracker *t)
{
    const struct trk_cell *c = t->active;
    if (waits_for_end(c))
        return c->half_ms;
    if (t->jfirst && t->jfirst->half_ms)
        return t->jfirst->half_ms;
    return c && c->phase == TRK_SENT ? c->sent_ms : 0;
}

static bool probing(const struct tracker *t) { return t->probe.of && t->probe.of == waits_since(t); }

static void on_status(struct tracker *t, const struct jw_head *parent, struct ck_slice content, struct trk_step *out,
                      int64_t now_us)
{
    char state[16];
    jscan_field_str(content, "execution_state", state, sizeof state);
    bool busy = !strcmp(state, "busy"), idle = !strcmp(state, "idle");
    // Only what runs user code makes a session busy; completions and kernel_info would only flicker.
    bool runs_code = !strcmp(parent->type, "execute_request") || !strncmp(parent->type, "comm_", 5);
    if (busy && runs_code)
        memcpy(t->busy_parent, parent->msg_id, sizeof t->busy_parent);
    if (idle && !strcmp(t->busy_parent, parent->msg_id))
        t->busy_parent[0] = 0;
    struct trk_cell *c = out->cell;
    if (c && busy && c->phase == TRK_SENT) {
        c->phase = TRK_RUNNING;
        c->started_us = now_us;
        out->started = true;
    }
    if (c && idle && c->phase == TRK_RUNNING && !c->idle) {
        c->idle = true;
        c->half_ms = now_us / 1000;
        if (!c->ended_us)
            c->ended_us = now_us;
    } else if (!c && idle && probing(t) && waits_for_end(t->active) && t->active->reply) {
        out->broken = true; // it speaks of later things on iopub: the cell's idle will not come any more
    }
}

static void on_cell_reply(struct tracker *t, struct trk_cell *c, struct ck_slice content, int64_t now_us,
                          struct trk_step *out)
{
    char status[16];
    jscan_field_str(content, "status", status, sizeof status);
    if (!strcmp(status, "aborted") && c->aborts < TRK_ABORT_RETRIES && !c->cancelled) {
        c->aborts++;
        unsend(t);
        out->aborted = true;
        out->cell = NULL;
        return;
    }
    if (c->phase == TRK_SENT) { // its busy status was lost
        c->phase = TRK_RUNNING;
        c->started_us = now_us;
        out->started = true;
    }
    if (c->phase != TRK_RUNNING || c->reply)
        return;
    c->reply = !strcmp(status, "ok") ? TRK_REPLY_OK : TRK_REPLY_ERROR;
    c->cancelled |= !strcmp(status, "aborted");
    if (!c->ended_us)
        c->ended_us = now_us;
    c->wants_input = false;
    c->half_ms = now_us / 1000;
    if (!end_begun(&c->ending))
        end_off(&c->ending); // its code has ended in time, whatever becomes of the rest
    out->replied = true;
    struct ck_slice count;
    if (jscan_field(content, "execution_count", &count))
        jscan_int(count, &c->out.execution_count);
    cout_reply(&c->out, c->reply == TRK_REPLY_ERROR && strcmp(status, "aborted"), content);
}

static void on_jupyter(struct tracker *t, enum jw_channel ch, const struct jw_head *head, const struct jw_head *parent,
                       struct ck_slice content, int64_t now_ms, struct trk_step *out)
{
    bool reply = ch == JW_SHELL && !strcmp(head->type, "execute_reply");
    char state[16] = "";
    if (ch == JW_IOPUB && !strcmp(head->type, "status"))
        jscan_field_str(content, "execution_state", state, sizeof state);
    if (!reply && strcmp(state, "idle"))
        return;
    struct jexec *j = t->jfirst;
    while (j && strcmp(j->msg_id, parent->msg_id))
        j = j->next;
    if (!j)
        return;
    // The first reply is the moment for artifacts; whichever of reply and idle comes second ends it,
    // and with it all before it, whose messages must have been lost: the kernel runs them in order.
    out->jupyter_replied = reply;
    if (!j->half_ms) {
        j->half_ms = now_ms;
        return;
    }
    while (t->jfirst != j)
        jexec_remove(t, &t->jfirst);
    jexec_remove(t, &t->jfirst);
}

void trk_message(struct tracker *t, enum jw_channel ch, const struct jw_head *head, const struct jw_head *parent,
                 struct ck_slice content, int64_t now_us, struct trk_step *out)
{
    bool was_busy = trk_busy(t);
    struct trk_cell *c = t->active;
    *out = (struct trk_step){.cell = c && !strcmp(c->id, parent->msg_id) ? c : NULL};
    if (ch == JW_IOPUB) {
        t->heard_ms = now_us / 1000;
        t->probe.heard = true;
    }
    if (ch == JW_IOPUB && !strcmp(head->type, "status"))
        on_status(t, parent, content, out, now_us);
    else if (out->cell && ch == JW_IOPUB)
        cout_message(&c->out, head->type, content);
    else if (out->cell && ch == JW_SHELL && !strcmp(head->type, "execute_reply"))
        on_cell_reply(t, c, content, now_us, out);
    else if (out->cell && ch == JW_STDIN && !strcmp(head->type, "input_request") && c->phase == TRK_RUNNING)
        out->input = c->wants_input = true;
    if (t->winding.id[0] && !strcmp(t->winding.id, parent->msg_id)) {
        char state[16] = "";
        if (ch == JW_IOPUB && !strcmp(head->type, "status"))
            jscan_field_str(content, "execution_state", state, sizeof state);
        bool reply = ch == JW_SHELL && !strcmp(head->type, "execute_reply");
        wind_message(t, reply, state, out);
    }
    if (!out->cell && !out->aborted)
        on_jupyter(t, ch, head, parent, content, now_us / 1000, out);
    if (out->cell && c->phase == TRK_RUNNING && c->reply && c->idle) {
        c->phase = TRK_CLOSING;
        end_off(&c->ending);
        out->closing = true;
    }
    out->busy_changed = trk_busy(t) != was_busy;
}

void trk_inherited(struct tracker *t) { t->inherited = true; }

void trk_rested(struct tracker *t)
{
    t->inherited = false;
    t->busy_parent[0] = 0; // what set it has ended, and its idle may have been lost with the connection
}

void trk_kernel_gone(struct tracker *t)
{
    t->busy_parent[0] = 0;
    t->inherited = false;
    t->winding.id[0] = 0;
    if (t->active && t->active->phase == TRK_SENT)
        unsend(t);
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t trk_quiet_at(const struct tracker *t)
{
    const struct trk_cell *c = t->active;
    int64_t from = waits_since(t), quiet = TRK_QUIET_MS;
    if (!from)
        return INT64_MAX;
    if (probing(t)) {
        if (!t->probe.answered)
            return INT64_MAX; // trk_probed comes by itself
        from = t->probe.at_ms;
        quiet = TRK_GIVE_UP_MS;
    } else if (c && c->phase == TRK_SENT && from == c->sent_ms) {
        quiet = TRK_SENT_MS;
    }
    // From the last sign on iopub; but a talk of other things that does not end is no reason to wait for ever.
    int64_t silent = later(later(t->heard_ms, t->moved.seen_ms), from) + quiet;
    int64_t late = later(t->moved.large_ms, from) + TRK_LATE_MS;
    return silent < late ? silent : late;
}

void trk_moved(struct tracker *t, uint64_t received, int64_t now_ms)
{
    bool grown = received >= t->moved.bytes + TRK_MOVED_BYTES, whole = t->heard_ms > t->moved.told_ms;
    int64_t since = waits_since(t);
    if (grown && since && now_ms - since < TRK_MOVED_MS) {
        t->moved.seen_ms = now_ms;
        if (!whole)
            t->moved.large_ms = now_ms;
    }
    t->moved.bytes = received;
    t->moved.told_ms = now_ms;
}

// What is waited for did not come: later is as good a time as any to look again.
static void wait_again(struct tracker *t, int64_t now_ms)
{
    if (t->jfirst && t->jfirst->half_ms)
        t->jfirst->half_ms = now_ms;
    else if (t->active)
        t->active->sent_ms = now_ms;
}

// The probe was answered and its time is over.
static enum trk_due judge(struct tracker *t, int64_t now_ms)
{
    t->probe.of = 0;
    if (waits_for_end(t->active) || !t->probe.heard) // or it cannot be heard on iopub at all
        return TRK_BROKEN;
    if (t->jfirst && t->jfirst->half_ms)
        jexec_remove(t, &t->jfirst); // the other half of its end was lost, no more than that
    else
        wait_again(t, now_ms); // its main thread is busy with something else
    return TRK_NOTHING;
}

enum trk_due trk_quiet(struct tracker *t, int64_t now_ms)
{
    if (trk_quiet_at(t) > now_ms)
        return TRK_NOTHING;
    if (probing(t))
        return judge(t, now_ms);
    t->probe.of = waits_since(t);
    t->probe.answered = t->probe.heard = false;
    t->probe.at_ms = now_ms;
    return TRK_PROBE;
}

enum trk_due trk_probed(struct tracker *t, bool answered, int64_t now_ms)
{
    if (!probing(t))
        return TRK_NOTHING;
    if (answered) {
        t->probe.answered = true;
        return TRK_NOTHING;
    }
    // No answer on any channel. A cell whose code has ended cannot be waited for any longer; code that
    // may still be running can do this to its kernel for a while, and has its own time-out.
    t->probe.of = 0;
    if (waits_for_end(t->active))
        return TRK_BROKEN;
    wait_again(t, now_ms);
    return TRK_NOTHING;
}

enum cell_status trk_status(const struct trk_cell *c)
{
    if (end_begun(&c->ending) && c->ending.why == END_TIMEOUT)
        return CELL_TIMEOUT;
    if (c->cancelled)
        return CELL_CANCELLED;
    if (c->reply == TRK_REPLY_ERROR) // an `error` that was only shown says nothing: code can publish what it likes
        return c->interrupted ? CELL_INTERRUPTED : CELL_ERROR;
    return CELL_OK;
}
