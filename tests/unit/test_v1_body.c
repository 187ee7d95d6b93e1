// Bodies of requests: what is taken, and that each wrong field is refused by its name.
#include "gateway/v1_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define S(text) ck_slice_str(text)

static void session_refused(const char *json, bool patch, const char *reason, const char *word)
{
    struct v1_session_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_session_body_parse(S(json), patch, &b, &err), -1);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.reason, reason);
    assert_non_null(strstr(err.text, word));
    v1_session_body_free(&b);
}

static void cell_refused(const char *json, const char *reason, const char *word)
{
    struct v1_cell_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_cell_body_parse(S(json), &b, &err), -1);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.reason, reason);
    assert_non_null(strstr(err.text, word));
    v1_cell_body_free(&b);
}

static void command_refused(const char *json, int status, const char *word)
{
    struct v1_command_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_command_body_parse(S(json), 30000, &b, &err), -1);
    assert_int_equal(err.status, status);
    assert_non_null(strstr(err.text, word));
    v1_command_body_free(&b);
}

static void test_a_session_body_with_everything(void **state)
{
    (void)state;
    struct v1_session_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_session_body_parse(S("{\"name\":\"\xc3\xa9t\xc3\xa9\",\"template\":\"default\",\"memory_mb\":512,"
                                             "\"env\":{\"A_1\":\"x=y\"},\"timeouts\":{\"cell_s\":5,\"idle_s\":0},"
                                             "\"metadata\":{\"user\":7}}"),
                                           false, &b, &err),
                     0);
    assert_string_equal(b.name, "\xc3\xa9t\xc3\xa9");
    assert_string_equal(b.template_name, "default");
    assert_int_equal(b.memory_mb, 512);
    assert_int_equal(b.cell_s, 5);
    assert_int_equal(b.idle_s, 0);
    assert_int_equal(b.delete_s, -1);
    assert_int_equal(json_object_size(b.env), 1);
    assert_int_equal(json_object_size(b.metadata), 1);
    v1_session_body_free(&b);
    assert_int_equal(v1_session_body_parse(S(""), false, &b, &err), 0); // all is optional
    assert_null(b.name);
    assert_int_equal(b.memory_mb, -1);
    v1_session_body_free(&b);
}

static void test_each_wrong_field_of_a_session_is_named(void **state)
{
    (void)state;
    session_refused("{\"nmae\":1}", false, "unknown_field", "nmae");
    session_refused("{\"env\":{}}", true, "unknown_field", "env");
    session_refused("{\"name\":1}", false, "bad_field", "\"name\"");
    session_refused("{\"name\":\"\"}", false, "bad_field", "\"name\"");
    session_refused("{\"name\":\"a\\nb\"}", false, "bad_field", "\"name\"");
    session_refused("{\"memory_mb\":0}", false, "bad_field", "\"memory_mb\"");
    session_refused("{\"memory_mb\":1e3}", false, "bad_field", "\"memory_mb\"");
    session_refused("{\"memory_mb\":-5}", false, "bad_field", "\"memory_mb\"");
    session_refused("{\"env\":[]}", false, "bad_field", "\"env\"");
    session_refused("{\"env\":{\"1A\":\"x\"}}", false, "bad_field", "\"env\"");
    session_refused("{\"env\":{\"A=B\":\"x\"}}", false, "bad_field", "\"env\"");
    session_refused("{\"env\":{\"A\":1}}", false, "bad_field", "\"env\"");
    session_refused("{\"timeouts\":5}", false, "bad_field", "\"timeouts\"");
    session_refused("{\"timeouts\":{\"cel_s\":5}}", false, "unknown_field", "cel_s");
    session_refused("{\"timeouts\":{\"idle_s\":-1}}", false, "bad_field", "timeouts.idle_s");
    session_refused("{\"timeouts\":{\"idle_s\":604801}}", false, "bad_field", "timeouts.idle_s");
    session_refused("{\"artifact_ignore\":\".cache\"}", false, "bad_field", "\"artifact_ignore\"");
    session_refused("{\"artifact_ignore\":[1]}", false, "bad_field", "\"artifact_ignore\"");
    session_refused("{\"artifact_ignore\":[\"\"]}", false, "bad_field", "\"artifact_ignore\"");
    session_refused("{\"artifact_ignore\":[\"a/b\"]}", false, "bad_field", "\"artifact_ignore\"");
    session_refused("{\"artifact_ignore\":[\"a\\nb\"]}", false, "bad_field", "\"artifact_ignore\"");
    session_refused("{\"artifact_ignore\":[]}", true, "unknown_field", "artifact_ignore");
    session_refused("{\"metadata\":\"x\"}", false, "bad_field", "\"metadata\"");
    session_refused("[1]", false, "bad_json", "object");
}

