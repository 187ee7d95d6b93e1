// File names between bytes and JSON; used by agent, bridge and gateway alike, so that they agree.
#include "common/ck_name.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "common/ck_utf8.h"

#include <stdio.h>
#include <string.h>

// Not ck_buf_add_json_str: a jansson string is wanted, not a literal.
static void to_utf8(const char *name, size_t n, char *out)
{
    const uint8_t *p = (const uint8_t *)name;
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t len = ck_utf8_char(p + i, n - i);
        if (len) {
            memcpy(out + at, p + i, len);
            at += len;
            i += len;
        } else {
            memcpy(out + at, "\xEF\xBF\xBD", 3);
            at += 3;
            i++;
        }
    }
    out[at] = 0;
}

static void raw_key(const char *field, char out[64]) { snprintf(out, 64, "%.40s_raw_hex", field); }

int ck_name_set(json_t *o, const char *field, const char *name)
{
    char text[3 * CK_NAME_MAX + 1], hex[2 * CK_NAME_MAX + 1], key[64];
    size_t n = strlen(name);
    if (n >= CK_NAME_MAX)
        return -1;
    if (ck_utf8_valid(name, n, NULL))
        return json_object_set_new(o, field, json_string(name));
    to_utf8(name, n, text);
    ck_hex((const uint8_t *)name, n, hex);
    raw_key(field, key);
    return json_object_set_new(o, field, json_string(text)) < 0 || json_object_set_new(o, key, json_string(hex)) < 0
               ? -1
               : 0;
}

int ck_name_get(const json_t *o, const char *field, char *out, struct ck_err *err)
{
    char key[64];
    struct ck_err e = CK_ERR_INIT;
    raw_key(field, key);
    const char *hex = ck_json_str(o, key, NULL, &e), *text = hex ? NULL : ck_json_str(o, field, NULL, &e);
    size_t n = hex ? strlen(hex) / 2 : text ? strlen(text) : 0;
    if (e.status) {
        if (err)
            *err = e;
        return -1;
    }
    if (!hex && !text)
        return ck_fail(err, 400, "bad_field", "field \"%s\" is missing", field);
    if (n >= CK_NAME_MAX)
        return ck_fail(err, 400, "bad_field", "field \"%s\" must be shorter than %d bytes", field, CK_NAME_MAX);
    if (text)
        memcpy(out, text, n);
    else if (ck_unhex(hex, strlen(hex), (uint8_t *)out) || memchr(out, 0, n))
        return ck_fail(err, 400, "bad_field", "field \"%s\" must be hexadecimal digits, without 00", key);
    out[n] = 0;
    return 0;
}
