// The frame codec: round trips, every truncation, numbers that lie, references.
#include "common/ck_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void le32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void what_is_encoded_is_parsed_back(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 2000; round++) {
        struct ck_slice parts[8];
        uint8_t data[8][40];
        uint32_t n = (uint32_t)(rand() % 9);
        for (uint32_t i = 0; i < n; i++) {
            size_t len = (size_t)(rand() % 40);
            for (size_t k = 0; k < len; k++)
                data[i][k] = (uint8_t)rand();
            parts[i] = ck_slice(data[i], len);
        }
        struct ck_blob *b = ck_frame_encode(ck_slice_str("{\"op\":\"x\"}"), parts, n);
        assert_non_null(b);
        struct ck_frame f;
        size_t used = 0;
        assert_int_equal(ck_frame_parse(b->p, b->n, CK_FRAME_BODY_MAX, &f, &used, NULL), 0);
        assert_int_equal(used, b->n);
        assert_int_equal(f.nparts, n + 1);
        assert_true(ck_slice_is(ck_frame_part(&f, 0), "{\"op\":\"x\"}"));
        for (uint32_t i = 0; i < n; i++) {
            struct ck_slice s = ck_frame_part(&f, i + 1);
            assert_int_equal(s.n, parts[i].n);
            if (s.n)
                assert_memory_equal(s.p, parts[i].p, s.n);
        }
        ck_blob_unref(b);
    }
}

static void every_truncation_asks_for_more(void **state)
{
    (void)state;
    struct ck_slice parts[] = {ck_slice_str("hello"), ck_slice("", 0), ck_slice_str("world!")};
    struct ck_blob *b = ck_frame_encode(ck_slice_str("{}"), parts, 3);
    for (size_t len = 0; len < b->n; len++) {
        uint8_t *exact = malloc(len ? len : 1);
        memcpy(exact, b->p, len);
        struct ck_frame f;
        size_t used = 99;
        assert_int_equal(ck_frame_parse(exact, len, CK_FRAME_BODY_MAX, &f, &used, NULL), 1);
        assert_int_equal(used, len < 4 ? 0 : b->n - len);
        free(exact);
    }
    ck_blob_unref(b);
}

static void two_frames_in_a_row_are_taken_one_by_one(void **state)
{
    (void)state;
    struct ck_blob *a = ck_frame_encode(ck_slice_str("{\"n\":1}"), NULL, 0);
    struct ck_blob *b = ck_frame_encode(ck_slice_str("{\"n\":22}"), NULL, 0);
    uint8_t both[200];
    memcpy(both, a->p, a->n);
    memcpy(both + a->n, b->p, b->n);
    struct ck_frame f;
    size_t used;
    assert_int_equal(ck_frame_parse(both, a->n + b->n, CK_FRAME_BODY_MAX, &f, &used, NULL), 0);
    assert_int_equal(used, a->n);
    assert_int_equal(ck_frame_parse(both + used, b->n, CK_FRAME_BODY_MAX, &f, &used, NULL), 0);
    assert_true(ck_slice_is(ck_frame_part(&f, 0), "{\"n\":22}"));
    ck_blob_unref(a);
    ck_blob_unref(b);
}

static int parse_numbers(const uint32_t *v, size_t n, struct ck_err *e)
{
    uint8_t *raw = malloc(4 * n);
    for (size_t i = 0; i < n; i++)
        le32(raw + 4 * i, v[i]);
    struct ck_frame f;
    size_t used;
    int rc = ck_frame_parse(raw, 4 * n, 1 << 20, &f, &used, e);
    free(raw);
    return rc;
}

