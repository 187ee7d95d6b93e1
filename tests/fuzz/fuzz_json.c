// The JSON validator against jansson on any bytes, and the object parser on the same.
#include "common/ck_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What the two may disagree about: jansson refuses lone escaped surrogates, numbers that do not
// fit and NUL in keys, and takes a NUL after the value for the end of the text (its token for "end" is 0).
static bool may_differ(bool ours, const char *text, const uint8_t *data, size_t size)
{
    if (ours)
        return strstr(text, "invalid Unicode") || strstr(text, "too big") || strstr(text, "overflow") ||
               strstr(text, "NUL byte");
    return size && memchr(data, 0, size);
}

static unsigned deepest(const uint8_t *p, size_t n)
{
    unsigned depth = 0, most = 0;
    for (size_t i = 0; i < n; i++) { // an upper bound: brackets in strings count too
        if (p[i] == '[' || p[i] == '{')
            most = ++depth > most ? depth : most;
        else if ((p[i] == ']' || p[i] == '}') && depth)
            depth--;
    }
    return most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = SIZE_MAX;
    bool ours = ck_json_valid(data, size, &at);
    if (!ours && at > size)
        abort();
    json_error_t je = {.text = ""};
    json_t *j = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
    if (ours != (j != NULL) && !may_differ(ours, je.text, data, size) && deepest(data, size) <= CK_JSON_DEPTH_MAX)
        abort();
    json_decref(j);
    struct ck_err err = CK_ERR_INIT;
    j = ck_json_parse_object(data, size, true, &err);
    if (j ? !ours && size : err.status != 400)
        abort();
    if (j) {
        struct ck_buf b = CK_BUF_INIT;
        if (ck_json_dump(j, &b) || !ck_json_valid(b.p, b.n, NULL))
            abort();
        ck_buf_free(&b);
    }
    json_decref(j);
    struct ck_buf b = CK_BUF_INIT;
    if (ck_buf_add_json_str(&b, (const char *)data, size) || !ck_json_valid(b.p, b.n, NULL))
        abort();
    ck_buf_free(&b);
    return 0;
}
