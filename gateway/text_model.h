// Text for language models: without the control sequences of terminals, and not longer than wanted.
// Pure.
#pragma once
#include "common/ck_buf.h"

// Removes ANSI escape sequences (CSI, OSC and other string sequences, two-byte escapes) from n bytes at
// p, in place, and what a bare carriage return wrote over on its line, as a terminal would (progress
// bars). Returns how many bytes are left. UTF-8 stays UTF-8.
size_t text_plain(char *p, size_t n);

// Appends at most about `max` bytes of p: the head and the tail, with a line in between that says how
// many bytes are left out; cut between characters. max 0 = no limit. Returns the number of bytes that
// were left out, or -1 when memory is out.
int64_t text_cut_middle(const char *p, size_t n, size_t max, struct ck_buf *out);
