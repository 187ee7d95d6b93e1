// Patterns of folder names. By hand, since fnmatch() takes exponential time for some patterns, and both
// pattern and name come from strangers.
#include "common/ck_ignore.h"

#include <stdint.h>
#include <string.h>

static bool fits(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f || *s == '/')
            return false;
    return true;
}

int ck_ignore_check(const json_t *list, const char *key, struct ck_err *err)
{
    size_t i;
    json_t *v;
    if (!json_is_array(list) || json_array_size(list) > CK_IGNORE_MAX)
        return ck_fail(err, 400, "bad_field", "field \"%s\" must be a list of at most %d patterns for names of folders", key,
                       CK_IGNORE_MAX);
    json_array_foreach ((json_t *)(uintptr_t)list, i, v) {
        const char *s = json_string_value(v);
        size_t n = json_string_length(v);
        if (!s || !n || n > CK_IGNORE_LEN_MAX || strlen(s) != n || !fits(s))
            return ck_fail(err, 400, "bad_field",
                           "every pattern in \"%s\" must be a text of 1 to %d bytes without \"/\" or control characters", key,
                           CK_IGNORE_LEN_MAX);
    }
    return 0;
}

json_t *ck_ignore_split(const char *text)
{
    json_t *list = json_array();
    while (list && *text) {
        size_t n = strcspn(text, ",");
        if (json_array_append_new(list, json_stringn(text, n))) {
            json_decref(list);
            return NULL; // not UTF-8, or out of memory
        }
        text += n + (text[n] == ',');
    }
    return list;
}

bool ck_ignore_match(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; // the last `*`, and where what follows it was tried last
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
