// /openapi.json against the route table: every route is described, and nothing that is no route.
#include "gateway/routes.h"
#include "gateway/v1_openapi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct {
    unsigned bit;
    const char *name;
} methods[] = {{HTTP_GET, "get"}, {HTTP_PUT, "put"}, {HTTP_POST, "post"}, {HTTP_PATCH, "patch"}, {HTTP_DELETE, "delete"}};

// "{path...}" of a route is "{path}" in OpenAPI.
static void openapi_path(const char *pattern, char *out, size_t room)
{
    snprintf(out, room, "%s", pattern);
    char *dots = strstr(out, "...}");
    if (dots)
        memmove(dots, dots + 3, strlen(dots + 3) + 1);
}

static void test_every_route_is_described(void **state)
{
    (void)state;
    json_t *doc = v1_openapi_document("");
    assert_non_null(doc);
    for (size_t i = 0; i < ck_v1_nroutes; i++)
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            if (!(ck_v1_routes[i].methods & methods[m].bit))
                continue;
            char path[128];
            openapi_path(ck_v1_routes[i].pattern, path, sizeof path);
            json_t *op = json_object_get(json_object_get(json_object_get(doc, "paths"), path), methods[m].name);
            if (!op)
                fail_msg("%s %s is not described", methods[m].name, path);
        }
    json_decref(doc);
}

static bool is_route(const char *method, const char *path)
{
    static const char *const elsewhere[] = {"/healthz", "/readyz", "/metrics"}; // gateway/health.c
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(path, elsewhere[i]))
            return true;
    for (size_t i = 0; i < ck_v1_nroutes; i++)
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            char have[128];
            openapi_path(ck_v1_routes[i].pattern, have, sizeof have);
            if ((ck_v1_routes[i].methods & methods[m].bit) && !strcmp(methods[m].name, method) && !strcmp(have, path))
                return true;
        }
    return false;
}

static void test_nothing_is_described_that_is_no_route(void **state)
{
    (void)state;
    json_t *doc = v1_openapi_document(""), *path, *op;
    const char *p, *m;
    json_object_foreach (json_object_get(doc, "paths"), p, path)
        json_object_foreach (path, m, op)
            if (!is_route(m, p))
                fail_msg("%s %s is described but no route", m, p);
    json_decref(doc);
}

// Follows every "$ref" of the document.
static void check_refs(json_t *doc, json_t *v)
{
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach (v, key, child) {
        if (!strcmp(key, "$ref")) {
            const char *ref = json_string_value(child), *name = strrchr(ref, '/') + 1;
            bool schema = !strncmp(ref, "#/components/schemas/", 21);
            json_t *in = json_object_get(json_object_get(doc, "components"), schema ? "schemas" : "parameters");
            if (!json_object_get(in, name))
                fail_msg("%s leads nowhere", ref);
        }
        check_refs(doc, child);
    }
    json_array_foreach (v, i, child)
        check_refs(doc, child);
}

static void test_the_document_is_whole(void **state)
{
    (void)state;
    json_t *doc = v1_openapi_document("/p"), *path, *op;
    check_refs(doc, doc);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(doc, "servers"), 0), "url")), "/p");
    json_t *ids = json_object();
    const char *p, *m;
    json_object_foreach (json_object_get(doc, "paths"), p, path)
        json_object_foreach (path, m, op) {
            assert_true(json_object_size(json_object_get(op, "responses")) > 0);
            const char *id = json_string_value(json_object_get(op, "operationId"));
            if (json_object_get(ids, id))
                fail_msg("operationId %s twice", id);
            json_object_set_new(ids, id, json_true());
        }
    json_decref(ids);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_is_described),
        cmocka_unit_test(test_nothing_is_described_that_is_no_route),
        cmocka_unit_test(test_the_document_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
