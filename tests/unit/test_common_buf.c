// Growable buffers: the cap holds, a refusal keeps the contents, strings become valid JSON.
#include "common/ck_buf.h"
#include "common/ck_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void grows_and_keeps_every_byte(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    for (unsigned i = 0; i < 10000; i++) {
        uint8_t c = (uint8_t)(i * 7);
        assert_int_equal(ck_buf_add(&b, &c, 1), 0);
    }
    assert_int_equal(b.n, 10000);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_equal(b.p[i], (uint8_t)(i * 7));
    ck_buf_free(&b);
    assert_null(b.p);
    assert_int_equal(b.n, 0);
    ck_buf_free(&b);
}

static void a_full_buffer_refuses_and_keeps_what_it_had(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    b.cap = 10;
    assert_int_equal(ck_buf_add_str(&b, "12345"), 0);
    assert_int_equal(ck_buf_add_str(&b, "123456"), -1);
    assert_true(ck_slice_is(ck_buf_slice(&b), "12345"));
    assert_int_equal(ck_buf_printf(&b, "%s", "abcdef"), -1);
    assert_true(ck_slice_is(ck_buf_slice(&b), "12345"));
    assert_int_equal(ck_buf_add_str(&b, "67890"), 0);
    assert_int_equal(ck_buf_add(&b, "x", 1), -1);
    assert_int_equal(ck_buf_add(&b, NULL, 0), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "1234567890"));
    assert_int_equal(ck_buf_reserve(&b, SIZE_MAX), -1);
    assert_int_equal(ck_buf_reserve(&b, SIZE_MAX / 2), -1);
    ck_buf_free(&b);
    assert_int_equal(b.cap, 10);
}

static void printf_may_fill_the_buffer_to_its_last_byte(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    b.cap = 5;
    assert_int_equal(ck_buf_printf(&b, "%s", "hello"), 0);
    assert_int_equal(b.n, 5);
    assert_int_equal(b.p[5], 0);
    assert_int_equal(ck_buf_printf(&b, "%s", ""), 0);
    assert_int_equal(ck_buf_printf(&b, "%s", "!"), -1);
    ck_buf_free(&b);
    struct ck_buf empty = CK_BUF_INIT;
    assert_int_equal(ck_buf_printf(&empty, "%s", ""), 0);
    assert_int_equal(empty.n, 0);
    ck_buf_free(&empty);
}

static void consume_drops_from_the_front(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    ck_buf_add_str(&b, "abcdef");
    ck_buf_consume(&b, 2);
    assert_true(ck_slice_is(ck_buf_slice(&b), "cdef"));
    ck_buf_consume(&b, 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "cdef"));
    ck_buf_consume(&b, 400);
    assert_int_equal(b.n, 0);
    ck_buf_add_str(&b, "z");
    assert_true(ck_slice_is(ck_buf_slice(&b), "z"));
    ck_buf_free(&b);
}

static void json_string_of(const char *in, size_t n, const char *want)
{
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(ck_buf_add_json_str(&b, in, n), 0);
    ck_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, want);
    ck_buf_free(&b);
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    json_string_of("", 0, "\"\"");
    json_string_of("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
    json_string_of("\n\r\t\b\0\x1f", 6, "\"\\n\\r\\t\\u0008\\u0000\\u001f\"");
    json_string_of("\xE2\x82\xAC", 3, "\"\xE2\x82\xAC\"");
    json_string_of("\x7f", 1, "\"\x7f\"");
    json_string_of("a\xff" "b", 3, "\"a\xEF\xBF\xBD" "b\"");
    json_string_of("\xE2\x82", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    json_string_of("\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""); // a surrogate in UTF-8
}

static void any_bytes_become_valid_json(void **state)
{
    (void)state;
    srand(20);
    for (int round = 0; round < 3000; round++) {
        char raw[64];
        size_t n = (size_t)(rand() % 64);
        for (size_t i = 0; i < n; i++)
            raw[i] = (char)(rand() % 4 ? rand() : "\"\\\n\xC3\xE2\xF0"[rand() % 6]);
        struct ck_buf b = CK_BUF_INIT;
        assert_int_equal(ck_buf_add_json_str(&b, raw, n), 0);
        assert_true(ck_json_valid(b.p, b.n, NULL));
        ck_buf_free(&b);
    }
}

static void a_json_string_over_the_cap_is_refused(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    b.cap = 8;
    assert_int_equal(ck_buf_add_json_str(&b, "1234567", 7), -1);
    assert_true(b.n <= 8);
    ck_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_keeps_every_byte),
        cmocka_unit_test(a_full_buffer_refuses_and_keeps_what_it_had),
        cmocka_unit_test(printf_may_fill_the_buffer_to_its_last_byte),
        cmocka_unit_test(consume_drops_from_the_front),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(any_bytes_become_valid_json),
        cmocka_unit_test(a_json_string_over_the_cap_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
