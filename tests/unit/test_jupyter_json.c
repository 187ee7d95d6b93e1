// The walk over one JSON object: raw values out, nothing built, safe on text cut off anywhere.
#include "gateway/jupyter_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void member_is(const char *object, const char *key, const char *want)
{
    struct ck_slice v = {NULL, 0};
    bool found = jup_json_member(ck_slice_str(object), key, &v);
    if (!want) {
        assert_false(found);
        return;
    }
    assert_true(found);
    assert_int_equal(v.n, strlen(want));
    assert_memory_equal(v.p, want, v.n);
}

static void values_come_out_verbatim(void **state)
{
    (void)state;
    const char *o = " {\"a\" : 18446744073709551616, \"b\":{\"x\":[1,{\"}\":2}]} ,\"c\":\"q\\\"}\",\"d\":1.50e+3,\"e\":null}";
    member_is(o, "a", "18446744073709551616");
    member_is(o, "b", "{\"x\":[1,{\"}\":2}]}");
    member_is(o, "c", "\"q\\\"}\"");
    member_is(o, "d", "1.50e+3");
    member_is(o, "e", "null");
    member_is(o, "x", NULL); // only the first level
    member_is("{}", "a", NULL);
    member_is("[1]", "a", NULL);
    member_is("", "a", NULL);
}

static void the_last_of_repeated_keys_counts(void **state)
{
    (void)state;
    member_is("{\"a\":1,\"a\":2}", "a", "2");
}

static void every_cut_is_survived_and_never_complete(void **state)
{
    (void)state;
    const char *o = "{\"header\":{\"msg_id\":\"a\\\\\",\"n\":[1,2,{}]},\"b\":-12.5,\"c\":\"\\u0041\"}";
    for (size_t n = 0; n < strlen(o); n++) {
        uint8_t *copy = malloc(n ? n : 1); // exactly n bytes, so that the sanitizer sees a step too far
        memcpy(copy, o, n);
        struct jup_json_iter it;
        struct ck_slice k, v;
        int rc;
        jup_json_begin(&it, ck_slice(copy, n));
        while ((rc = jup_json_next(&it, &k, &v)) == 1)
            ;
        assert_int_equal(rc, -1);
        assert_int_equal(jup_json_next(&it, &k, &v), -1);
        free(copy);
    }
}

static void a_cut_value_is_still_named(void **state)
{
    (void)state;
    struct jup_json_iter it;
    struct ck_slice k, v;
    jup_json_begin(&it, ck_slice_str("{\"a\":1,\"content\":{\"code\":\"xxxx"));
    assert_int_equal(jup_json_next(&it, &k, &v), 1);
    assert_int_equal(jup_json_next(&it, &k, &v), -1);
    assert_true(ck_slice_is(k, "content"));
    assert_true(ck_slice_is(v, "{\"code\":\"xxxx"));
}

static void texts_are_unquoted_and_bounded(void **state)
{
    (void)state;
    char out[6];
    assert_int_equal(jup_json_text(ck_slice_str("\"ab\""), out, sizeof out), 0);
    assert_string_equal(out, "ab");
    assert_int_equal(jup_json_text(ck_slice_str("\"\\u00e9\""), out, sizeof out), 0);
    assert_string_equal(out, "\xc3\xa9");
    assert_int_equal(jup_json_text(ck_slice_str("\"abcde\""), out, sizeof out), 0);
    assert_int_equal(jup_json_text(ck_slice_str("\"abcdef\""), out, sizeof out), -1);
    assert_string_equal(out, "");
    assert_int_equal(jup_json_text(ck_slice_str("\"a\\u0000\""), out, sizeof out), -1);
    assert_int_equal(jup_json_text(ck_slice_str("\"a\\n\""), out, sizeof out), -1);
    assert_int_equal(jup_json_text(ck_slice_str("12"), out, sizeof out), -1);
    assert_int_equal(jup_json_text(ck_slice_str(""), out, sizeof out), -1);
    assert_int_equal(jup_json_text(ck_slice_str("\""), out, sizeof out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_out_verbatim),
        cmocka_unit_test(the_last_of_repeated_keys_counts),
        cmocka_unit_test(every_cut_is_survived_and_never_complete),
        cmocka_unit_test(a_cut_value_is_still_named),
        cmocka_unit_test(texts_are_unquoted_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
