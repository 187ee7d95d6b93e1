// Paths of clients: what becomes of them, and what never gets through.
#include "gateway/v1_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void url_is(const char *url, const char *want)
{
    char out[V1_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_path_from_url(url, out, &err), 0);
    assert_string_equal(out, want);
}

static void url_refused(const char *url, int status, const char *reason)
{
    char out[V1_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_path_from_url(url, out, &err), -1);
    assert_int_equal(err.status, status);
    assert_string_equal(err.reason, reason);
}

static void test_a_url_path_is_absolute_in_the_guest(void **state)
{
    (void)state;
    url_is("home/user/a.csv", "/home/user/a.csv");
    url_is("/home/user/a.csv", "/home/user/a.csv");
    url_is("home//user/./a b.csv/", "/home/user/a b.csv");
    url_is("tmp/\xc3\xa9t\xc3\xa9.png", "/tmp/\xc3\xa9t\xc3\xa9.png");
    url_is("home/user/...", "/home/user/...");
    url_is("home/user/new\nline", "/home/user/new\nline");
    url_is("", "/");
    url_is("///", "/");
}

static void test_dot_dot_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    url_refused("..", 403, "path_outside");
    url_refused("home/user/../../etc/passwd", 403, "path_outside");
    url_refused("home/user/..", 403, "path_outside");
    url_refused("/../", 403, "path_outside");
}

static void test_what_is_no_path_is_refused(void **state)
{
    (void)state;
    char name[300], path[5000];
    memset(name, 'a', 256);
    name[256] = '\0';
    url_refused(name, 400, "bad_path");
    name[255] = '\0';
    char want[302];
    snprintf(want, sizeof want, "/%s", name);
    url_is(name, want);
    url_is("home/\xff\xfe", "/home/\xff\xfe"); // names are bytes
    memset(path, 'b', sizeof path);
    for (size_t i = 0; i < sizeof path; i += 100)
        path[i] = '/';
    path[4095] = '\0';
    char out[V1_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_path_from_url(path, out, &err), 0); // exactly 4095 bytes
    assert_int_equal(strlen(out), 4095);
    url_refused((path[4095] = 'b', path[4096] = '\0', path), 400, "bad_path");
}

static void test_a_relative_path_of_a_body_is_below_the_home_folder(void **state)
{
    (void)state;
    char out[V1_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_path_from_body("work/x", out, &err), 0);
    assert_string_equal(out, "/home/user/work/x");
    assert_int_equal(v1_path_from_body("", out, &err), 0);
    assert_string_equal(out, "/home/user");
    assert_int_equal(v1_path_from_body("/tmp/", out, &err), 0);
    assert_string_equal(out, "/tmp");
    assert_int_equal(v1_path_from_body("../root", out, &err), -1);
    assert_int_equal(err.status, 403);
}

static void test_a_path_goes_into_a_url_and_back(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(v1_path_to_url("/home/user/50% \xc3\xa9?#.csv", &b), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "home/user/50%25%20%C3%A9%3F%23.csv"));
    ck_buf_free(&b);
    assert_string_equal(v1_path_name("/home/user/a"), "a");
    assert_string_equal(v1_path_name("/"), "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_url_path_is_absolute_in_the_guest),
        cmocka_unit_test(test_dot_dot_is_refused_wherever_it_stands),
        cmocka_unit_test(test_what_is_no_path_is_refused),
        cmocka_unit_test(test_a_relative_path_of_a_body_is_below_the_home_folder),
        cmocka_unit_test(test_a_path_goes_into_a_url_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
