// The codec of a paused session's history. What it reads was written by a bridge, which reads bytes
// of a guest all its life: every number is checked before it is used, every text before it is
// believed, every frame before it is served. Must never allocate what the file merely claims.
#include "kernel-bridge/history.h"

#include "common/ck_crypto.h"

#include <stdlib.h>

#define MAGIC "ckhistry"
#define HEAD_BYTES (8 + 4 + 4 + 8 + 8 + CK_SHA256_LEN)
#define CHECK_AT (HEAD_BYTES - CK_SHA256_LEN)
#define CHECK_KEY "cellkeep history"
#define FRAME_MAX CK_FRAME_BODY_MAX

enum { SLOT_DROPPED, SLOT_KEPT };
enum { BOOK_OWN, BOOK_LOGGED }; // where a finished cell's frame is: its own bytes, or the log's

// ---- writing ----------------------------------------------------------------------------------

static int put(struct ck_buf *b, uint64_t v, unsigned bytes)
{
    uint8_t out[8];
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(v >> (8 * i));
    return ck_buf_add(b, out, bytes);
}

static int put_text(struct ck_buf *b, const char *s)
{
    size_t n = strlen(s);
    return put(b, n, 2) || ck_buf_add(b, s, n) ? -1 : 0;
}

static int put_frame(struct hist_image *o, struct ck_blob *frame)
{
    if (o->frames == o->room) {
        size_t room = o->room ? o->room * 2 : 64;
        struct ck_blob **bigger = realloc(o->frame, room * sizeof(struct ck_blob *));
        if (!bigger)
            return -1;
        o->frame = bigger;
        o->room = room;
    }
    if (put(&o->head, frame->n, 4))
        return -1;
    o->frame[o->frames++] = ck_blob_ref(frame);
    o->bytes += frame->n;
    return 0;
}

static int put_log(struct hist_image *o, const struct evlog *l)
{
    uint64_t first = evlog_first(l), next = evlog_next(l);
    struct evlog_slot s;
    if (put(&o->head, first, 8) || put(&o->head, evlog_lead_bytes(l), 8) || put(&o->head, next - first, 4))
        return -1;
    for (uint64_t seq = first; evlog_slot(l, seq, &s); seq++) {
        int bad = put(&o->head, s.frame ? SLOT_KEPT : SLOT_DROPPED, 1);
        if (!bad && !s.frame)
            bad = put(&o->head, s.dropped_bytes, 8);
        else if (!bad)
            bad = put(&o->head, s.tag.kind, 1) || put(&o->head, s.tag.class, 1) || put(&o->head, s.tag.channel, 1) ||
                  put_text(&o->head, s.tag.cell) || put_text(&o->head, s.tag.session) || put_frame(o, s.frame);
        if (bad)
            return -1;
    }
    return 0;
}

static int put_session(void *user, const struct cons_seen *s)
{
    struct ck_buf *b = user;
    unsigned owner = (unsigned)s->owner + 1; // 0 = none
    return put_text(b, s->name) || put(b, s->acked, 8) || put(b, owner, 2) ? -1 : 0;
}

static int put_consumers(struct hist_image *o, const struct consumers *t)
{
    if (put(&o->head, cons_count(t), 4))
        return -1;
    for (unsigned i = 0; i < cons_count(t); i++) {
        struct cons_seen c;
        cons_at(t, i, &c);
        if (put_text(&o->head, c.name) || put(&o->head, c.acked, 8) || put(&o->head, c.used, 8))
            return -1;
    }
    return put(&o->head, cons_sessions(t), 4) || cons_each_session(t, put_session, &o->head) ? -1 : 0;
}

// Which event of the log has the very frame of each finished cell; 0 = the log has dropped it. The
// book has the newest cells, so that only as many of the log's need to be looked at.
static void find_logged(const struct cellbook *k, const struct evlog *l, uint64_t seq_of[CELLBOOK_MAX])
{
    struct evlog_slot s;
    unsigned looked = 0;
    for (uint64_t seq = evlog_next(l) - 1; looked < CELLBOOK_MAX && evlog_slot(l, seq, &s); seq--) {
        if (!s.frame || s.tag.kind != EV_CELL)
            continue;
        looked++;
        for (unsigned i = 0; i < k->n; i++)
            if (k->entry[(k->first + i) % CELLBOOK_MAX].frame == s.frame)
                seq_of[i] = seq;
    }
}

static int put_book(struct hist_image *o, const struct cellbook *k, const struct evlog *l)
{
    uint64_t seq_of[CELLBOOK_MAX] = {0};
    find_logged(k, l, seq_of);
    if (put(&o->head, k->n, 4))
        return -1;
    for (unsigned i = 0; i < k->n; i++) {
        const struct cellbook_entry *e = &k->entry[(k->first + i) % CELLBOOK_MAX];
        uint64_t seq = seq_of[i];
        if (put_text(&o->head, e->id) || put(&o->head, e->status, 1) ||
            put(&o->head, seq ? BOOK_LOGGED : BOOK_OWN, 1) || (seq ? put(&o->head, seq, 8) : put_frame(o, e->frame)))
            return -1;
    }
    return 0;
}

