// Output of commands in pieces: no character is cut, nothing beyond the cap is kept, all is counted.
#include "gateway/v1_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void take(struct v1_text *t, const char *piece, bool flush, const char *want)
{
    struct ck_buf b = CK_BUF_INIT;
    int rc = v1_text_take(t, ck_slice_str(piece), flush, &b);
    if (want) {
        assert_int_equal(rc, 1);
        assert_true(ck_slice_is(ck_buf_slice(&b), want));
    } else {
        assert_int_equal(rc, 0);
        assert_int_equal(b.n, 0);
    }
    ck_buf_free(&b);
}

static void test_a_character_in_two_pieces_comes_out_whole(void **state)
{
    (void)state;
    struct v1_text t;
    v1_text_init(&t, 100);
    take(&t, "a\xe2\x82", false, "\"a\"");
    take(&t, "\xac" "b", false, "\"\xe2\x82\xac" "b\"");
    take(&t, "\xf0", false, NULL);
    take(&t, "\x9f\x98", false, NULL);
    take(&t, "\x80", false, "\"\xf0\x9f\x98\x80\"");
    take(&t, "", true, NULL);
    assert_int_equal(t.kept.n, 9);
    v1_text_free(&t);
}

static void test_bytes_that_are_no_text_are_replaced_and_not_held_back(void **state)
{
    (void)state;
    struct v1_text t;
    v1_text_init(&t, 100);
    take(&t, "a\xff", false, "\"a\xef\xbf\xbd\"");
    take(&t, "\x80\x80\x80\x80", false, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    take(&t, "x\xe2\x82", false, "\"x\"");
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(v1_text_take(&t, ck_slice("", 0), true, &b), 1); // cut off for good
    assert_true(b.n > 2);
    ck_buf_free(&b);
    v1_text_free(&t);
}

static void test_what_is_over_the_cap_is_counted_but_still_streamed(void **state)
{
    (void)state;
    struct v1_text t;
    v1_text_init(&t, 4);
    take(&t, "abc", false, "\"abc\"");
    take(&t, "def", false, "\"def\"");
    assert_int_equal(t.kept.n, 4);
    assert_memory_equal(t.kept.p, "abcd", 4);
    assert_int_equal(t.dropped, 2);
    assert_int_equal(v1_text_take(&t, ck_slice_str("ghi"), false, NULL), 0);
    assert_int_equal(t.dropped, 5);
    v1_text_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_character_in_two_pieces_comes_out_whole),
        cmocka_unit_test(test_bytes_that_are_no_text_are_replaced_and_not_held_back),
        cmocka_unit_test(test_what_is_over_the_cap_is_counted_but_still_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