static void test_sizes_are_bounded(void **state)
{
    (void)state;
    static char big[300000];
    int n = snprintf(big, sizeof big, "{\"metadata\":{\"x\":\"%066000d\"}}", 1);
    assert_true(n > 66000);
    session_refused(big, false, "bad_field", "65536");
    snprintf(big, sizeof big, "{\"env\":{\"X\":\"%0132000d\"}}", 1);
    session_refused(big, false, "bad_field", "131072");
    snprintf(big, sizeof big, "{\"name\":\"%0201d\"}", 1);
    session_refused(big, false, "bad_field", "200");
    snprintf(big, sizeof big, "{\"cmd\":\"%0132000d\"}", 1);
    command_refused(big, 400, "131072");
}

static void test_malformed_json_and_wrong_bytes_are_told_with_their_place(void **state)
{
    (void)state;
    cell_refused("{\"code\": \"print(1)\",}", "bad_json", "line 1 column");
    cell_refused("", "bad_json", "line 1 column");
    cell_refused("{\"code\":\"caf\xe9\"}", "bad_utf8", "byte 12");
    cell_refused("{\"code\":\"a\",\"code\":\"b\"}", "bad_json", "column");
    cell_refused("{\"code\":\"\\u0000\"}", "bad_json", "column");
    cell_refused("{\"code\":\"\\ud800\"}", "bad_json", "column");
}

static void test_a_cell_body(void **state)
{
    (void)state;
    struct v1_cell_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_cell_body_parse(S("{\"code\":\"\",\"timeout_s\":1.5,\"silent\":true}"), &b, &err), 0);
    assert_int_equal(b.code_n, 0);
    assert_int_equal(b.timeout_ms, 1500);
    assert_true(b.silent);
    assert_int_equal(b.stdin_mode, V1_STDIN_NONE);
    v1_cell_body_free(&b);
    assert_int_equal(v1_cell_body_parse(S("{\"code\":\"x\",\"stdin\":null}"), &b, &err), 0);
    assert_int_equal(b.timeout_ms, 0);
    assert_int_equal(b.stdin_mode, V1_STDIN_NONE);
    v1_cell_body_free(&b);
    assert_int_equal(v1_cell_body_parse(S("{\"code\":\"x\",\"stdin\":true}"), &b, &err), 0);
    assert_int_equal(b.stdin_mode, V1_STDIN_INTERACTIVE);
    v1_cell_body_free(&b);
}

static void lines_are(const char *json, size_t n, const char *last)
{
    struct v1_cell_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_cell_body_parse(S(json), &b, &err), 0);
    assert_int_equal(b.stdin_mode, V1_STDIN_LINES);
    assert_int_equal(json_array_size(b.lines), n);
    if (n)
        assert_string_equal(json_string_value(json_array_get(b.lines, n - 1)), last);
    v1_cell_body_free(&b);
}

static void test_stdin_is_cut_into_the_lines_that_input_takes(void **state)
{
    (void)state;
    lines_are("{\"code\":\"x\",\"stdin\":\"a\\nb\\n\"}", 2, "b");
    lines_are("{\"code\":\"x\",\"stdin\":\"a\\nb\"}", 2, "b");
    lines_are("{\"code\":\"x\",\"stdin\":\"\\n\\n\"}", 2, "");
    lines_are("{\"code\":\"x\",\"stdin\":\"\"}", 0, NULL);
    lines_are("{\"code\":\"x\",\"stdin\":[\"a\",\"\"]}", 2, "");
    cell_refused("{\"code\":\"x\",\"stdin\":[1]}", "bad_field", "\"stdin\"");
    cell_refused("{\"code\":\"x\",\"stdin\":3}", "bad_field", "\"stdin\"");
}

