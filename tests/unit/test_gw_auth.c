// The bearer token: where it may stand, and how it is kept.
#include "gateway/auth.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct auth *a;
static char dir[] = "/tmp/ck-test-auth-XXXXXX";

static void the_header_counts_whatever_its_scheme_is_written_like(void **state)
{
    (void)state;
    const char *const right[] = {"Bearer s3cret", "bearer s3cret", "token s3cret", "Token s3cret", "TOKEN  s3cret"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_int_equal(auth_check(a, right[i], NULL), HTTP_AUTH_HEADER);
    const char *const wrong[] = {"Bearer s3cre", "Bearer s3crett", "Bearer", "Bearer ", "s3cret", "Basic s3cret", "Bearers3cret", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(auth_check(a, wrong[i], NULL), HTTP_AUTH_NONE);
}

static void the_query_counts_when_there_is_no_header(void **state)
{
    (void)state;
    assert_int_equal(auth_check(a, NULL, "s3cret"), HTTP_AUTH_QUERY);
    assert_int_equal(auth_check(a, NULL, "other"), HTTP_AUTH_NONE);
    assert_int_equal(auth_check(a, NULL, ""), HTTP_AUTH_NONE);
    assert_int_equal(auth_check(a, NULL, NULL), HTTP_AUTH_NONE);
    assert_int_equal(auth_check(a, "token ", "s3cret"), HTTP_AUTH_QUERY); // jupyter's client without a token
    assert_int_equal(auth_check(a, "Bearer wrong", "s3cret"), HTTP_AUTH_NONE);
}

static void tokens_that_cannot_work_are_refused(void **state)
{
    (void)state;
    struct auth *b = NULL;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(auth_open("", "/", &b, &err), -1);
    assert_int_equal(auth_open("a b", "/", &b, &err), -1);
    assert_null(strstr(err.text, "a b"));
    assert_int_equal(auth_open("a\nb", "/", &b, &err), -1);
}

static void a_generated_token_is_private_and_kept(void **state)
{
    (void)state;
    struct auth *one = NULL, *two = NULL;
    struct ck_err err = CK_ERR_INIT;
    struct stat st;
    char path[64];
    snprintf(path, sizeof path, "%s/token", dir);
    assert_int_equal(auth_open(NULL, dir, &one, &err), 0);
    assert_int_equal(strlen(auth_token(one)), 64);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(auth_open(NULL, dir, &two, &err), 0);
    assert_string_equal(auth_token(one), auth_token(two));
    auth_free(one);
    auth_free(two);
    chmod(path, 0644);
    assert_int_equal(auth_open(NULL, dir, &one, &err), -1);
    assert_non_null(strstr(err.text, "chmod 600"));
    unlink(path);
}

static int set_up(void **state)
{
    (void)state;
    struct ck_err err;
    return !mkdtemp(dir) || auth_open("s3cret", "/", &a, &err);
}

static int tear_down(void **state)
{
    (void)state;
    auth_free(a);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_counts_whatever_its_scheme_is_written_like),
        cmocka_unit_test(the_query_counts_when_there_is_no_header),
        cmocka_unit_test(tokens_that_cannot_work_are_refused),
        cmocka_unit_test(a_generated_token_is_private_and_kept),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
