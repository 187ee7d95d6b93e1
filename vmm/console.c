// Lines of a booting guest's console. Must never grow with what the guest prints.
#include "vmm/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "cellkeep-agent: "

static struct ck_console_line parse(const char *text)
{
    struct ck_console_line l = {CK_CONSOLE_OTHER, 0, text};
    const char *at = strstr(text, PREFIX); // the kernel may have printed before it on the same line
    if (!at)
        return l;
    at += strlen(PREFIX);
    if (!strcmp(at, "hello")) {
        l.kind = CK_CONSOLE_HELLO;
    } else if (!strcmp(at, "template-ready")) {
        l.kind = CK_CONSOLE_READY;
    } else if (!strncmp(at, "failed", 6) && (at[6] == ' ' || !at[6])) {
        l.kind = CK_CONSOLE_FAILED;
        l.text = at[6] ? at + 7 : at + 6;
    } else if (!strncmp(at, "progress ", 9)) {
        char *end;
        long percent = strtol(at + 9, &end, 10);
        if (end == at + 9 || percent < 0 || percent > 100 || (*end && *end != ' '))
            return l;
        l.kind = CK_CONSOLE_PROGRESS;
        l.percent = (int)percent;
        l.text = *end ? end + 1 : end;
    }
    return l;
}

static void line_done(struct ck_console *c, ck_console_fn fn, void *user)
{
    while (c->n && c->line[c->n - 1] == ' ')
        c->n--;
    c->line[c->n] = 0;
    if (c->n) {
        memcpy(c->tail[c->lines++ % CK_CONSOLE_TAIL], c->line, c->n + 1);
        struct ck_console_line l = parse(c->line);
        fn(&l, user);
    }
    c->n = 0;
}

void ck_console_feed(struct ck_console *c, const void *p, size_t n, ck_console_fn fn, void *user)
{
    const unsigned char *s = p;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n')
            line_done(c, fn, user);
        else if (s[i] != '\r' && c->n < CK_CONSOLE_LINE_MAX - 1)
            c->line[c->n++] = s[i] >= 0x20 && s[i] < 0x7f ? (char)s[i] : s[i] == '\t' ? ' ' : '?';
    }
}

void ck_console_tail(const struct ck_console *c, char *out, size_t room)
{
    size_t n = 0;
    out[0] = 0;
    unsigned first = c->lines > CK_CONSOLE_TAIL ? c->lines - CK_CONSOLE_TAIL : 0;
    for (unsigned i = first; i < c->lines && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%s", i > first ? " | " : "", c->tail[i % CK_CONSOLE_TAIL]);
}
