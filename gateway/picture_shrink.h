// Makes pictures smaller, inside the guest, with the guest's own Pillow: one process for all pictures of a
// cell. Nothing of the host decodes them, and what comes back is checked as if a stranger had sent it.
// Loop thread only.
#pragma once
#include "gateway/picture.h"
#include "gateway/serve.h"

struct picture_shrink; // opaque
struct session;

// set is borrowed until done, which is called once, from the loop, within PICTURE_SHRINK_MS; afterwards what
// could be shrunk is. why: what kept the others whole, for people; valid during the call. NULL: no memory,
// and done is not called.
#define PICTURE_SHRINK_MS 30000
typedef void (*picture_shrink_done)(void *user, const char *why);
struct picture_shrink *picture_shrink_start(struct gateway *gw, struct session *s, struct pictures *set,
                                            picture_shrink_done done, void *user);
// Nobody waits any more: done is called with what there is, from inside. NULL is fine.
void picture_shrink_hurry(struct picture_shrink *k);
