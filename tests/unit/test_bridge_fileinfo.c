// What a hostile agent says about files: kept when it can be, left out when it cannot.
#include "common/ck_json.h"
#include "kernel-bridge/fileinfo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void paths_are_absolute_and_clean(void **state)
{
    (void)state;
    static const char *const good[] = {"/a", "/home/user/a b", "/..a/b..", "/home/user/\n", "/\xff"};
    static const char *const bad[] = {"", "a", "/", "//", "/a/", "/a//b", "/..", "/a/../b", "/./a", "../a"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(fileinfo_path_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(fileinfo_path_ok(bad[i]));
}

static void types_and_sums_are_of_their_characters(void **state)
{
    (void)state;
    char sum[66];
    assert_true(fileinfo_mime_ok("image/svg+xml"));
    static const char *const bad[] = {"", "text", "text/", "/plain", "text/plain; charset=x", "a/b\r\nX: y", "a/<b>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(fileinfo_mime_ok(bad[i]));
    memset(sum, 'a', 65);
    sum[65] = 0;
    assert_false(fileinfo_sha256_ok(sum));
    sum[64] = 0;
    assert_true(fileinfo_sha256_ok(sum));
    sum[3] = 'G';
    assert_false(fileinfo_sha256_ok(sum));
}

static json_t *stat_of(const char *text)
{
    struct ck_err err = CK_ERR_INIT;
    json_t *in = ck_json_parse_object(text, strlen(text), false, &err);
    assert_non_null(in);
    json_t *out = fileinfo_stat(in);
    json_decref(in);
    return out;
}

static void a_status_is_kept_without_what_cannot_be(void **state)
{
    (void)state;
    json_t *o = stat_of("{\"type\":\"file\",\"size\":5,\"mtime_ns\":7,\"mode\":420,\"etag\":\"1-5\",\"mime\":\"text/plain\",\"x\":1}");
    assert_int_equal(json_object_size(o), 6);
    assert_string_equal(json_string_value(json_object_get(o, "etag")), "1-5");
    json_decref(o);
    o = stat_of("{\"type\":\"dir\",\"size\":0,\"mode\":-1,\"etag\":\"a\\r\\nX: y\",\"mime\":\"<b>\"}");
    assert_int_equal(json_object_size(o), 3);
    json_decref(o);
    static const char *const none[] = {"{}", "{\"type\":\"device\",\"size\":1}", "{\"type\":\"file\",\"size\":-1}",
                                       "{\"type\":\"file\",\"size\":9223372036854775807}", "{\"type\":7,\"size\":1}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(stat_of(none[i]));
    assert_null(fileinfo_stat(NULL));
}

static void entries_that_lead_out_of_a_folder_are_left_out(void **state)
{
    (void)state;
    static const char text[] = "{\"e\":[{\"name\":\"..\",\"type\":\"dir\",\"size\":0},{\"name\":\"a/b\",\"type\":\"file\",\"size\":0},"
                               "{\"name\":\"\",\"type\":\"file\",\"size\":0},{\"name\":7,\"type\":\"file\",\"size\":0},7,"
                               "{\"name\":\"x\",\"type\":\"file\",\"size\":-4},{\"name\":\"\xc3\xa4\",\"type\":\"file\",\"size\":3,\"y\":1},"
                               "{\"name\":\"?\",\"name_raw_hex\":\"2f\",\"type\":\"file\",\"size\":0}]}";
    struct ck_err err = CK_ERR_INIT;
    json_t *in = ck_json_parse_object(text, strlen(text), false, &err);
    json_t *out = fileinfo_entries(json_object_get(in, "e"));
    assert_int_equal(json_array_size(out), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(out, 0), "name")), "\xc3\xa4");
    assert_int_equal(json_object_size(json_array_get(out, 0)), 4);
    json_decref(out);
    assert_null(fileinfo_entries(json_object_get(in, "none")));
    json_decref(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_absolute_and_clean),
        cmocka_unit_test(types_and_sums_are_of_their_characters),
        cmocka_unit_test(a_status_is_kept_without_what_cannot_be),
        cmocka_unit_test(entries_that_lead_out_of_a_folder_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