static void test_each_wrong_field_of_a_cell_is_named(void **state)
{
    (void)state;
    cell_refused("{}", "bad_field", "\"code\"");
    cell_refused("{\"code\":null}", "bad_field", "\"code\"");
    cell_refused("{\"code\":[\"a\"]}", "bad_field", "\"code\"");
    cell_refused("{\"code\":\"x\",\"timeout\":3}", "unknown_field", "timeout");
    cell_refused("{\"code\":\"x\",\"timeout_s\":0}", "bad_field", "\"timeout_s\"");
    cell_refused("{\"code\":\"x\",\"timeout_s\":-1}", "bad_field", "\"timeout_s\"");
    cell_refused("{\"code\":\"x\",\"timeout_s\":1e9}", "bad_field", "\"timeout_s\"");
    cell_refused("{\"code\":\"x\",\"timeout_s\":\"5\"}", "bad_field", "\"timeout_s\"");
    cell_refused("{\"code\":\"x\",\"silent\":1}", "bad_field", "\"silent\"");
}

static void test_a_command_body(void **state)
{
    (void)state;
    struct v1_command_body b;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_command_body_parse(S("{\"cmd\":\"ls\"}"), 30000, &b, &err), 0);
    assert_string_equal(b.cmd, "ls");
    assert_string_equal(b.cwd, "/home/user");
    assert_int_equal(b.timeout_ms, 30000);
    assert_int_equal(b.stdin_n, 0);
    v1_command_body_free(&b);
    assert_int_equal(v1_command_body_parse(S("{\"argv\":[\"a\",\"\"],\"cwd\":\"x\",\"timeout_s\":2,\"stdin\":\"hi\"}"), 30000, &b, &err), 0);
    assert_null(b.cmd);
    assert_int_equal(json_array_size(b.argv), 2);
    assert_string_equal(b.cwd, "/home/user/x");
    assert_int_equal(b.timeout_ms, 2000);
    assert_string_equal(b.stdin_text, "hi");
    v1_command_body_free(&b);
}

static void test_each_wrong_field_of_a_command_is_named(void **state)
{
    (void)state;
    command_refused("{}", 400, "\"cmd\"");
    command_refused("{\"cmd\":\"ls\",\"argv\":[\"ls\"]}", 400, "\"argv\"");
    command_refused("{\"cmd\":\"\"}", 400, "\"cmd\"");
    command_refused("{\"argv\":[]}", 400, "\"argv\"");
    command_refused("{\"argv\":[\"\"]}", 400, "\"argv\"");
    command_refused("{\"argv\":[\"a\",1]}", 400, "\"argv\"");
    command_refused("{\"argv\":\"ls\"}", 400, "\"argv\"");
    command_refused("{\"cmd\":\"ls\",\"cwd\":\"../x\"}", 403, "..");
    command_refused("{\"cmd\":\"ls\",\"cwd\":5}", 400, "\"cwd\"");
    command_refused("{\"cmd\":\"ls\",\"stdin\":5}", 400, "\"stdin\"");
    command_refused("{\"cmd\":\"ls\",\"shell\":\"sh\"}", 400, "shell");
}

static void test_an_answer_to_input(void **state)
{
    (void)state;
    json_t *body;
    struct ck_err err = CK_ERR_INIT;
    assert_string_equal(v1_stdin_body_parse(S("{\"value\":\"Ada\"}"), &body, &err), "Ada");
    json_decref(body);
    assert_string_equal(v1_stdin_body_parse(S("{\"eof\":true}"), &body, &err), "\x04");
    json_decref(body);
    static const char *const wrong[] = {"{}", "{\"value\":\"a\",\"eof\":true}", "{\"value\":1}", "{\"line\":\"a\"}", "x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&err, 0, sizeof err);
        assert_null(v1_stdin_body_parse(S(wrong[i]), &body, &err));
        assert_int_equal(err.status, 400);
        json_decref(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_body_with_everything),
        cmocka_unit_test(test_each_wrong_field_of_a_session_is_named),
        cmocka_unit_test(test_sizes_are_bounded),
        cmocka_unit_test(test_malformed_json_and_wrong_bytes_are_told_with_their_place),
        cmocka_unit_test(test_a_cell_body),
        cmocka_unit_test(test_stdin_is_cut_into_the_lines_that_input_takes),
        cmocka_unit_test(test_each_wrong_field_of_a_cell_is_named),
        cmocka_unit_test(test_a_command_body),
        cmocka_unit_test(test_each_wrong_field_of_a_command_is_named),
        cmocka_unit_test(test_an_answer_to_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
