// What a bridge knows of its session beside the VM, as bytes: the event log with its numbers and
// holes, the consumers with their positions and sessions, the finished cells, and a JSON object of
// the bridge's own. Written when a session is paused, read when it is resumed. Pure; one thread.
//
//   "ckhistry" | u32 version | u32 meta_n | u64 index_n | u64 frames_n | 32 bytes check
//   meta (JSON) | index | frames, one after the other                        (little-endian)
//
// check is an HMAC-SHA256 under a key of its own over everything else: it finds accidents, it proves
// nothing about who wrote the file. The index has what describes the frames; frames are the log's
// own encoded events, byte for byte.
#pragma once
#include "kernel-bridge/cellbook.h"
#include "kernel-bridge/consumers.h"
#include "kernel-bridge/evlog.h"

#define HIST_VERSION 1
#define HIST_META_MAX (1024 * 1024)
#define HIST_INDEX_MAX (512u * 1024 * 1024)
#define HIST_FRAMES_MAX (6ull << 30) // the largest log, its newest event, and the book of cells

// The parts are borrowed. For reading they must be fresh: nothing appended, nobody known.
struct history {
    struct evlog *log;
    struct consumers *cons;
    struct cellbook *book;
};

// What is to be written, in this order: head, then each frame. Frames are references, so that the
// loop is not held up by a copy of the log; another thread may write them while readers read the log.
struct hist_image {
    struct ck_buf head; // up to and including the index
    struct ck_blob **frame;
    size_t frames, room;
    uint64_t bytes; // of all frames
};

// meta: JSON object text. -1 with err: no memory, or over a bound. Free *out in every case.
int hist_encode(const struct history *h, struct ck_slice meta, struct hist_image *out, struct ck_err *err);
// Fills in the check, which needs one look at every frame: for another thread than the loop's.
int hist_seal(struct hist_image *image, struct ck_err *err);
void hist_image_free(struct hist_image *image);

// Fills the parts of h; *meta is a slice of the input. -1 with err: "bad_history", with what to do.
// Then the parts may hold some of it: throw them away.
int hist_decode(struct ck_slice bytes, const struct history *h, struct ck_slice *meta, struct ck_err *err);
