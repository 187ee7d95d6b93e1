// One-line reports on the serial console, PROTOCOL.md section 4. Main thread only.
#pragma once

// Opens /dev/console for the lines below; before that, and when it cannot be opened, they are dropped.
void ag_console_open(void);
int ag_console_fd(void); // -1 when closed; stays the console's own

void ag_console_hello(void);
void ag_console_progress(int percent, const char *text); // text is cleaned of control characters
void ag_console_template_ready(void);
void ag_console_failed(const char *text);
void ag_console_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // for the boot log
