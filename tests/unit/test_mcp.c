// MCP's envelope, tools and results as pure functions: what is accepted, what is refused and how, and
// what a model is shown of a cell.
#include "gateway/mcp_content.h"
#include "gateway/mcp_message.h"
#include "gateway/mcp_tools.h"
#include "gateway/text_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void refused(const char *json, enum mcp_error_code want)
{
    struct mcp_message m;
    enum mcp_error_code code = 0;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(mcp_message_parse(ck_slice_str(json), &m, &code, &err), -1);
    assert_int_equal(code, want);
    assert_true(err.text[0] != '\0');
    assert_null(m.body);
}

static void test_messages_that_are_none_are_refused_with_their_code(void **state)
{
    (void)state;
    refused("", MCP_PARSE_ERROR);
    refused("{", MCP_PARSE_ERROR);
    refused("[]", MCP_INVALID_REQUEST);
    refused(" [{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", MCP_INVALID_REQUEST);
    refused("{\"id\":1,\"method\":\"ping\"}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1}", MCP_INVALID_REQUEST);
    refused("{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"_meta\":{\"progressToken\":[]}}}", MCP_INVALID_REQUEST);
}

static void test_both_eras_are_told_apart(void **state)
{
    (void)state;
    struct mcp_message m;
    enum mcp_error_code code;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(mcp_message_parse(ck_slice_str("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{\"_meta\":"
                                                    "{\"progressToken\":0,\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}"),
                                       &m, &code, &err), 0);
    assert_true(m.modern && m.kind == MCP_REQUEST);
    assert_string_equal(m.version, MCP_MODERN);
    assert_int_equal(json_integer_value(m.progress), 0);
    assert_int_equal(json_integer_value(m.id), 0);
    mcp_message_free(&m);
    assert_int_equal(mcp_message_parse(ck_slice_str("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"server/discover\"}"), &m, &code, &err), 0);
    assert_true(m.modern && !m.version);
    mcp_message_free(&m);
    assert_int_equal(mcp_message_parse(ck_slice_str("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"), &m, &code, &err), 0);
    assert_true(!m.modern && m.kind == MCP_NOTIFICATION);
    mcp_message_free(&m);
    assert_string_equal(mcp_choose_version("2024-11-05"), "2024-11-05");
    assert_string_equal(mcp_choose_version("1999-01-01"), MCP_LEGACY_LATEST);
    assert_string_equal(mcp_choose_version(NULL), MCP_LEGACY_LATEST);
    assert_false(mcp_legacy_version(MCP_MODERN));
}

static void test_a_name_in_a_header_may_be_base64(void **state)
{
    (void)state;
    assert_true(mcp_header_says("run_python", "run_python"));
    assert_true(mcp_header_says("=?base64?cnVuX3B5dGhvbg==?=", "run_python"));
    assert_false(mcp_header_says("=?base64?cnVuX3B5dGhvbA==?=", "run_python"));
    assert_false(mcp_header_says("=?base64?" "?=", "run_python"));
    assert_false(mcp_header_says("=?base64?", "run_python"));
    assert_true(mcp_header_says("=?base64?", "=?base64?"));
}

static void test_every_tool_has_an_object_schema(void **state)
{
    (void)state;
    json_t *list = mcp_tools_list(), *tool;
    size_t i;
    assert_int_equal(json_array_size(list), MCP_TOOLS);
    json_array_foreach (list, i, tool) {
        json_t *schema = json_object_get(tool, "inputSchema"), *name;
        size_t k;
        assert_string_equal(json_string_value(json_object_get(schema, "type")), "object");
        json_array_foreach (json_object_get(schema, "required"), k, name)
            assert_non_null(json_object_get(json_object_get(schema, "properties"), json_string_value(name)));
        assert_true(json_string_length(json_object_get(tool, "description")) > 20);
    }
    json_decref(list);
}

static int args(const char *json, struct mcp_call_args *a, struct ck_err *err)
{
    json_t *params = json_loads(json, 0, NULL);
    assert_non_null(params);
    int rc = mcp_call_args_parse(params, 30000, a, err);
    if (rc)
        mcp_call_args_free(a);
    json_decref(params); // texts live on in the bodies that hold a reference; paths are copied
    return rc;
}

static void wrong(const char *json, int outcome)
{
    struct mcp_call_args a;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(args(json, &a, &err), outcome);
    assert_true(err.text[0] != '\0');
}

