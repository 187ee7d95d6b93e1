// Base64 against RFC 4648's examples, wrapped as kernels wrap it, and everything that is none.
#include "common/ck_base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void decodes(const char *text, const char *want)
{
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(ck_base64_decode(text, strlen(text), &b), 0);
    assert_int_equal(b.n, strlen(want));
    assert_int_equal(ck_base64_length(text, strlen(text)), b.n);
    if (b.n)
        assert_memory_equal(b.p, want, b.n);
    ck_buf_free(&b);
}

static void test_the_examples_of_the_rfc(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct ck_buf b = CK_BUF_INIT;
        decodes(pairs[i][1], pairs[i][0]);
        assert_int_equal(ck_base64_add(&b, pairs[i][0], strlen(pairs[i][0])), 0);
        assert_int_equal(b.n, strlen(pairs[i][1]));
        if (b.n)
            assert_memory_equal(b.p, pairs[i][1], b.n);
        ck_buf_free(&b);
    }
}

static void test_line_breaks_are_skipped(void **state)
{
    (void)state;
    decodes("Zm9v\nYmFy\n", "foobar");
    decodes("Zm\r\n9vYg=\n=\n", "foob");
    decodes("\n", "");
}

static void test_everything_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"=", "==", "Z", "Zg", "Zg=", "Zg===", "====", "Zg==Zg==", "Zm9v Zm9v", " Zm9v", "Zm9v    ", "Zm9-",
                                      "----", "Zm9v----", "Zm9v\tZm9", "Z=g=", "\xc3\xa4xx"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ck_buf b = CK_BUF_INIT;
        ck_buf_add_str(&b, "kept");
        if (!ck_base64_decode(bad[i], strlen(bad[i]), &b))
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(b.n, 4);
        ck_buf_free(&b);
    }
}

static void test_any_length_goes_there_and_back(void **state)
{
    (void)state;
    uint8_t bytes[7000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t n = 0; n <= sizeof bytes; n += n < 10 ? 1 : 613) {
        struct ck_buf text = CK_BUF_INIT, back = CK_BUF_INIT;
        assert_int_equal(ck_base64_add(&text, bytes, n), 0);
        assert_int_equal(ck_base64_decode((const char *)text.p, text.n, &back), 0);
        assert_int_equal(back.n, n);
        if (n)
            assert_memory_equal(back.p, bytes, n);
        ck_buf_free(&text);
        ck_buf_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_examples_of_the_rfc),
        cmocka_unit_test(test_line_breaks_are_skipped),
        cmocka_unit_test(test_everything_else_is_refused),
        cmocka_unit_test(test_any_length_goes_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
