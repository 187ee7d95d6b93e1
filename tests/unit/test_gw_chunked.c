// Chunked request bodies, whole and byte by byte.
#include "gateway/http_chunked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char body[4096];
static size_t body_n, consumed;

// 2 = complete, 0 = wants more, -1 = malformed; pieces of at most `step` bytes.
static int decode(const char *in, size_t n, size_t step)
{
    struct http_chunked c = {0};
    struct ck_err err = CK_ERR_INIT;
    body_n = consumed = 0;
    while (consumed < n) {
        size_t take = n - consumed < step ? n - consumed : step, used = 0;
        struct ck_slice piece;
        int rc = http_chunked_feed(&c, (const uint8_t *)in + consumed, take, &used, &piece, &err);
        consumed += used;
        memcpy(body + body_n, piece.p, piece.n);
        body_n += piece.n;
        if (rc == 2)
            return 2;
        if (rc < 0) {
            assert_int_equal(err.status, 400);
            return -1;
        }
    }
    return 0;
}

static void decodes(const char *in, int want, const char *want_body)
{
    for (size_t step = 1; step <= strlen(in); step++) {
        assert_int_equal(decode(in, strlen(in), step), want);
        if (want < 0)
            continue;
        assert_int_equal(body_n, strlen(want_body));
        assert_memory_equal(body, want_body, body_n);
    }
}

static void bodies_come_out_whole_whatever_the_pieces(void **state)
{
    (void)state;
    decodes("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", 2, "hello world");
    decodes("00A\r\n0123456789\r\n0\r\n\r\n", 2, "0123456789");
    decodes("0\r\n\r\n", 2, "");
    decodes("1;name=\"v\"\r\na\r\n0;x\r\nTrailer: 1\r\nOther: 2\r\n\r\n", 2, "a");
    decodes("5\r\nhel", 0, "hel");
    decodes("3\r\n\r\n\r\r\n0\r\n\r\n", 2, "\r\n\r");
}

static void the_end_is_exact(void **state)
{
    (void)state;
    const char *in = "1\r\na\r\n0\r\n\r\nGET / HTTP/1.1";
    assert_int_equal(decode(in, strlen(in), 100), 2);
    assert_int_equal(consumed, 11);
}

static void malformed_bodies_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"\r\n", "x\r\n", "-1\r\n", "+1\r\na\r\n", " 1\r\na\r\n", "1 \r\na\r\n", "0x1\r\na\r\n", "1\na\r\n",
                               "1\r\nab\r\n", "1\r\na\n0\r\n\r\n", "1\ra", ";x\r\n", "1111111111111111\r\n", "1;a\nb\r\na\r\n",
                               "0\r\nT: x\n\r\n", "0\r\n\rx"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        decodes(bad[i], -1, "");
}

static void endless_extensions_and_trailers_are_refused(void **state)
{
    (void)state;
    static char in[40000];
    size_t n = (size_t)sprintf(in, "0\r\n");
    while (n < sizeof in - 16)
        n += (size_t)sprintf(in + n, "T: 1234567\r\n");
    assert_int_equal(decode(in, n, sizeof in), -1);
    in[0] = '1';
    in[1] = ';';
    memset(in + 2, 'e', sizeof in - 2);
    assert_int_equal(decode(in, sizeof in, sizeof in), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_come_out_whole_whatever_the_pieces),
        cmocka_unit_test(the_end_is_exact),
        cmocka_unit_test(malformed_bodies_are_refused),
        cmocka_unit_test(endless_extensions_and_trailers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