static void test_arguments_are_checked_and_what_is_wrong_is_said(void **state)
{
    (void)state;
    struct mcp_call_args a;
    struct ck_err err = CK_ERR_INIT;
    wrong("{}", -1);
    wrong("{\"name\":\"run_python\",\"arguments\":[]}", -1);
    wrong("{\"name\":\"no_such\"}", 1);
    wrong("{\"name\":\"run_python\"}", 2);
    wrong("{\"name\":\"run_python\",\"arguments\":{\"code\":7}}", 2);
    wrong("{\"name\":\"run_python\",\"arguments\":{\"code\":\"1\",\"timeout_s\":-1}}", 2);
    wrong("{\"name\":\"run_python\",\"arguments\":{\"code\":\"1\",\"language\":\"py\"}}", 2);
    wrong("{\"name\":\"run_python\",\"arguments\":{\"code\":\"1\",\"session\":\"\"}}", 2);
    wrong("{\"name\":\"run_command\",\"arguments\":{}}", 2);
    wrong("{\"name\":\"read_file\",\"arguments\":{\"path\":\"../x\"}}", 2);
    wrong("{\"name\":\"read_file\",\"arguments\":{\"path\":\"x\",\"offset\":-1}}", 2);
    wrong("{\"name\":\"read_file\",\"arguments\":{\"path\":\"x\",\"limit\":0}}", 2);
    wrong("{\"name\":\"write_file\",\"arguments\":{\"path\":\"x\"}}", 2);
    wrong("{\"name\":\"write_file\",\"arguments\":{\"path\":\"x\",\"content\":\"a\",\"encoding\":\"base64\"}}", 2);
    wrong("{\"name\":\"write_file\",\"arguments\":{\"path\":\"x\",\"content\":\"&&&&\",\"encoding\":\"base64\"}}", 2);
    assert_int_equal(args("{\"name\":\"write_file\",\"arguments\":{\"path\":\"x\",\"content\":\"AAE=\",\"encoding\":\"base64\"}}", &a, &err), 0);
    assert_int_equal(a.content.n, 2);
    assert_memory_equal(a.content.p, "\0\1", 2);
    assert_string_equal(a.path, "/home/user/x");
    mcp_call_args_free(&a);
}

static void same_content(json_t *result, const char *want)
{
    json_t *w = json_loads(want, 0, NULL);
    assert_non_null(w);
    if (!json_equal(json_object_get(result, "content"), w)) {
        char *text = json_dumps(result, 0);
        print_error("%s\n", text);
        free(text);
        fail();
    }
    json_decref(w);
    json_decref(result);
}

static json_t *cell(const char *json, bool links)
{
    struct mcp_origin origin = {"http://h:1", links};
    json_t *finished = json_loads(json, 0, NULL);
    assert_non_null(finished);
    json_t *result = mcp_cell_result(finished, &origin);
    json_decref(finished);
    return result;
}

static void test_a_model_sees_each_value_once_and_in_its_best_form(void **state)
{
    (void)state;
    same_content(cell("{\"status\":\"ok\",\"stdout\":\"\\u001b[31mred\\u001b[0m\\n\",\"stderr\":\"w\\n\",\"displays\":[{\"data\":"
                      "{\"image/png\":\"iVBO\\nRw==\\n\",\"text/plain\":\"<Figure>\"}},{\"data\":{\"text/html\":\"<b>\","
                      "\"text/plain\":\"b\"}},{\"data\":{\"text/latex\":\"$x$\",\"text/plain\":\"x\"}},{\"data\":"
                      "{\"application/x-y\":{\"a\":1}}}],\"result\":{\"application/json\":{\"a\":1}}}", true),
                 "[{\"type\":\"text\",\"text\":\"red\"},{\"type\":\"text\",\"text\":\"stderr:\\nw\"},"
                 "{\"type\":\"image\",\"data\":\"iVBORw==\",\"mimeType\":\"image/png\"},{\"type\":\"text\",\"text\":\"b\"},"
                 "{\"type\":\"text\",\"text\":\"$x$\"},{\"type\":\"text\",\"text\":\"[a value of type application/x-y, which is not text]\"},"
                 "{\"type\":\"text\",\"text\":\"{\\\"a\\\":1}\"}]");
    same_content(cell("{\"status\":\"ok\",\"stdout\":\"\",\"stderr\":\"\",\"displays\":[],\"result\":null}", true),
                 "[{\"type\":\"text\",\"text\":\"(no output)\"}]");
    // What claims to be a picture and is none is no picture.
    same_content(cell("{\"status\":\"ok\",\"displays\":[{\"data\":{\"image/png\":\"<script>\",\"text/plain\":\"p\"}}]}", true),
                 "[{\"type\":\"text\",\"text\":\"p\"}]");
}

