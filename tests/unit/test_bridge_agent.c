// The agent's messages and what is made of its answers: signatures, numbers, artifacts.
#include "common/ck_json.h"
#include "kernel-bridge/agentwire.h"
#include "kernel-bridge/artifacts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[AW_KEY_LEN] = {1, 2, 3};

static int receive(const char *header, const char *payload, const uint8_t *with, int64_t *last, struct aw_msg *m,
                   struct ck_err *err)
{
    static uint8_t sig[CK_SHA256_LEN];
    *err = (struct ck_err)CK_ERR_INIT;
    aw_sign(with, ck_slice_str(header), ck_slice_str(payload), sig);
    struct ck_slice p[3] = {ck_slice(sig, sizeof sig), ck_slice_str(header), ck_slice_str(payload)};
    return aw_parse(p, 3, key, last, m, err);
}

static void answers_and_pushes_are_told_apart(void **state)
{
    (void)state;
    int64_t last = 0;
    struct aw_msg m;
    struct ck_err err;
    assert_int_equal(receive("{\"n\":1,\"re\":7,\"ok\":true}", "pay", key, &last, &m, &err), 0);
    assert_true(m.is_answer);
    assert_int_equal(m.rid, 7);
    assert_true(ck_slice_is(m.payload, "pay"));
    aw_free(&m);
    assert_int_equal(receive("{\"n\":2,\"ev\":\"out\"}", "", key, &last, &m, &err), 0);
    assert_false(m.is_answer);
    assert_string_equal(m.ev, "out");
    aw_free(&m);
    assert_int_equal(last, 2);
}

static void forged_and_repeated_messages_are_refused(void **state)
{
    (void)state;
    static const uint8_t other[AW_KEY_LEN] = {9};
    static const struct {
        const char *header, *reason;
        const uint8_t *with;
    } rows[] = {
        {"{\"n\":6,\"re\":1}", "bad_signature", other}, {"{\"n\":5,\"re\":1}", "replayed", key},
        {"{\"n\":-1,\"re\":1}", "replayed", key},       {"{\"re\":1}", "bad_message", key},
        {"{\"n\":\"6\",\"re\":1}", "bad_message", key}, {"{\"n\":6}", "bad_message", key},
        {"{\"n\":6,\"ev\":5}", "bad_message", key},     {"[1]", "bad_json", key},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t last = 5;
        struct aw_msg m;
        struct ck_err err;
        assert_int_equal(receive(rows[i].header, "", rows[i].with, &last, &m, &err), -1);
        assert_string_equal(err.reason, rows[i].reason);
        aw_free(&m);
    }
    int64_t last = 0;
    struct aw_msg m;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(aw_parse(NULL, 0, key, &last, &m, &err), -1);
}

static void errors_carry_a_status_that_is_one(void **state)
{
    (void)state;
    struct ck_err err = CK_ERR_INIT;
    json_t *j = json_loads("{\"error\":{\"status\":404,\"reason\":\"r\",\"message\":\"m\"}}", 0, NULL);
    assert_true(aw_error(j, &err));
    assert_int_equal(err.status, 404);
    assert_string_equal(err.reason, "r");
    assert_string_equal(err.text, "m");
    json_decref(j);
    j = json_loads("{\"error\":{\"status\":200,\"message\":\"%s%n\"}}", 0, NULL);
    assert_true(aw_error(j, &err));
    assert_int_equal(err.status, 500);
    assert_string_equal(err.text, "%s%n");
    json_decref(j);
    j = json_loads("{\"ok\":true}", 0, NULL);
    assert_false(aw_error(j, &err));
    json_decref(j);
}

static void artifacts_have_what_the_contract_says(void **state)
{
    (void)state;
    json_t *answer = json_loads(
        "{\"files\":[{\"path\":\"/home/user/a b\xC3\xA9%.png\",\"size\":3,\"mtime_ns\":1,\"change\":\"created\","
        "\"mime\":\"image/png\",\"sha256\":\"ab\"},{\"path\":\"/x\",\"size\":0,\"change\":\"changed\",\"partial\":true}],\"count\":17}",
        0, NULL);
    struct artifacts *a = calloc(1, sizeof *a);
    artifacts_read(answer, &(struct artifacts_for){"ID", "/base", NULL, 200, INT64_MAX}, a);
    assert_int_equal(a->n, 2);
    assert_int_equal(a->total, 17);
    struct ck_buf b = CK_BUF_INIT;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(artifacts_array(a, &b), 0);
    json_t *got = json_loadb((char *)b.p, b.n, 0, NULL), *one = json_array_get(got, 0);
    assert_string_equal(json_string_value(json_object_get(one, "url")),
                        "/base/v1/sessions/ID/files/home/user/a%20b%C3%A9%25.png");
    assert_string_equal(json_string_value(json_object_get(one, "name")), "a b\xC3\xA9%.png");
    assert_string_equal(json_string_value(json_object_get(one, "change")), "created");
    assert_true(json_is_null(json_object_get(json_array_get(got, 1), "sha256")));
    assert_true(json_is_true(json_object_get(json_array_get(got, 1), "partial")));
    assert_null(json_object_get(one, "partial"));
    json_decref(got);
    json_decref(answer);
    artifacts_free(a);
    ck_buf_free(&b);
    free(a);
    (void)err;
}