int hist_encode(const struct history *h, struct ck_slice meta, struct hist_image *o, struct ck_err *err)
{
    *o = (struct hist_image){.head = CK_BUF_INIT};
    static const uint8_t later[HEAD_BYTES];
    size_t index_at = HEAD_BYTES + meta.n;
    if (meta.n > HIST_META_MAX)
        return ck_fail(err, 500, "history_too_large", "the session's settings are over %d bytes", HIST_META_MAX);
    if (ck_buf_add(&o->head, later, sizeof later) || ck_buf_add(&o->head, meta.p, meta.n) || put_log(o, h->log) ||
        put_consumers(o, h->cons) || put_book(o, h->book, h->log))
        return ck_fail(err, 500, "no_memory", "no memory to save the session's history");
    if (o->head.n - index_at > HIST_INDEX_MAX || o->bytes > HIST_FRAMES_MAX)
        return ck_fail(err, 500, "history_too_large", "the session's history is too large to be saved");
    struct ck_buf top = {.p = o->head.p, .room = HEAD_BYTES, .cap = HEAD_BYTES}; // over the zeroes; never grows
    return ck_buf_add(&top, MAGIC, 8) || put(&top, HIST_VERSION, 4) || put(&top, meta.n, 4) ||
                   put(&top, o->head.n - index_at, 8) || put(&top, o->bytes, 8)
               ? ck_fail(err, 500, "no_memory", "no memory to save the session's history")
               : 0;
}

int hist_seal(struct hist_image *o, struct ck_err *err)
{
    struct ck_slice *part = calloc(o->frames + 2, sizeof(struct ck_slice));
    if (!part)
        return ck_fail(err, 500, "no_memory", "no memory to save the session's history");
    part[0] = ck_slice(o->head.p, CHECK_AT);
    part[1] = ck_slice(o->head.p + HEAD_BYTES, o->head.n - HEAD_BYTES);
    for (size_t i = 0; i < o->frames; i++)
        part[i + 2] = ck_slice(o->frame[i]->p, o->frame[i]->n);
    int rc = ck_hmac_sha256(ck_slice_str(CHECK_KEY), part, o->frames + 2, o->head.p + CHECK_AT);
    free(part);
    return rc ? ck_fail(err, 500, "no_crypto", "could not compute the check of the session's history") : 0;
}

void hist_image_free(struct hist_image *o)
{
    for (size_t i = 0; i < o->frames; i++)
        ck_blob_unref(o->frame[i]);
    free(o->frame);
    ck_buf_free(&o->head);
    *o = (struct hist_image){.head = CK_BUF_INIT};
}

// ---- reading ----------------------------------------------------------------------------------

struct reader {
    struct ck_slice in, frames; // what is left of index and frames
    bool bad;
};

static uint64_t get(struct reader *r, unsigned bytes)
{
    uint64_t v = 0;
    if (r->bad || r->in.n < bytes) {
        r->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)r->in.p[i] << (8 * i);
    r->in = ck_slice(r->in.p + bytes, r->in.n - bytes);
    return v;
}

static uint64_t get_below(struct reader *r, unsigned bytes, uint64_t limit)
{
    uint64_t v = get(r, bytes);
    r->bad |= v >= limit;
    return r->bad ? 0 : v;
}

static void get_text(struct reader *r, char *out, size_t room)
{
    size_t n = (size_t)get_below(r, 2, room);
    if (r->in.n < n || memchr(r->in.p, 0, n))
        r->bad = true;
    if (r->bad)
        n = 0;
    if (n)
        memcpy(out, r->in.p, n);
    out[n] = 0;
    r->in = ck_slice(r->in.p + n, r->in.n - n);
}

// A copy of the next frame's bytes; NULL = they are no whole frame.
static struct ck_blob *get_frame(struct reader *r)
{
    size_t n = (size_t)get_below(r, 4, FRAME_MAX + 5ull), used = 0;
    struct ck_frame f;
    struct ck_blob *b = NULL;
    if (!r->bad && n && r->frames.n >= n && !ck_frame_parse(r->frames.p, n, FRAME_MAX, &f, &used, NULL) && used == n)
        b = ck_blob_new(n);
    if (!b) {
        r->bad = true;
        return NULL;
    }
    memcpy(b->p, r->frames.p, n);
    r->frames = ck_slice(r->frames.p + n, r->frames.n - n);
    return b;
}

static void get_kept(struct reader *r, struct evlog *l)
{
    char cell[CK_UUID_MAX], session[JW_ID_MAX];
    struct ev_tag tag = {.cell = cell, .session = session};
    tag.kind = (enum ev_kind)get_below(r, 1, EV_STATE + 1);
    tag.class = (enum ev_class)get_below(r, 1, EV_CLASSES);
    tag.channel = (enum jw_channel)get_below(r, 1, JW_CHANNELS);
    get_text(r, cell, sizeof cell);
    get_text(r, session, sizeof session);
    r->bad |= cell[0] && !ck_uuid_valid(cell);
    struct ck_blob *frame = r->bad ? NULL : get_frame(r);
    if (frame)
        evlog_append(l, &tag, frame);
}

