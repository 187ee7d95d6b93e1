// A connection as a reader of the event log: where it stands, what it may see, and what it is owed
// from before. Must never deliver one event twice to one attachment.
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"
#include "kernel-bridge/conn.h"

#include <inttypes.h>

static struct ev_filter filter_of(const struct conn *c)
{
    return (struct ev_filter){.mode = c->mode, .cell = c->cell, .owns = cons_owns_any, .consumer = c->consumer};
}

void conn_detach(struct conn *c)
{
    if (c->consumer && cons_holder(c->consumer) == c)
        cons_set_holder(c->s->b->cons, c->consumer, NULL, 0);
    c->consumer = NULL;
    c->attached = false;
    c->backfills = 0;
}

static int take_consumer(struct conn *c, const struct bop *op, uint64_t *cursor, struct ck_err *err)
{
    struct bridge *b = c->s->b;
    uint64_t now = evlog_next(b->log) - 1;
    bool is_new;
    struct consumer *me = cons_get(b->cons, op->consumer, &is_new);
    if (!me)
        return ck_fail(err, 503, "too_many_consumers", "%d consumers are attached, which is the limit", CONS_MAX);
    struct conn *before = cons_holder(me);
    if (before && before != c)
        conn_close(before); // a second attachment replaces the first
    if (op->from_kind == BOP_FROM_RESUME)
        *cursor = is_new ? now + 1 : cons_acked(me) + 1;
    // What lies before its start is none of a new consumer's business, nor of one that starts over.
    cons_set_holder(b->cons, me, c, op->from_kind == BOP_FROM_RESUME && !is_new ? 0 : *cursor - 1);
    c->consumer = me;
    return 0;
}

static void attach_at(struct conn *c, enum ev_mode mode, const char *cell, uint64_t cursor)
{
    c->mode = mode;
    c->cursor = cursor;
    c->cell_seen = false;
    c->sent = 0;
    snprintf(c->cell, sizeof c->cell, "%s", cell);
}

void conn_follow_cell(struct conn *c, const char *cell, uint64_t seq)
{
    conn_detach(c);
    attach_at(c, EV_MODE_CELL, cell, seq);
    c->attached = !c->closing;
}

int conn_attach(struct conn *c, const struct bop *op, struct ck_err *err)
{
    struct bridge *b = c->s->b;
    char text[64];
    uint64_t cursor = evlog_next(b->log);
    conn_detach(c);
    if (op->from_kind == BOP_FROM_SEQ)
        cursor = op->seq ? op->seq : evlog_first(b->log);
    if (cursor > evlog_next(b->log))
        cursor = evlog_next(b->log);
    if (op->mode == EV_MODE_JUPYTER && take_consumer(c, op, &cursor, err))
        return -1;
    attach_at(c, op->mode, op->mode == EV_MODE_CELL ? op->cell : "", cursor);
    snprintf(text, sizeof text, "\"from\":%" PRIu64, cursor);
    svc_reply(c->s, conn_reply_to(c, op->rid), ck_slice_str(text), NULL, 0);
    c->attached = !c->closing;
    conn_pump(c);
    return 0;
}

void conn_ack(struct conn *c, uint64_t seq, uint64_t sent)
{
    if (!c->consumer || seq >= c->cursor || sent >= c->cursor) // nobody can have seen what was not sent
        return;
    cons_ack(c->s->b->cons, c->consumer, seq);
    c->sent = sent;
}

// A gateway that lives tells with its last ack what its client really has (sent = seq). One that was
// killed could not: the kernel delivers what had been given to it, so that counts.
void conn_peer_gone(struct conn *c)
{
    if (c->consumer)
        cons_ack(c->s->b->cons, c->consumer, c->sent);
}

struct consumer *conn_consumer(const struct conn *c) { return c->consumer; }

void conn_backfill(struct conn *c, const char *session, uint64_t from)
{
    if (c->backfills == CONN_BACKFILLS_MAX || from + 1 >= c->cursor)
        return;
    struct backfill *f = &c->backfill[c->backfills++];
    snprintf(f->session, sizeof f->session, "%s", session);
    f->next = from + 1;
    f->end = c->cursor;
    conn_pump(c);
}

static struct ck_blob *next_backfill(struct conn *c)
{
    while (c->backfills) {
        struct backfill *f = &c->backfill[0];
        struct ev_filter filter = {.mode = EV_MODE_SESSION, .session = f->session};
        struct evlog_item it;
        if (evlog_read(c->s->b->log, f->next, &filter, &it) == EVLOG_EVENT && it.seq < f->end) {
            f->next = it.next;
            return ck_blob_ref((struct ck_blob *)it.frame);
        }
        memmove(f, f + 1, --c->backfills * sizeof *f);
    }
    return NULL;
}

// A cell whose event the log had to drop, or that ended before this reader's position, is still in
// the book of finished cells.
static struct ck_blob *finished_cell(struct conn *c)
{
    struct bridge *b = c->s->b;
    const struct cellbook_entry *e = c->mode == EV_MODE_CELL && !c->cell_seen ? cellbook_find(&b->book, c->cell) : NULL;
    return e ? ck_blob_ref(e->frame) : NULL;
}

struct ck_blob *conn_next_event(struct conn *c)
{
    struct ck_blob *owed = next_backfill(c);
    if (owed)
        return owed;
    struct ev_filter f = filter_of(c);
    struct evlog_item it;
    enum evlog_got got = evlog_read(c->s->b->log, c->cursor, &f, &it);
    c->cursor = it.next;
    if (got == EVLOG_EVENT) {
        if (c->mode == EV_MODE_CELL && it.kind == EV_CELL)
            c->attached = !(c->cell_seen = true);
        return ck_blob_ref((struct ck_blob *)it.frame);
    }
    if (got == EVLOG_GAP)
        return evb_gap(ck_wall_us() / 1000, it.from, it.to, it.count, it.bytes);
    struct ck_blob *last = finished_cell(c);
    if (last)
        c->attached = !(c->cell_seen = true);
    return last;
}
