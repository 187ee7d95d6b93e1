// What one cell has put out so far, within a budget of bytes: the two text streams (head and tail are
// kept when the middle has to go), displays by id, result and error. Pure; one thread.
// Contents are raw JSON text that jw_check accepted; displays stay text and are spliced, not parsed.
#pragma once
#include "common/ck_buf.h"

#include <stdint.h>

#define COUT_DISPLAYS_MAX 1000
#define COUT_DISPLAY_ID_MAX 128
#define COUT_ERROR_TEXT_MAX (64 * 1024) // of ename, evalue and a line of the traceback each, without marks
#define COUT_ERROR_MAX (256 * 1024)     // of the lines together

struct cout_text {
    struct ck_buf head;
    uint8_t *ring; // the newest bytes once the head is closed; NULL before
    size_t ring_room, ring_at, ring_n; // ring_at: where the oldest byte is
    uint64_t dropped;
};

struct cout_display {
    char id[COUT_DISPLAY_ID_MAX]; // "" = none
    bool is_result;
    struct ck_buf data, metadata;
};

struct cout {
    size_t budget, used;
    struct cout_text text[2]; // 0 stdout, 1 stderr
    struct cout_display *display; // the result is one of them
    size_t displays, room;
    int64_t execution_count; // -1 = unknown
    bool has_error, replied; // replied: the error, if any, is the reply's
    struct ck_buf ename, evalue, traceback; // plain texts; traceback: raw JSON array
    uint64_t error_bytes_dropped; // of these three
    bool clear_at_next; // clear_output(wait=True)
    uint64_t displays_dropped, display_bytes_dropped;
};

void cout_init(struct cout *c, size_t budget);
void cout_free(struct cout *c); // half-built and zeroed ones too
void cout_stream(struct cout *c, bool is_stderr, struct ck_slice text); // decoded text
void cout_message(struct cout *c, const char *msg_type, struct ck_slice content); // any iopub message
// The end of its code as the kernel tells it: execute_reply. That alone says whether it failed; an
// `error` that was only shown (by code that goes on, or by code that lies) becomes text on stderr.
void cout_reply(struct cout *c, bool failed, struct ck_slice content);
void cout_dropped(struct cout *c, const char *msg_type, uint64_t bytes); // an iopub message over the cap

// Appends the text of a stream; the place of what was left out is marked. Whole characters only.
int cout_text_get(const struct cout_text *t, struct ck_buf *out, uint64_t *dropped);
