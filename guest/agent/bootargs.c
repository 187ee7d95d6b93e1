// Parses the kernel command line. Pure, and tolerant of everything that is not ours: the kernel's
// own words pass through here too.
#include "guest/agent/bootargs.h"

#include <string.h>

static const char key[] = "cellkeep.mode=";

static int set_mode(const char *v, size_t n, struct ag_bootargs *out, struct ck_err *err)
{
    static const struct {
        const char *name;
        enum ag_mode mode;
    } modes[] = {{"template", AG_MODE_TEMPLATE}, {"probe", AG_MODE_PROBE}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strlen(modes[i].name) == n && !memcmp(modes[i].name, v, n)) {
            out->mode = modes[i].mode;
            return 0;
        }
    return ck_fail(err, 400, "bad_mode", "unknown cellkeep.mode on the kernel command line (template or probe)");
}

int ag_bootargs_parse(const char *cmdline, size_t n, struct ag_bootargs *out, struct ck_err *err)
{
    *out = (struct ag_bootargs){.mode = AG_MODE_TEMPLATE};
    size_t i = 0;
    while (i < n) {
        size_t start = i;
        while (i < n && cmdline[i] != ' ' && cmdline[i] != '\n' && cmdline[i] != '\0')
            i++;
        size_t len = i - start, klen = sizeof key - 1;
        if (len >= klen && !memcmp(cmdline + start, key, klen) &&
            set_mode(cmdline + start + klen, len - klen, out, err) < 0)
            return -1;
        while (i < n && (cmdline[i] == ' ' || cmdline[i] == '\n' || cmdline[i] == '\0'))
            i++;
    }
    return 0;
}
