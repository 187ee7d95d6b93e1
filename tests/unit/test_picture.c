// Headers of pictures, whole, cut off and lying, and what a guest may answer when it was asked to shrink.
#include "gateway/picture.h"

#include "common/ck_base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const uint8_t png_head[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R'};

static struct ck_slice png(uint8_t b[24], uint16_t w, uint16_t h)
{
    memcpy(b, png_head, sizeof png_head);
    uint8_t size[8] = {0, 0, (uint8_t)(w >> 8), (uint8_t)w, 0, 0, (uint8_t)(h >> 8), (uint8_t)h};
    memcpy(b + 16, size, 8);
    return ck_slice(b, 24);
}

// Start, an APP0 of 4 bytes, a DHT (whose marker lies among those of frames), a progressive frame.
static const uint8_t jpeg[] = {0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc4, 0, 3, 9,
                               0xff, 0xc2, 0, 11, 8, 0x0b, 0xb8, 0x0f, 0xa0, 1, 1, 0x11, 0};

static void test_headers_tell_the_size(void **state)
{
    (void)state;
    uint8_t b[24];
    struct picture_size s;
    assert_int_equal(picture_look(png(b, 4000, 3000), &s), PICTURE_PNG);
    assert_int_equal(s.width, 4000);
    assert_int_equal(s.height, 3000);
    assert_int_equal(picture_look(ck_slice(jpeg, sizeof jpeg), &s), PICTURE_JPEG);
    assert_int_equal(s.width, 4000);
    assert_int_equal(s.height, 3000);
}

static void test_what_is_cut_or_lies_is_no_picture(void **state)
{
    (void)state;
    uint8_t b[24];
    struct picture_size s;
    for (size_t n = 0; n < 24; n++)
        assert_int_equal(picture_look(ck_slice(png(b, 9, 9).p, n), &s), PICTURE_NONE);
    for (size_t n = 0; n < 23; n++)
        assert_int_equal(picture_look(ck_slice(jpeg, n), &s), PICTURE_NONE);
    assert_int_equal(picture_look(png(b, 0, 9), &s), PICTURE_NONE);
    static const char *const others[] = {"GIF89a", "<svg>", "\xff\xd8\xff\xda\x00\x02", "\xff\xd8\xff\xe0\x00\x01\xff\xc0",
                                         "\xff\xd8xxxxxxxx"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(picture_look(ck_slice(others[i], 8), &s), PICTURE_NONE);
}

static json_t *cell_with(uint16_t w, uint16_t h)
{
    uint8_t b[24];
    struct ck_buf text = CK_BUF_INIT;
    struct ck_slice p = png(b, w, h);
    assert_int_equal(ck_base64_add(&text, p.p, p.n), 0);
    json_t *v = json_stringn((const char *)text.p, text.n);
    ck_buf_free(&text);
    return json_pack("{s:[{s:{s:s,s:s}},{s:{s:O}}],s:{s:o}}", "displays", "data", "image/png", "no base64", "text/plain",
                     "x", "data", "image/png", v, "result", "image/png", v);
}

// The answer that the guest gives to one picture after the other.
static void answer(struct ck_buf *b, struct ck_slice picture)
{
    uint8_t n[4] = {0, 0, 0, (uint8_t)picture.n};
    ck_buf_add(b, n, 4);
    ck_buf_add(b, picture.p, picture.n);
}

static void same(const json_t *v, const char *want)
{
    json_t *w = json_loads(want, JSON_DECODE_ANY, NULL);
    assert_non_null(w);
    assert_true(json_equal((json_t *)(uintptr_t)v, w));
    json_decref(w);
}

static void test_only_larger_ones_are_taken_and_what_fits_is_put_back(void **state)
{
    (void)state;
    uint8_t b[24];
    struct pictures set = {.edge = 1000};
    json_t *cell = cell_with(1000, 400);
    pictures_find(&set, cell);
    assert_int_equal(set.n, 0);
    json_decref(cell);
    cell = cell_with(2000, 400);
    pictures_find(&set, cell);
    assert_int_equal(set.n, 2);
    struct ck_buf packed = CK_BUF_INIT, back = CK_BUF_INIT;
    assert_int_equal(pictures_pack(&set, &packed), 0);
    assert_int_equal(packed.n, 2 * 28);
    answer(&back, png(b, 1000, 200));
    answer(&back, ck_slice("", 0));
    pictures_take(&set, ck_buf_slice(&back));
    assert_int_equal(pictures_apply(&set, cell, "why"), 0);
    same(json_object_get(cell, "images"),
         "[{\"type\":\"image/png\",\"display\":1,\"from\":[2000,400],\"to\":[1000,200]},"
         "{\"type\":\"image/png\",\"display\":\"result\",\"from\":[2000,400],\"to\":null,\"message\":\"why\"}]");
    json_t *small = json_object_get(json_object_get(json_array_get(json_object_get(cell, "displays"), 1), "data"), "image/png");
    struct ck_buf raw = CK_BUF_INIT;
    assert_int_equal(ck_base64_decode(json_string_value(small), json_string_length(small), &raw), 0);
    assert_memory_equal(raw.p, png(b, 1000, 200).p, 24);
    ck_buf_free(&raw);
    ck_buf_free(&packed);
    ck_buf_free(&back);
    pictures_free(&set);
    json_decref(cell);
}

static void test_answers_that_lie_change_nothing(void **state)
{
    (void)state;
    uint8_t b[24];
    static const uint8_t far[] = {0xff, 0xff, 0xff, 0xff, 1};
    struct ck_slice lies[] = {ck_slice("", 0),           ck_slice("\0\0\0", 3),   ck_slice(far, sizeof far),
                              png(b, 1001, 5),           ck_slice(jpeg, sizeof jpeg), ck_slice("rubbish", 7)};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct pictures set = {.edge = 1000};
        struct ck_buf back = CK_BUF_INIT;
        uint8_t big[24];
        assert_int_equal(pictures_add(&set, png(big, 3000, 5), (struct picture){.display = 0}), 1);
        if (i < 3)
            ck_buf_add(&back, lies[i].p, lies[i].n);
        else
            answer(&back, i == 3 ? png(b, 1001, 5) : lies[i]);
        pictures_take(&set, ck_buf_slice(&back));
        assert_int_equal(set.p[0].is.width, 0);
        assert_memory_equal(set.p[0].bytes.p, big, 24);
        ck_buf_free(&back);
        pictures_free(&set);
    }
}

static void test_a_cell_has_no_more_of_them_than_its_bound(void **state)
{
    (void)state;
    uint8_t b[24];
    struct pictures set = {.edge = 16};
    for (int i = 0; i < PICTURES_MAX; i++)
        assert_int_equal(pictures_add(&set, png(b, 17, 1), (struct picture){.display = i}), 1);
    assert_int_equal(pictures_add(&set, png(b, 17, 1), (struct picture){.display = 0}), -1);
    pictures_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_tell_the_size),
        cmocka_unit_test(test_what_is_cut_or_lies_is_no_picture),
        cmocka_unit_test(test_only_larger_ones_are_taken_and_what_fits_is_put_back),
        cmocka_unit_test(test_answers_that_lie_change_nothing),
        cmocka_unit_test(test_a_cell_has_no_more_of_them_than_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
