// The route table: which pattern a path finds, and what is in its parameters.
#include "gateway/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void nothing(struct http_req *r)
{
    (void)r;
}

static const struct http_route ROUTES[] = {
    {HTTP_GET, "/", 0, 0, nothing},
    {HTTP_GET, "/api/kernels", 0, 0, nothing},
    {HTTP_POST, "/api/kernels", 0, 0, nothing},
    {HTTP_GET, "/api/kernels/{id}", 0, 0, nothing},
    {HTTP_GET, "/api/kernels/special", 0, 0, nothing},
    {HTTP_DELETE, "/api/kernels/{kernel}", 0, 0, nothing},
    {HTTP_GET | HTTP_PUT, "/v1/s/{id}/files/{path...}", 0, 0, nothing},
    {HTTP_GET, "/v1/s/{id}/files", 0, 0, nothing},
};
static struct router *router;
static struct router_match m;

static const char *find(unsigned method, const char *path)
{
    router_match(router, method, path, &m);
    return m.route ? m.route->pattern : NULL;
}

static void param_is(size_t i, const char *name, const char *raw)
{
    assert_true(i < m.nparams);
    assert_string_equal(m.params[i].name, name);
    assert_int_equal(m.params[i].len, strlen(raw));
    assert_memory_equal(m.params[i].raw, raw, strlen(raw));
}

static void literals_win_over_parameters(void **state)
{
    (void)state;
    assert_string_equal(find(HTTP_GET, "/"), "/");
    assert_string_equal(find(HTTP_GET, "/api/kernels"), "/api/kernels");
    assert_string_equal(find(HTTP_GET, "/api/kernels/"), "/api/kernels");
    assert_string_equal(find(HTTP_GET, "/api/%6bernels"), "/api/kernels");
    assert_string_equal(find(HTTP_GET, "/api/kernels/special"), "/api/kernels/special");
    assert_string_equal(find(HTTP_GET, "/api/kernels/a%2Fb"), "/api/kernels/{id}");
    param_is(0, "id", "a%2Fb");
}

static void methods_have_parameter_names_of_their_own(void **state)
{
    (void)state;
    assert_string_equal(find(HTTP_DELETE, "/api/kernels/1"), "/api/kernels/{kernel}");
    param_is(0, "kernel", "1");
    assert_int_equal(m.allowed, HTTP_GET | HTTP_HEAD | HTTP_DELETE);
}

static void a_wrong_method_lists_the_right_ones(void **state)
{
    (void)state;
    assert_null(find(HTTP_PATCH, "/api/kernels"));
    assert_int_equal(m.allowed, HTTP_GET | HTTP_HEAD | HTTP_POST);
    assert_null(find(HTTP_DELETE, "/api/kernels/special")); // the literal one, which cannot be deleted
    assert_int_equal(m.allowed, HTTP_GET | HTTP_HEAD);
    assert_string_equal(find(HTTP_HEAD, "/api/kernels"), "/api/kernels");
}

static void unknown_paths_find_nothing(void **state)
{
    (void)state;
    const char *const none[] = {"", "/x", "/api", "/api/kernels/1/2", "//api/kernels", "/api//kernels", "/api/kernels//", "/v1/s//files/x",
                                "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_null(find(HTTP_GET, none[i]));
        assert_int_equal(m.allowed, 0);
    }
}

static void a_rest_takes_everything_with_its_slashes(void **state)
{
    (void)state;
    assert_string_equal(find(HTTP_PUT, "/v1/s/1/files/a/b//c/"), "/v1/s/{id}/files/{path...}");
    param_is(0, "id", "1");
    param_is(1, "path", "a/b//c/");
    assert_string_equal(find(HTTP_GET, "/v1/s/1/files"), "/v1/s/{id}/files");
    assert_string_equal(find(HTTP_GET, "/v1/s/1/files/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q"), "/v1/s/{id}/files/{path...}");
    param_is(1, "path", "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q");
}

static void bad_patterns_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"x", "/{a...}/b", "/{}", "/{a}/{b}/{c}/{d}/{e}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct http_route route = {HTTP_GET, bad[i], 0, 0, nothing};
        struct router *r = router_new();
        assert_int_equal(router_add(r, &route, 1), -1);
        router_free(r);
    }
}

static int set_up(void **state)
{
    (void)state;
    router = router_new();
    return router_add(router, ROUTES, sizeof ROUTES / sizeof ROUTES[0]);
}

static int tear_down(void **state)
{
    (void)state;
    router_free(router);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_win_over_parameters),
        cmocka_unit_test(methods_have_parameter_names_of_their_own),
        cmocka_unit_test(a_wrong_method_lists_the_right_ones),
        cmocka_unit_test(unknown_paths_find_nothing),
        cmocka_unit_test(a_rest_takes_everything_with_its_slashes),
        cmocka_unit_test(bad_patterns_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