static void numbers_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t v[5];
        size_t n;
        const char *reason;
    } cases[] = {
        {{7, 0}, 2, "bad_frame"},                     // no room for a header
        {{0}, 1, "bad_frame"},
        {{8, 0}, 2, "bad_frame"},                     // no parts
        {{8, 2, 0}, 3, "bad_frame"},                  // two lengths cannot fit
        {{1 << 20, CK_FRAME_PARTS_MAX + 1}, 2, "bad_frame"},
        {{1 << 20, 0xFFFFFFFF}, 2, "bad_frame"},      // refused before its bytes arrive
        {{1 << 20, 0x40000000}, 2, "bad_frame"},      // 4 * count wraps in 32 bits
        {{0xFFFFFFFF, 1}, 2, "frame_too_large"},
        {{(1 << 20) + 1, 1}, 2, "frame_too_large"},
        {{12, 1, 5, 0}, 4, "bad_frame"},              // part longer than the body
        {{12, 1, 3, 0}, 4, "bad_frame"},              // part shorter than the body
        {{16, 2, 0xFFFFFFFF, 5, 0}, 5, "bad_frame"},  // the sum wraps in 32 bits
        {{16, 2, 4, 0xFFFFFFFC, 0}, 5, "bad_frame"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ck_err e = CK_ERR_INIT;
        if (parse_numbers(cases[i].v, cases[i].n, &e) != -1)
            fail_msg("case %zu was not refused", i);
        assert_string_equal(e.reason, cases[i].reason);
    }
}

static void a_header_over_its_cap_is_refused_both_ways(void **state)
{
    (void)state;
    size_t n = CK_FRAME_HEADER_MAX + 1;
    uint8_t *raw = calloc(1, n + 12);
    le32(raw, (uint32_t)n + 8);
    le32(raw + 4, 1);
    le32(raw + 8, (uint32_t)n);
    struct ck_frame f;
    size_t used;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_frame_parse(raw, n + 12, CK_FRAME_BODY_MAX, &f, &used, &e), -1);
    assert_string_equal(e.reason, "bad_frame");
    assert_null(ck_frame_encode(ck_slice(raw, n), NULL, 0));
    struct ck_blob *b = ck_frame_encode(ck_slice(raw, n - 1), NULL, 0);
    assert_non_null(b);
    assert_int_equal(ck_frame_parse(b->p, b->n, CK_FRAME_BODY_MAX, &f, &used, &e), 0);
    ck_blob_unref(b);
    free(raw);
}

static void encode_refuses_what_a_reader_would_refuse(void **state)
{
    (void)state;
    struct ck_slice *parts = calloc(CK_FRAME_PARTS_MAX, sizeof *parts);
    assert_null(ck_frame_encode(ck_slice_str("{}"), parts, CK_FRAME_PARTS_MAX));
    struct ck_blob *b = ck_frame_encode(ck_slice_str("{}"), parts, CK_FRAME_PARTS_MAX - 1);
    assert_non_null(b);
    struct ck_frame f;
    size_t used;
    assert_int_equal(ck_frame_parse(b->p, b->n, CK_FRAME_BODY_MAX, &f, &used, NULL), 0);
    assert_int_equal(f.nparts, CK_FRAME_PARTS_MAX);
    ck_blob_unref(b);
    parts[0] = ck_slice("x", (size_t)CK_FRAME_BODY_MAX); // refused by its length, before a byte is read
    assert_null(ck_frame_encode(ck_slice_str("{}"), parts, 1));
    free(parts);
}

static void blobs_live_until_the_last_reference(void **state)
{
    (void)state;
    struct ck_blob *b = ck_blob_new(3);
    memcpy(b->p, "abc", 3);
    assert_ptr_equal(ck_blob_ref(b), b);
    ck_blob_unref(b);
    assert_memory_equal(b->p, "abc", 3);
    ck_blob_unref(b);
    ck_blob_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_encoded_is_parsed_back),
        cmocka_unit_test(every_truncation_asks_for_more),
        cmocka_unit_test(two_frames_in_a_row_are_taken_one_by_one),
        cmocka_unit_test(numbers_that_do_not_add_up_are_refused),
        cmocka_unit_test(a_header_over_its_cap_is_refused_both_ways),
        cmocka_unit_test(encode_refuses_what_a_reader_would_refuse),
        cmocka_unit_test(blobs_live_until_the_last_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
