// The log is a ring of one machine word a number: a pointer to the record, or, once dropped, its
// size with the lowest bit set. So a reader finds its place by arithmetic, and dropping from the
// middle costs nothing. Must never let its bytes pass the cap by more than the newest event.
#include "kernel-bridge/evlog.h"

#include <stdlib.h>

#define RECORD_OVERHEAD 64 // heap headers of record and frame, and the slot

struct record {
    struct ck_blob *frame; // owned reference
    uint8_t kind, class, channel;
    bool large; // the log's `large`: belongs to no class for shrink()
    char cell[CK_UUID_MAX];
    char session[]; // NUL-terminated
};

struct evlog {
    uintptr_t *slot; // ring of `room` (a power of two)
    size_t room, count;
    uint64_t base; // number of the first slot
    size_t cap, bytes, kept;
    uint64_t lead_bytes;        // of everything dropped before base
    uint64_t hint[EV_CLASSES];  // no kept record of that class is older
    uint64_t large;             // number of the newest large event, while it is exempt; 0 = none
    size_t large_bytes;         // its share of bytes
    bool large_seen;            // by evlog_settle()
};

static uintptr_t *slot_at(const struct evlog *l, uint64_t seq) { return &l->slot[seq & (l->room - 1)]; }
static bool is_kept(uintptr_t s) { return !(s & 1); }
static uintptr_t dropped_slot(size_t bytes) { return (uintptr_t)bytes << 1 | 1; }
static size_t charge(const struct record *r)
{
    return r->frame->n + sizeof *r + strlen(r->session) + 1 + RECORD_OVERHEAD;
}

struct evlog *evlog_new(size_t cap)
{
    struct evlog *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->cap = cap;
    l->base = 1;
    l->room = 256;
    l->slot = calloc(l->room, sizeof *l->slot);
    if (!l->slot) {
        free(l);
        return NULL;
    }
    return l;
}

static void record_free(struct record *r)
{
    ck_blob_unref(r->frame);
    free(r);
}

void evlog_free(struct evlog *l)
{
    if (!l)
        return;
    for (uint64_t s = l->base; s < l->base + l->count; s++)
        if (is_kept(*slot_at(l, s)))
            record_free((struct record *)*slot_at(l, s));
    free(l->slot);
    free(l);
}

uint64_t evlog_next(const struct evlog *l) { return l->base + l->count; }
size_t evlog_bytes(const struct evlog *l) { return l->bytes; }

uint64_t evlog_first(const struct evlog *l)
{
    uint64_t s = l->base; // trim() keeps the first slot a kept one
    return s;
}

static void drop(struct evlog *l, uint64_t seq)
{
    struct record *r = (struct record *)*slot_at(l, seq);
    *slot_at(l, seq) = dropped_slot(r->frame->n);
    l->bytes -= charge(r);
    l->kept--;
    if (seq == l->large)
        l->large = l->large_bytes = 0;
    record_free(r);
}

static void trim(struct evlog *l)
{
    while (l->count && !is_kept(*slot_at(l, l->base))) {
        l->lead_bytes += *slot_at(l, l->base) >> 1;
        l->base++;
        l->count--;
    }
}

// The oldest kept record of a class that is not the newest event; 0 = none.
static uint64_t oldest(struct evlog *l, enum ev_class class)
{
    uint64_t newest = evlog_next(l) - 1;
    if (l->hint[class] < l->base)
        l->hint[class] = l->base;
    for (; l->hint[class] < newest; l->hint[class]++) {
        uintptr_t s = *slot_at(l, l->hint[class]);
        if (is_kept(s) && ((struct record *)s)->class == class && !((struct record *)s)->large)
            return l->hint[class];
    }
    return 0;
}

static void shrink(struct evlog *l)
{
    while (l->bytes - l->large_bytes > l->cap && l->kept > 1) {
        uint64_t victim = oldest(l, EV_STREAM);
        if (!victim)
            victim = oldest(l, EV_DISPLAY);
        if (!victim)
            victim = oldest(l, EV_OTHER);
        if (!victim)
            break;
        drop(l, victim);
    }
    while (l->count > EVLOG_SLOTS_MAX) {
        if (is_kept(*slot_at(l, l->base)))
            drop(l, l->base);
        trim(l);
    }
    trim(l);
}

// The exempt event becomes one of its class again.
static void end_exemption(struct evlog *l)
{
    if (!l->large)
        return;
    struct record *r = (struct record *)*slot_at(l, l->large);
    r->large = false;
    if (l->hint[r->class] > l->large)
        l->hint[r->class] = l->large;
    l->large = l->large_bytes = 0;
}

static void exempt(struct evlog *l, uint64_t seq, struct record *r)
{
    if (r->frame->n <= l->cap / 4)
        return;
    end_exemption(l);
    r->large = true;
    l->large = seq;
    l->large_bytes = charge(r);
    l->large_seen = false;
}

void evlog_settle(struct evlog *l)
{
    if (l->large && l->large_seen)
        end_exemption(l);
    l->large_seen = true;
    shrink(l);
}

void evlog_set_cap(struct evlog *l, size_t cap)
{
    l->cap = cap;
    shrink(l);
}

static int make_room(struct evlog *l)
{
    if (l->count < l->room)
        return 0;
    uintptr_t *bigger = calloc(l->room * 2, sizeof *bigger);
    if (!bigger)
        return -1;
    for (uint64_t s = l->base; s < l->base + l->count; s++)
        bigger[s & (l->room * 2 - 1)] = *slot_at(l, s);
    free(l->slot);
    l->slot = bigger;
    l->room *= 2;
    return 0;
}

