// What `cellkeep run` shows of a cell: stream text, results and errors, with or without colours.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

// One event of a cell, {"type",...,"content":{...}} as in docs/API.md, to out and err_out. Events
// that a terminal has no use for show nothing. keep_ansi: leave colour sequences of tracebacks alone.
void cli_show_event(const char *type, const json_t *event, FILE *out, FILE *err_out, bool keep_ansi);

// Copies text without terminal escape sequences (CSI and OSC). Pure; dst has room for strlen + 1.
void cli_strip_ansi(const char *text, char *dst);
