// What a booting guest says on its serial console (PROTOCOL.md section 4). Pure and bounded: the
// text is a guest's.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define CK_CONSOLE_LINE_MAX 256 // longer lines are cut
#define CK_CONSOLE_TAIL 4       // last lines kept for a diagnosis

enum ck_console_kind {
    CK_CONSOLE_OTHER, // kernel messages and the like
    CK_CONSOLE_HELLO,
    CK_CONSOLE_PROGRESS,
    CK_CONSOLE_READY,
    CK_CONSOLE_FAILED,
};

struct ck_console_line {
    enum ck_console_kind kind;
    int percent;      // of progress, 0..100
    const char *text; // printable ASCII, borrowed during the call
};
typedef void (*ck_console_fn)(const struct ck_console_line *line, void *user);

struct ck_console {
    char line[CK_CONSOLE_LINE_MAX];
    size_t n;
    char tail[CK_CONSOLE_TAIL][CK_CONSOLE_LINE_MAX]; // ring of the last non-empty lines
    unsigned lines;                                  // how many there were
};

// Feeds bytes; calls fn for every complete line. Anything that is not printable ASCII becomes '?'.
void ck_console_feed(struct ck_console *c, const void *p, size_t n, ck_console_fn fn, void *user);
// The last lines joined by " | " into out (always terminated).
void ck_console_tail(const struct ck_console *c, char *out, size_t room);