static void artifacts_that_are_not_are_left_out(void **state)
{
    (void)state;
    static const char *const bad[] = {"{}",
                                      "7",
                                      "{\"path\":\"relative\",\"size\":1,\"change\":\"created\"}",
                                      "{\"path\":\"/a\",\"size\":-1,\"change\":\"created\"}",
                                      "{\"path\":\"/a\",\"size\":1,\"change\":\"eaten\"}",
                                      "{\"path\":[],\"size\":1,\"change\":\"created\"}",
                                      "{\"path\":\"/a\",\"size\":\"1\",\"change\":\"created\"}"};
    struct artifacts *a = calloc(1, sizeof *a);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"files\":[%s],\"count\":\"many\"}", bad[i]);
        json_t *j = json_loads(text, 0, NULL);
        artifacts_read(j, &(struct artifacts_for){"ID", "", NULL, 200, INT64_MAX}, a);
        assert_int_equal(a->n, 0);
        json_decref(j);
    }
    json_t *j = json_loads("{\"files\":{\"a\":1}}", 0, NULL);
    artifacts_read(j, &(struct artifacts_for){"ID", "", NULL, 200, INT64_MAX}, a);
    assert_int_equal(a->n, 0);
    assert_int_equal(a->total, 0);
    json_decref(j);
    artifacts_free(a);
    free(a);
}

static void at_most_so_many_are_listed(void **state)
{
    (void)state;
    json_t *files = json_array(), *j = json_pack("{s:o}", "files", files);
    for (int i = 0; i < 500; i++)
        json_array_append_new(files, json_pack("{s:s,s:i,s:s}", "path", "/a", "size", 1, "change", "created"));
    struct artifacts *a = calloc(1, sizeof *a);
    artifacts_read(j, &(struct artifacts_for){"ID", "", NULL, 10000, INT64_MAX}, a);
    assert_int_equal(a->n, ARTIFACTS_MAX);
    assert_int_equal(a->total, 500);
    artifacts_free(a);
    artifacts_read(j, &(struct artifacts_for){"ID", "", NULL, 3, INT64_MAX}, a);
    assert_int_equal(a->n, 3);
    artifacts_free(a);
    free(a);
    json_decref(j);
}

static void what_a_client_wrote_is_no_artifact_until_a_cell_changes_it(void **state)
{
    (void)state;
    struct written *w = calloc(1, sizeof *w);
    struct artifacts *a = calloc(1, sizeof *a);
    json_t *j =
        json_loads("{\"files\":[{\"path\":\"/home/user/up.csv\",\"size\":3,\"mtime_ns\":7,\"change\":\"created\"},"
                   "{\"path\":\"/home/user/out.csv\",\"size\":3,\"mtime_ns\":7,\"change\":\"created\"}],\"count\":2}",
                   0, NULL);
    struct artifacts_for f = {"ID", "", w, 200, INT64_MAX};
    written_add(w, "up.csv", 3, 7);
    artifacts_read(j, &f, a);
    assert_int_equal(a->n, 1);
    assert_int_equal(a->total, 1);
    assert_non_null(strstr((char *)a->json[0].p, "out.csv"));
    artifacts_free(a);
    json_object_set_new(json_array_get(json_object_get(j, "files"), 0), "mtime_ns", json_integer(8));
    artifacts_read(j, &f, a);
    assert_int_equal(a->n, 2);
    artifacts_free(a);
    for (int i = 0; i < WRITTEN_MAX; i++)
        written_add(w, "x", i, i);
    assert_false(written_has(w, "up.csv", 3, 7)); // bounded: the oldest is forgotten
    assert_true(written_has(w, "/any/where/x", 5, 5));
    json_decref(j);
    free(a);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_pushes_are_told_apart),
        cmocka_unit_test(forged_and_repeated_messages_are_refused),
        cmocka_unit_test(errors_carry_a_status_that_is_one),
        cmocka_unit_test(artifacts_have_what_the_contract_says),
        cmocka_unit_test(artifacts_that_are_not_are_left_out),
        cmocka_unit_test(at_most_so_many_are_listed),
        cmocka_unit_test(what_a_client_wrote_is_no_artifact_until_a_cell_changes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