static struct record *record_new(const struct ev_tag *tag, struct ck_blob *frame)
{
    size_t n = strlen(tag->session) + 1;
    struct record *r = frame ? malloc(sizeof *r + n) : NULL;
    if (!r)
        return NULL;
    r->frame = frame;
    r->kind = (uint8_t)tag->kind;
    r->class = (uint8_t)tag->class;
    r->channel = (uint8_t)tag->channel;
    r->large = false;
    size_t cell = strnlen(tag->cell, sizeof r->cell - 1);
    memcpy(r->cell, tag->cell, cell);
    r->cell[cell] = 0;
    memcpy(r->session, tag->session, n);
    return r;
}

// A place for the next number. No memory even for a word: the oldest makes way, numbers stay true.
static void ready_slot(struct evlog *l)
{
    if (!make_room(l))
        return;
    if (is_kept(*slot_at(l, l->base)))
        drop(l, l->base);
    l->lead_bytes += *slot_at(l, l->base) >> 1;
    l->base++;
    l->count--;
}

void evlog_append(struct evlog *l, const struct ev_tag *tag, struct ck_blob *frame)
{
    ready_slot(l);
    struct record *r = record_new(tag, frame);
    uint64_t seq = evlog_next(l);
    l->count++;
    if (r) {
        *slot_at(l, seq) = (uintptr_t)r;
        l->bytes += charge(r);
        l->kept++;
        exempt(l, seq, r);
    } else {
        *slot_at(l, seq) = dropped_slot(frame ? frame->n : 0);
        ck_blob_unref(frame);
    }
    shrink(l);
}

int evlog_slot(const struct evlog *l, uint64_t seq, struct evlog_slot *out)
{
    *out = (struct evlog_slot){.frame = NULL};
    if (seq < l->base || seq >= evlog_next(l))
        return 0;
    uintptr_t s = *slot_at(l, seq);
    if (!is_kept(s)) {
        out->dropped_bytes = s >> 1;
        return 1;
    }
    const struct record *r = (const struct record *)s;
    out->tag = (struct ev_tag){(enum ev_kind)r->kind, (enum ev_class)r->class, (enum jw_channel)r->channel, r->cell,
                               r->session};
    out->frame = r->frame;
    return 1;
}

uint64_t evlog_lead_bytes(const struct evlog *l) { return l->lead_bytes; }

int evlog_begin(struct evlog *l, uint64_t first, uint64_t lead_bytes)
{
    if (l->count || l->base != 1 || !first)
        return -1;
    l->base = first;
    l->lead_bytes = lead_bytes;
    return 0;
}

void evlog_append_dropped(struct evlog *l, size_t bytes)
{
    ready_slot(l);
    *slot_at(l, evlog_next(l)) = dropped_slot(bytes);
    l->count++;
    shrink(l);
}

static bool passes_msg(const struct ev_filter *f, const struct record *r)
{
    bool everyone = r->channel == JW_IOPUB;
    if (f->mode == EV_MODE_JUPYTER)
        return everyone || (f->owns && f->owns(f->consumer, r->session));
    if (f->mode == EV_MODE_SESSION)
        return !everyone && !strcmp(f->session, r->session);
    return everyone; // EV_MODE_ALL
}

static bool passes(const struct ev_filter *f, const struct record *r)
{
    switch (f->mode) {
    case EV_MODE_CELL: return r->cell[0] && !strcmp(r->cell, f->cell);
    case EV_MODE_STATE: return r->kind == EV_STATE;
    case EV_MODE_SESSION: return r->kind == EV_MSG && passes_msg(f, r);
    case EV_MODE_JUPYTER: return r->kind == EV_STATE || (r->kind == EV_MSG && passes_msg(f, r));
    case EV_MODE_ALL: return r->kind != EV_MSG || passes_msg(f, r);
    }
    return false;
}

static void gap_add(struct evlog_item *out, uint64_t from, uint64_t to, uint64_t bytes)
{
    if (!out->count)
        out->from = from;
    out->to = to;
    out->count += to - from + 1;
    out->bytes += bytes;
}

enum evlog_got evlog_read(const struct evlog *l, uint64_t from, const struct ev_filter *f, struct evlog_item *out)
{
    uint64_t end = evlog_next(l);
    bool gaps = f->mode != EV_MODE_STATE && f->mode != EV_MODE_SESSION;
    *out = (struct evlog_item){.next = end};
    if (from < 1)
        from = 1;
    if (from < l->base) {
        uint64_t all = l->base - 1, part = l->base - from;
        if (gaps)
            gap_add(out, from, l->base - 1,
                    part == all ? l->lead_bytes : (uint64_t)((double)l->lead_bytes * (double)part / (double)all));
        from = l->base;
    }
    for (uint64_t s = from; s < end; s++) {
        uintptr_t slot = *slot_at(l, s);
        if (!is_kept(slot)) {
            if (gaps)
                gap_add(out, s, s, slot >> 1);
            continue;
        }
        const struct record *r = (const struct record *)slot;
        if (!passes(f, r))
            continue;
        if (out->count) { // what is missing before it comes first
            out->next = s;
            return EVLOG_GAP;
        }
        out->next = s + 1;
        out->seq = s;
        out->kind = (enum ev_kind)r->kind;
        out->frame = r->frame;
        return EVLOG_EVENT;
    }
    return out->count ? EVLOG_GAP : EVLOG_END;
}
