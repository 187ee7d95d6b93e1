// Fields of JSON text without a tree, against jansson and against malformed text.
#include "common/ck_json.h"
#include "kernel-bridge/jscan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "{ \"a\" : 1 , \"b\":[1,{\"a\":2},\"]\"], \"c\":\"x\\\"}\", \"d\":{\"e\":{\"f\":null}}, \"t\":true,\"n\":-12 }";

static void fields_are_found_at_the_top_level_only(void **state)
{
    (void)state;
    struct ck_slice v;
    static const struct {
        const char *key, *want;
    } rows[] = {{"a", "1"},          {"b", "[1,{\"a\":2},\"]\"]"},
                {"c", "\"x\\\"}\""}, {"d", "{\"e\":{\"f\":null}}"},
                {"t", "true"},       {"n", "-12"}};
    assert_true(ck_json_valid(text, strlen(text), NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(jscan_field(ck_slice_str(text), rows[i].key, &v));
        assert_true(ck_slice_is(v, rows[i].want));
    }
    assert_false(jscan_field(ck_slice_str(text), "f", &v));
    assert_false(jscan_field(ck_slice_str(text), "e", &v));
    assert_false(jscan_field(ck_slice_str("[\"a\"]"), "", &v));
    assert_false(jscan_field(ck_slice_str("1"), "a", &v));
    assert_false(jscan_field(ck_slice("", 0), "a", &v));
}

static void arrays_are_walked(void **state)
{
    (void)state;
    struct jscan it = jscan_open(ck_slice_str(" [ \"a\" , [2,3], {} ,null]"));
    struct ck_slice k, v;
    static const char *const want[] = {"\"a\"", "[2,3]", "{}", "null"};
    for (int i = 0; i < 4; i++) {
        assert_true(jscan_next(&it, &k, &v));
        assert_true(ck_slice_is(v, want[i]));
    }
    assert_false(jscan_next(&it, &k, &v));
}

static void strings_are_decoded(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(jscan_text(ck_slice_str("\"a\\n\\u00e9\\ud83d\\ude00\\ud800x\\/\\\"\\\\\""), &b), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "a\n\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBDx/\"\\"));
    ck_buf_free(&b);
    assert_int_equal(jscan_text(ck_slice_str("1"), &b), -1);
    assert_int_equal(jscan_text(ck_slice_str("\""), &b), -1);
    assert_int_equal(jscan_text(ck_slice_str("\"\\\""), &b), -1);
    ck_buf_free(&b);
    char out[4];
    assert_true(jscan_str(ck_slice_str("\"abc\""), out, sizeof out));
    assert_string_equal(out, "abc");
    assert_false(jscan_str(ck_slice_str("\"abcd\""), out, sizeof out)); // too long: nothing, never a part
    assert_string_equal(out, "");
    assert_false(jscan_str(ck_slice_str("\"a\\u0000\""), out, sizeof out));
}

static void numbers_are_read_when_they_are_whole(void **state)
{
    (void)state;
    int64_t n = 7;
    assert_true(jscan_int(ck_slice_str("-42"), &n));
    assert_int_equal(n, -42);
    static const char *const bad[] = {"", "-", "1.0", "1e3", "\"1\"", "1234567890123456789", "null"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(jscan_int(ck_slice_str(bad[i]), &n));
    assert_int_equal(n, -42);
}

static void malformed_text_ends_every_walk(void **state)
{
    (void)state;
    char part[sizeof text];
    for (size_t n = 0; n < sizeof text; n++)
        for (size_t flip = 0; flip <= n; flip++) { // every prefix, with every byte broken once
            memcpy(part, text, n);
            if (flip < n)
                part[flip] = "\"{}[]:,\\"[flip % 8];
            uint8_t *exact = malloc(n ? n : 1); // exact size: a sanitizer sees one byte too far
            memcpy(exact, part, n);
            struct jscan it = jscan_open(ck_slice(exact, n));
            struct ck_slice k, v;
            size_t steps = 0;
            while (jscan_next(&it, &k, &v))
                assert_true(++steps <= n);
            free(exact);
        }
}

static void many_escapes_do_not_take_quadratic_time(void **state)
{
    (void)state;
    size_t n = 8u << 20;
    char *big = malloc(n);
    for (size_t i = 0; i < n; i += 2)
        memcpy(big + i, "\\n", 2);
    memcpy(big, "{\"text\":\"ab", 11);
    big[11] = 'c';
    memcpy(big + n - 2, "\"}", 2);
    struct ck_slice v;
    struct ck_buf b = CK_BUF_INIT;
    assert_true(jscan_field(ck_slice(big, n), "text", &v)); // the test's time limit is the assertion
    assert_int_equal(jscan_text(v, &b), 0);
    assert_int_equal(b.n, 3 + (n - 14) / 2);
    ck_buf_free(&b);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_at_the_top_level_only),
        cmocka_unit_test(arrays_are_walked),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(numbers_are_read_when_they_are_whole),
        cmocka_unit_test(malformed_text_ends_every_walk),
        cmocka_unit_test(many_escapes_do_not_take_quadratic_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
