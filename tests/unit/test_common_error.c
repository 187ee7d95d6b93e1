// Error values: what a person and a JSON encoder may rely on, whatever the arguments were.
#include "common/ck_error.h"
#include "common/ck_utf8.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void fail_fills_and_returns_minus_one(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_fail(&e, 404, "no_such_session", "session %s does not exist", "abc"), -1);
    assert_int_equal(e.status, 404);
    assert_string_equal(e.reason, "no_such_session");
    assert_string_equal(e.text, "session abc does not exist");
}

static void null_error_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(ck_fail(NULL, 500, "x", "y"), -1);
    assert_int_equal(ck_wrap(NULL, "y"), -1);
    assert_int_equal(ck_fail_errno(NULL, ENOENT, 500, "x", "y"), -1);
}

static void wrap_puts_the_context_first(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    ck_fail(&e, 503, "no_template", "no file");
    assert_int_equal(ck_wrap(&e, "template %d", 7), -1);
    assert_string_equal(e.text, "template 7: no file");
    assert_string_equal(e.reason, "no_template");
    assert_int_equal(e.status, 503);
}

static void errno_text_is_appended(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    ck_fail_errno(&e, ENOENT, 500, "cannot_read", "cannot open %s", "/x");
    assert_string_equal(e.text, "cannot open /x: No such file or directory");
}

static void long_texts_are_cut_and_terminated(void **state)
{
    (void)state;
    char big[2000];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = 0;
    struct ck_err e = CK_ERR_INIT;
    ck_fail(&e, 500, big, "%s", big);
    assert_int_equal(strlen(e.text), CK_ERR_TEXT_MAX - 1);
    assert_int_equal(strlen(e.reason), CK_ERR_REASON_MAX - 1);
    ck_wrap(&e, "context");
    assert_int_equal(strlen(e.text), CK_ERR_TEXT_MAX - 1);
    assert_memory_equal(e.text, "context: aaa", 12);
    for (int i = 0; i < 200; i++)
        ck_wrap(&e, "again and again %d", i);
    assert_int_equal(strlen(e.text), CK_ERR_TEXT_MAX - 1);
    ck_wrap(&e, "%s", big); // a context that fills everything
    assert_int_equal(strlen(e.text), CK_ERR_TEXT_MAX - 1);
    ck_fail_errno(&e, EIO, 500, "r", "%s", big);
    assert_int_equal(strlen(e.text), CK_ERR_TEXT_MAX - 1);
}

static void a_cut_never_leaves_half_a_character(void **state)
{
    (void)state;
    static const char *const chars[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t c = 0; c < 3; c++)
        for (size_t shift = 0; shift < 4; shift++) {
            char big[2100] = "";
            memset(big, 'x', shift);
            for (int i = 0; i < 500; i++)
                strcat(big, chars[c]);
            struct ck_err e = CK_ERR_INIT;
            ck_fail(&e, 500, "r", "%s", big);
            assert_true(ck_utf8_valid(e.text, strlen(e.text), NULL));
            assert_true(strlen(e.text) >= CK_ERR_TEXT_MAX - 4);
            ck_wrap(&e, "w%zu", shift);
            assert_true(ck_utf8_valid(e.text, strlen(e.text), NULL));
            ck_fail_errno(&e, EIO, 500, "r", "%s", big);
            assert_true(ck_utf8_valid(e.text, strlen(e.text), NULL));
        }
}

static void bytes_of_a_hostile_name_become_one_printable_line(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    ck_fail(&e, 500, "r", "cannot open %s", "a\nb\x1b[2Jc\xff\xfe\x7f");
    assert_string_equal(e.text, "cannot open a?b?[2Jc???");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_and_returns_minus_one),
        cmocka_unit_test(null_error_is_accepted),
        cmocka_unit_test(wrap_puts_the_context_first),
        cmocka_unit_test(errno_text_is_appended),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
        cmocka_unit_test(a_cut_never_leaves_half_a_character),
        cmocka_unit_test(bytes_of_a_hostile_name_become_one_printable_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
