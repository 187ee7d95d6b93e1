// The event log of one session: every event has a number, 1, 2, 3 …; the log keeps as many as its
// cap allows and can say exactly what it had to drop. Pure: no clock, no I/O. One thread.
//
// Over the cap the oldest `stream` output goes first, then the oldest displays, then the oldest of
// anything; the newest event always stays. The newest *large* one (over a quarter of the cap) does not
// count and stays too, so that a message near or over the cap is not dropped by the next small one
// before anybody could read it: until the next large one, or until evlog_settle() found it twice.
#pragma once
#include "common/ck_crypto.h"
#include "common/ck_frame.h"
#include "kernel-bridge/jwire.h"

#define EVLOG_SLOTS_MAX (512 * 1024) // numbers kept addressable; beyond, the oldest of anything goes

enum ev_kind { EV_MSG, EV_CELL_START, EV_INPUT, EV_ARTIFACT, EV_CELL, EV_STATE };
enum ev_class { EV_STREAM, EV_DISPLAY, EV_OTHER, EV_CLASSES };

struct ev_tag {
    enum ev_kind kind;
    enum ev_class class;
    enum jw_channel channel; // of EV_MSG
    const char *cell;        // "" when none
    const char *session;     // parent session of EV_MSG, "" when none
};

enum ev_mode { EV_MODE_JUPYTER, EV_MODE_ALL, EV_MODE_CELL, EV_MODE_STATE, EV_MODE_SESSION };
// EV_MODE_SESSION: shell, control and stdin messages of one session, nothing else (no gaps either).
struct ev_filter {
    enum ev_mode mode;
    const char *cell;                                     // EV_MODE_CELL
    const char *session;                                  // EV_MODE_SESSION
    bool (*owns)(const void *consumer, const char *session); // EV_MODE_JUPYTER; NULL = owns none
    const void *consumer;
};

struct evlog;
struct evlog *evlog_new(size_t cap); // NULL = no memory
void evlog_free(struct evlog *l);
void evlog_set_cap(struct evlog *l, size_t cap);

uint64_t evlog_next(const struct evlog *l);  // the number that the next append gets
uint64_t evlog_first(const struct evlog *l); // the oldest kept, or evlog_next when empty
size_t evlog_bytes(const struct evlog *l);
void evlog_settle(struct evlog *l); // from time to time: memory goes back

// Takes the reference of frame. NULL frame, or no memory: the number is used up and counts as
// dropped, so that readers learn of it.
void evlog_append(struct evlog *l, const struct ev_tag *tag, struct ck_blob *frame);

enum evlog_got { EVLOG_END, EVLOG_EVENT, EVLOG_GAP };
struct evlog_item {
    uint64_t next;               // where to read on
    uint64_t seq;                // EVLOG_EVENT
    enum ev_kind kind;
    const struct ck_blob *frame; // EVLOG_EVENT; valid until the next append: take a reference to keep
    uint64_t from, to, count, bytes; // EVLOG_GAP; bytes is an estimate when the reader starts inside it
};
// The next thing at or after `from` that the filter lets through.
enum evlog_got evlog_read(const struct evlog *l, uint64_t from, const struct ev_filter *f, struct evlog_item *out);

// For a log that outlives its process (history.h). `from` is evlog_first or the last *next.
// 1 = *out is that number's event or what is left of it, 0 = there is none any more.
struct evlog_slot {
    struct ev_tag tag;           // strings are the log's
    struct ck_blob *frame;       // NULL = dropped
    size_t dropped_bytes;
};
int evlog_slot(const struct evlog *l, uint64_t seq, struct evlog_slot *out);
uint64_t evlog_lead_bytes(const struct evlog *l); // of everything dropped before evlog_first
// Makes an empty log begin at `first`, as if all before it had been dropped. -1 = it is not empty, or
// first is 0.
int evlog_begin(struct evlog *l, uint64_t first, uint64_t lead_bytes);
void evlog_append_dropped(struct evlog *l, size_t bytes); // a number that is a hole from the start
