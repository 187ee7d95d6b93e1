// File names between bytes and JSON.
#include "common/ck_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void names_that_are_not_utf8_are_shown_and_flagged(void **state)
{
    (void)state;
    json_t *o = json_object();
    assert_int_equal(ck_name_set(o, "name", "gr\xC3\xBC\xC3\x9F"), 0);
    assert_string_equal(json_string_value(json_object_get(o, "name")), "gr\xC3\xBC\xC3\x9F");
    assert_null(json_object_get(o, "name_raw_hex"));
    assert_int_equal(ck_name_set(o, "name", "a\xFF" "b"), 0);
    assert_string_equal(json_string_value(json_object_get(o, "name")), "a\xEF\xBF\xBD" "b");
    assert_string_equal(json_string_value(json_object_get(o, "name_raw_hex")), "61ff62");
    json_decref(o);
}

static void what_was_set_is_got_byte_for_byte(void **state)
{
    (void)state;
    static const char *const names[] = {"", "/a b/c", "gr\xC3\xBC\xC3\x9F", "\xff", "/x/\xed\xa0\x80/\x80", "a\n\x01"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char out[CK_NAME_MAX];
        json_t *o = json_object();
        assert_int_equal(ck_name_set(o, "path", names[i]), 0);
        assert_int_equal(ck_name_get(o, "path", out, NULL), 0);
        assert_string_equal(out, names[i]);
        json_decref(o);
    }
}

static void refused(const char *json)
{
    char out[CK_NAME_MAX];
    struct ck_err err = CK_ERR_INIT;
    json_t *o = json_loads(json, JSON_ALLOW_NUL, NULL);
    assert_non_null(o);
    assert_int_equal(ck_name_get(o, "path", out, &err), -1);
    assert_int_equal(err.status, 400);
    assert_non_null(strstr(err.text, "path"));
    json_decref(o);
}

static void what_is_no_name_is_refused(void **state)
{
    (void)state;
    char large[9000];
    refused("{}");
    refused("{\"path\":7}");
    refused("{\"path\":\"a\\u0000b\"}");
    refused("{\"path\":\"a\",\"path_raw_hex\":\"6\"}");
    refused("{\"path\":\"a\",\"path_raw_hex\":\"zz\"}");
    refused("{\"path\":\"a\",\"path_raw_hex\":\"610062\"}");
    refused("{\"path\":\"a\",\"path_raw_hex\":7}");
    snprintf(large, sizeof large, "{\"path\":\"%04096d\"}", 0);
    refused(large);
    snprintf(large, sizeof large, "{\"path_raw_hex\":\"%08192d\"}", 0);
    refused(large);
    memset(large, 'x', 4096);
    large[4096] = '\0';
    json_t *o = json_object();
    assert_int_equal(ck_name_set(o, "path", large), -1);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_not_utf8_are_shown_and_flagged),
        cmocka_unit_test(what_was_set_is_got_byte_for_byte),
        cmocka_unit_test(what_is_no_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
