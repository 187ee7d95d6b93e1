// Prints events of a cell on the terminal. Stream text goes out as the program wrote it, as if it
// ran here; what describes it (tracebacks) loses its colours when nobody would see them.
#include "gateway/cli_show.h"

#include "common/ck_json.h"

#include <stdlib.h>
#include <string.h>

void cli_strip_ansi(const char *text, char *dst)
{
    while (*text) {
        if (text[0] != '\x1b') {
            *dst++ = *text++;
            continue;
        }
        text++;
        if (*text == '[') { // CSI: parameters, then one final byte @..~
            text++;
            while (*text && !(*text >= '@' && *text <= '~'))
                text++;
            text += *text != '\0';
        } else if (*text == ']') { // OSC: up to BEL or ST
            while (*text && *text != '\x07' && !(text[0] == '\x1b' && text[1] == '\\'))
                text++;
            text += *text == '\x07' ? 1 : *text ? 2 : 0;
        } else if (*text) {
            text++;
        }
    }
    *dst = '\0';
}

static void show_stream(const json_t *content, FILE *out, FILE *err_out)
{
    const json_t *text = json_object_get(content, "text");
    FILE *to = strcmp(ck_json_str(content, "name", "stdout", NULL), "stderr") ? out : err_out;
    if (json_string_length(text))
        fwrite(json_string_value(text), 1, json_string_length(text), to); // may hold NUL
    fflush(to);
}

static void show_data(const json_t *content, FILE *out)
{
    const json_t *text = json_object_get(json_object_get(content, "data"), "text/plain");
    if (!json_is_string(text))
        return;
    fwrite(json_string_value(text), 1, json_string_length(text), out);
    fputc('\n', out);
    fflush(out);
}

static void show_error(const json_t *content, FILE *err_out, bool keep_ansi)
{
    size_t i;
    json_t *line, *traceback = json_object_get(content, "traceback");
    json_array_foreach (traceback, i, line) {
        const char *text = json_string_value(line) ? json_string_value(line) : "";
        char *plain = keep_ansi ? NULL : malloc(strlen(text) + 1);
        if (plain)
            cli_strip_ansi(text, plain);
        fprintf(err_out, "%s\n", plain ? plain : text);
        free(plain);
    }
    if (!json_array_size(traceback))
        fprintf(err_out, "%s: %s\n", ck_json_str(content, "ename", "Error", NULL),
                ck_json_str(content, "evalue", "", NULL));
}

void cli_show_event(const char *type, const json_t *event, FILE *out, FILE *err_out, bool keep_ansi)
{
    const json_t *content = json_object_get(event, "content");
    if (!strcmp(type, "stream"))
        show_stream(content, out, err_out);
    else if (!strcmp(type, "result") || !strcmp(type, "display"))
        show_data(content, out);
    else if (!strcmp(type, "error"))
        show_error(content, err_out, keep_ansi);
    else if (!strcmp(type, "gap"))
        fprintf(err_out, "cellkeep: %lld bytes of output were too much for the session's log and are missing here\n",
                (long long)ck_json_int(event, "bytes", 0, NULL));
}
