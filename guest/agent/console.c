// The serial console. The host reads these lines while a template boots and when an accelerator is
// proved; afterwards nothing is written here, because each character costs an exit from the guest.
// Never prints keys, environments or anything a user typed.
#include "guest/agent/console.h"

#include "common/ck_fs.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int console = -1;

void ag_console_open(void)
{
    if (console < 0)
        console = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

int ag_console_fd(void) { return console; }

static void line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

__attribute__((format(printf, 1, 0))) static void line_v(const char *fmt, va_list ap)
{
    char text[400] = "cellkeep-agent: ";
    size_t head = strlen(text);
    if (vsnprintf(text + head, sizeof text - head - 1, fmt, ap) < 0 || console < 0)
        return;
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            text[i] = ' ';
    text[n++] = '\n';
    if (ck_write_all(console, text, n) < 0)
        return; // a console that is gone is no reason to stop serving
}

static void line(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_v(fmt, ap);
    va_end(ap);
}

void ag_console_hello(void) { line("hello"); }
void ag_console_progress(int percent, const char *text) { line("progress %d %s", percent, text); }
void ag_console_template_ready(void) { line("template-ready"); }
void ag_console_failed(const char *text) { line("failed %s", text); }

void ag_console_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_v(fmt, ap);
    va_end(ap);
}
