// Range, entity tags and dates as RFC 9110 has them, and as broken clients have them.
#include "gateway/v1_range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void part(const char *header, uint64_t size, uint64_t first, uint64_t length)
{
    struct v1_range r = v1_range_parse(header, size);
    assert_int_equal(r.kind, V1_RANGE_PART);
    assert_int_equal(r.first, first);
    assert_int_equal(r.length, length);
}

static void whole(const char *header, uint64_t size)
{
    struct v1_range r = v1_range_parse(header, size);
    assert_int_equal(r.kind, V1_RANGE_WHOLE);
    assert_int_equal(r.length, size);
}

static void test_ranges_that_can_be_served(void **state)
{
    (void)state;
    part("bytes=0-0", 10, 0, 1);
    part("bytes=2-5", 10, 2, 4);
    part("bytes=2-", 10, 2, 8);
    part("bytes=2-99", 10, 2, 8);
    part("bytes=-3", 10, 7, 3);
    part("bytes=-99", 10, 0, 10);
    part("BYTES = 1-1", 10, 1, 1);
    part("bytes=9-18446744073709551615", 10, 9, 1);
    part("bytes=9-99999999999999999999999", 10, 9, 1);
}

static void test_ranges_behind_the_end_are_unsatisfiable(void **state)
{
    (void)state;
    assert_int_equal(v1_range_parse("bytes=10-", 10).kind, V1_RANGE_UNSATISFIABLE);
    assert_int_equal(v1_range_parse("bytes=99999999999999999999-", 10).kind, V1_RANGE_UNSATISFIABLE);
    assert_int_equal(v1_range_parse("bytes=-0", 10).kind, V1_RANGE_UNSATISFIABLE);
    assert_int_equal(v1_range_parse("bytes=0-", 0).kind, V1_RANGE_UNSATISFIABLE);
    assert_int_equal(v1_range_parse("bytes=-1", 0).kind, V1_RANGE_UNSATISFIABLE);
}

static void test_ranges_that_are_none_are_ignored(void **state)
{
    (void)state;
    whole(NULL, 10);
    whole("", 10);
    whole("bytes", 10);
    whole("bytes=", 10);
    whole("bytes=-", 10);
    whole("bytes=5-2", 10);
    whole("bytes=a-b", 10);
    whole("bytes=1-2,4-5", 10); // several: allowed to be answered whole
    whole("lines=1-2", 10);
    whole("bytes=1-2x", 10);
}

static void test_entity_tags_in_lists(void **state)
{
    (void)state;
    assert_true(v1_etag_listed("\"abc\"", "abc", false));
    assert_true(v1_etag_listed("\"x\", \"abc\"", "abc", false));
    assert_true(v1_etag_listed(" * ", "abc", false));
    assert_true(v1_etag_listed("W/\"abc\"", "abc", true));
    assert_false(v1_etag_listed("W/\"abc\"", "abc", false));
    assert_false(v1_etag_listed("abc", "abc", true));
    assert_false(v1_etag_listed("\"ab\"", "abc", true));
    assert_false(v1_etag_listed("\"abc", "abc", true));
    assert_false(v1_etag_listed("", "abc", true));
    assert_false(v1_etag_listed(NULL, "abc", true));
}

static void test_dates_go_both_ways(void **state)
{
    (void)state;
    char text[V1_HTTP_DATE_MAX];
    v1_http_date(1795961277, text);
    assert_string_equal(text, "Sun, 29 Nov 2026 14:07:57 GMT");
    assert_int_equal(v1_http_date_parse(text), 1795961277);
    assert_int_equal(v1_http_date_parse("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
    assert_int_equal(v1_http_date_parse("Fri, 31 Dec 9999 23:59:60 GMT"), 253402300800);
    static const char *const none[] = {
        "yesterday",
        "",
        "Sun, 29 Nov 2026 14:07:57 GMT ",
        "Sun, 29 Nov 2026 14:07:57 GMx",
        "Sun, 29 Nov 2026 14:07:57",
        "Sun, -9 Nov 2026 14:07:57 GMT",
        "Sun, 29 Nov 2026 24:07:57 GMT",
        "Sun, 29 Nov 2026 14:60:57 GMT",
        "Sun, 29 Nov 2026 14:07:61 GMT",
        "Sun, 00 Nov 2026 14:07:57 GMT",
        "Sun, 32 Nov 2026 14:07:57 GMT",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "Sunday, 29-Nov-26 14:07:57 GMT",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(v1_http_date_parse(none[i]), -1);
    assert_int_equal(v1_http_date_parse("Sun, 29 Nox 2026 14:07:57 GMT"), -1);
    assert_int_equal(v1_http_date_parse(NULL), -1);
    v1_http_date(INT64_MAX, text); // a file of a guest may claim any time
    assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    v1_http_date(INT64_MIN, text);
    assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_that_can_be_served),
        cmocka_unit_test(test_ranges_behind_the_end_are_unsatisfiable),
        cmocka_unit_test(test_ranges_that_are_none_are_ignored),
        cmocka_unit_test(test_entity_tags_in_lists),
        cmocka_unit_test(test_dates_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