static void test_files_are_links_where_the_client_knows_links(void **state)
{
    (void)state;
    static const char json[] = "{\"status\":\"ok\",\"artifacts\":[{\"path\":\"/home/user/a b.csv\",\"name\":\"a b.csv\",\"change\":\"created\","
                               "\"mime\":\"text/csv\",\"size\":7,\"url\":\"/v1/x/a%20b.csv\"}],\"artifacts_total\":300}";
    same_content(cell(json, true), "[{\"type\":\"resource_link\",\"uri\":\"http://h:1/v1/x/a%20b.csv\",\"name\":\"a b.csv\",\"mimeType\":"
                                   "\"text/csv\",\"size\":7,\"description\":\"/home/user/a b.csv\"},{\"type\":\"text\",\"text\":\"300 files "
                                   "were made or changed in all\"}]");
    same_content(cell(json, false), "[{\"type\":\"text\",\"text\":\"created file /home/user/a b.csv (text/csv, 7 bytes)\"},"
                                    "{\"type\":\"text\",\"text\":\"300 files were made or changed in all\"}]");
}

static void test_files_that_are_still_written_say_so(void **state)
{
    (void)state;
    static const char json[] = "{\"status\":\"ok\",\"artifacts\":[{\"path\":\"/home/user/a\",\"name\":\"a\",\"change\":\"created\","
                               "\"mime\":\"text/plain\",\"size\":7,\"sha256\":null,\"partial\":true,\"url\":\"/v1/x/a\"}],\"artifacts_total\":1}";
    same_content(cell(json, true), "[{\"type\":\"resource_link\",\"uri\":\"http://h:1/v1/x/a\",\"name\":\"a\",\"mimeType\":"
                                   "\"text/plain\",\"size\":7,\"description\":\"/home/user/a\"},{\"type\":\"text\",\"text\":"
                                   "\"/home/user/a is still being written: what it holds now is not all of it\"}]");
    same_content(cell(json, false), "[{\"type\":\"text\",\"text\":\"created file /home/user/a (text/plain, 7 bytes, still being written)\"}]");
}

static void test_errors_are_results_that_say_so(void **state)
{
    (void)state;
    json_t *r = cell("{\"status\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"x\"],\"traceback_plain\":[\"T\",\"E: v\"]}}", true);
    assert_true(json_is_true(json_object_get(r, "isError")));
    same_content(r, "[{\"type\":\"text\",\"text\":\"T\\nE: v\"}]");
    r = cell("{\"status\":\"timeout\",\"detail\":\"it was interrupted\"}", true);
    assert_true(json_is_true(json_object_get(r, "isError")));
    same_content(r, "[{\"type\":\"text\",\"text\":\"The code ended: timeout: it was interrupted\"}]");
}

static void plain(const char *in, const char *want)
{
    char *p = strdup(in);
    size_t n = text_plain(p, strlen(in));
    assert_int_equal(n, strlen(want));
    assert_memory_equal(p, want, n);
    free(p);
}

static void test_text_is_as_a_terminal_leaves_it(void **state)
{
    (void)state;
    plain("\x1b[1;31mred\x1b[0m", "red");
    plain("\x1b]0;title\x07" "a\x1b]8;;http://x\x1b\\b", "ab");
    plain("a\x1b(Bb\x1b=c", "abc");
    plain("10%\r20%\r30%\ndone\r\n", "30%\ndone\n");
    plain("kept\r", "kept");
    plain("unfinished\x1b[3", "unfinished");
    plain("\x1b", "");
    plain("\x1b\xc3\xa9x", "x");
    plain("caf\xc3\xa9", "caf\xc3\xa9");
}

static void test_the_middle_is_cut_between_characters_and_named(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(text_cut_middle("short", 5, 10, &b), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "short"));
    b.n = 0;
    // Each is two bytes: neither cut may be inside of one.
    static const char text[] = "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x84\xc3\x96\xc3\x9c";
    assert_int_equal(text_cut_middle(text, 12, 6, &b), 8);
    assert_true(ck_slice_is(ck_buf_slice(&b), "\xc3\xa4\n[… 8 bytes left out …]\n\xc3\x9c"));
    ck_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_that_are_none_are_refused_with_their_code),
        cmocka_unit_test(test_both_eras_are_told_apart),
        cmocka_unit_test(test_a_name_in_a_header_may_be_base64),
        cmocka_unit_test(test_every_tool_has_an_object_schema),
        cmocka_unit_test(test_arguments_are_checked_and_what_is_wrong_is_said),
        cmocka_unit_test(test_a_model_sees_each_value_once_and_in_its_best_form),
        cmocka_unit_test(test_files_are_links_where_the_client_knows_links),
        cmocka_unit_test(test_files_that_are_still_written_say_so),
        cmocka_unit_test(test_errors_are_results_that_say_so),
        cmocka_unit_test(test_text_is_as_a_terminal_leaves_it),
        cmocka_unit_test(test_the_middle_is_cut_between_characters_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