static void get_log(struct reader *r, struct evlog *l)
{
    uint64_t first = get_below(r, 8, 1ull << 62), lead = get_below(r, 8, 1ull << 62);
    uint64_t n = get_below(r, 4, EVLOG_SLOTS_MAX + 1ull);
    if (r->bad || evlog_begin(l, first, lead)) {
        r->bad = true;
        return;
    }
    for (uint64_t i = 0; i < n && !r->bad; i++)
        if (get_below(r, 1, 2) == SLOT_KEPT)
            get_kept(r, l);
        else
            evlog_append_dropped(l, (size_t)get_below(r, 8, 1ull << 40));
}

static void get_consumers(struct reader *r, struct consumers *t)
{
    char name[JW_ID_MAX];
    struct cons_seen s = {.name = name};
    uint64_t n = get_below(r, 4, CONS_MAX + 1);
    for (uint64_t i = 0; i < n && !r->bad; i++) {
        get_text(r, name, CONS_NAME_MAX);
        s.acked = get_below(r, 8, 1ull << 62);
        s.used = get_below(r, 8, 1ull << 62);
        r->bad |= r->bad || !name[0] || cons_restore(t, &s);
    }
    n = get_below(r, 4, CONS_SESSIONS_MAX + 1);
    for (uint64_t i = 0; i < n && !r->bad; i++) {
        get_text(r, name, sizeof name);
        s.acked = get_below(r, 8, 1ull << 62);
        s.owner = (int)get_below(r, 2, CONS_MAX + 1) - 1;
        r->bad |= r->bad || cons_restore_session(t, &s);
    }
}

static void get_cell(struct reader *r, struct cellbook *k, const struct evlog *l)
{
    char id[CK_UUID_MAX];
    struct evlog_slot s = {.frame = NULL};
    get_text(r, id, sizeof id);
    enum cell_status status = (enum cell_status)get_below(r, 1, CELL_STATUSES);
    bool logged = get_below(r, 1, 2) == BOOK_LOGGED;
    r->bad |= !ck_uuid_valid(id);
    if (r->bad)
        return;
    struct ck_blob *frame = NULL;
    if (!logged) {
        frame = get_frame(r);
    } else if (evlog_slot(l, get(r, 8), &s) && s.frame && s.tag.kind == EV_CELL) {
        frame = ck_blob_ref(s.frame);
    } else {
        // The log was given a smaller cap than it was written with, and dropped it: so is the cell.
        return;
    }
    if (frame)
        cellbook_add(k, id, status, frame);
    ck_blob_unref(frame);
}

static int refuse(struct ck_err *err, const char *what)
{
    return ck_fail(err, 422, "bad_history",
                   "the saved history of this session %s; its memory and files may be whole: fork the session from its "
                   "layer, or delete it",
                   what);
}

// Sizes first, then the check, and only then the contents.
static int open_image(struct ck_slice in, struct ck_slice *meta, struct reader *r, struct ck_err *err)
{
    struct reader top = {.in = in};
    uint8_t check[CK_SHA256_LEN];
    if (in.n < HEAD_BYTES || memcmp(in.p, MAGIC, 8))
        return refuse(err, "is not one");
    top.in = ck_slice(in.p + 8, in.n - 8);
    if (get(&top, 4) != HIST_VERSION)
        return refuse(err, "was written by another version of cellkeep");
    uint64_t meta_n = get(&top, 4), index_n = get(&top, 8), frames_n = get(&top, 8), left = in.n - HEAD_BYTES;
    if (meta_n > HIST_META_MAX || index_n > HIST_INDEX_MAX || frames_n > HIST_FRAMES_MAX ||
        meta_n + index_n + frames_n != left)
        return refuse(err, "is cut short or too long");
    struct ck_slice part[2] = {ck_slice(in.p, CHECK_AT), ck_slice(in.p + HEAD_BYTES, left)};
    if (ck_hmac_sha256(ck_slice_str(CHECK_KEY), part, 2, check) ||
        !ck_equal_const_time(check, in.p + CHECK_AT, sizeof check))
        return refuse(err, "is damaged");
    *meta = ck_slice(in.p + HEAD_BYTES, (size_t)meta_n);
    r->in = ck_slice(meta->p + meta->n, (size_t)index_n);
    r->frames = ck_slice(r->in.p + r->in.n, (size_t)frames_n);
    r->bad = false;
    return 0;
}

int hist_decode(struct ck_slice bytes, const struct history *h, struct ck_slice *meta, struct ck_err *err)
{
    struct reader r;
    if (open_image(bytes, meta, &r, err))
        return -1;
    get_log(&r, h->log);
    if (!r.bad)
        get_consumers(&r, h->cons);
    uint64_t cells = get_below(&r, 4, CELLBOOK_MAX + 1);
    for (uint64_t i = 0; i < cells && !r.bad; i++)
        get_cell(&r, h->book, h->log);
    return r.bad || r.in.n || r.frames.n ? refuse(err, "contradicts itself") : 0;
}
