// What untrusted files may say about themselves, and what a browser is told about them.
#include "gateway/v1_mime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void header_is(const char *claimed, const char *want)
{
    char out[V1_MIME_MAX];
    v1_mime_header(claimed, out);
    assert_string_equal(out, want);
}

static void test_a_claimed_type_passes_only_when_it_is_one(void **state)
{
    (void)state;
    header_is("image/png", "image/png");
    header_is("text/csv", "text/csv; charset=utf-8");
    header_is("text/html; charset=utf-7", "text/html; charset=utf-8");
    header_is("application/vnd.ms-excel", "application/vnd.ms-excel");
    header_is("image/png\r\nSet-Cookie: a=b", "application/octet-stream");
    header_is("image/", "application/octet-stream");
    header_is("/png", "application/octet-stream");
    header_is("", "application/octet-stream");
    header_is(NULL, "application/octet-stream");
    char longest[600] = "image/";
    memset(longest + 6, 'x', 500);
    header_is(longest, "application/octet-stream");
}

static void test_what_can_run_is_never_shown_in_place(void **state)
{
    (void)state;
    static const char *const active[] = {
        "text/html; charset=utf-8", "image/svg+xml",          "application/xhtml+xml", "text/xml; charset=utf-8",
        "application/xml",          "application/javascript", "text/javascript",       "application/pdf",
        "application/octet-stream", "application/jsonp",      "image/pngx",            "text/x-component",
    };
    for (size_t i = 0; i < sizeof active / sizeof *active; i++)
        assert_false(v1_mime_inert(active[i]));
    assert_true(v1_mime_inert("image/png"));
    assert_true(v1_mime_inert("text/plain; charset=utf-8"));
    assert_true(v1_mime_inert("application/json"));
    assert_true(v1_mime_inert("audio/wav"));
}

static void disposition_is(bool attachment, const char *name, const char *want)
{
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(v1_disposition(attachment, name, &b), 0);
    assert_int_equal(ck_buf_add(&b, "", 1), 0);
    assert_string_equal((const char *)b.p, want);
    ck_buf_free(&b);
}

static void test_file_names_of_any_script_reach_the_browser_whole(void **state)
{
    (void)state;
    disposition_is(true, "a.csv", "attachment; filename=\"a.csv\"");
    disposition_is(false, "na\xc3\xafve.png", "inline; filename=\"na_ve.png\"; filename*=UTF-8''na%C3%AFve.png");
    disposition_is(true, "\xe5\x9b\xbe.png", "attachment; filename=\"_.png\"; filename*=UTF-8''%E5%9B%BE.png");
    disposition_is(true, "a\"b\\c%.txt", "attachment; filename=\"a_b_c_.txt\"; filename*=UTF-8''a%22b%5Cc%25.txt");
    disposition_is(true, "a\r\nX: y", "attachment; filename=\"a__X: y\"; filename*=UTF-8''a%0D%0AX%3A%20y");
}

static void test_an_entity_tag_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    char out[16];
    assert_true(v1_etag_clean("1a-2b:3", out, sizeof out));
    assert_string_equal(out, "1a-2b:3");
    assert_false(v1_etag_clean("a\"b", out, sizeof out));
    assert_string_equal(out, "");
    assert_false(v1_etag_clean("a\r\n", out, sizeof out));
    assert_false(v1_etag_clean("0123456789abcdef", out, sizeof out));
    assert_false(v1_etag_clean("", out, sizeof out));
    assert_false(v1_etag_clean(NULL, out, sizeof out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_claimed_type_passes_only_when_it_is_one),
        cmocka_unit_test(test_what_can_run_is_never_shown_in_place),
        cmocka_unit_test(test_file_names_of_any_script_reach_the_browser_whole),
        cmocka_unit_test(test_an_entity_tag_is_taken_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
