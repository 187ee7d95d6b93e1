// The finished cell that the gateway makes when a bridge dies: same shape as any other, output within
// its bound, what is missing counted to the byte.
#include "common/ck_clean.h"
#include "common/ck_json.h"
#include "gateway/v1_partial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CELL "0b0e7f0c-6f0f-4c4b-9f2f-0d6a3f6f2c11"

static uint64_t seq;

static void feed(struct v1_partial *p, const char *header, const struct ck_slice *parts, uint32_t n)
{
    struct ck_err err = CK_ERR_INIT;
    struct ck_frame f;
    struct v1_event ev;
    size_t used;
    struct ck_blob *b = ck_frame_encode(ck_slice_str(header), parts, n);
    assert_int_equal(ck_frame_parse(b->p, b->n, CK_FRAME_BODY_MAX, &f, &used, &err), 0);
    json_t *h = json_loads(header, 0, NULL);
    assert_int_equal(v1_event_read(h, &f, &ev), 0);
    if (ev.kind != V1_EVENT_SKIP)
        v1_partial_take(p, &f, &ev, 1000);
    json_decref(h);
    ck_blob_unref(b);
}

static void message(struct v1_partial *p, const char *type, const char *content)
{
    char header[256];
    struct ck_slice parts[4] = {ck_slice_str("{}"), ck_slice_str("{}"), ck_slice_str("{}"), ck_slice_str(content)};
    snprintf(header, sizeof header, "{\"ev\":\"msg\",\"seq\":%d,\"ch\":\"iopub\",\"mt\":\"%s\",\"cell\":\"" CELL "\"}",
             (int)++seq, type);
    feed(p, header, parts, 4);
}

static void own(struct v1_partial *p, const char *header, const char *part)
{
    struct ck_slice s = ck_slice_str(part);
    feed(p, header, &s, 1);
}

static json_t *finish(struct v1_partial *p)
{
    struct v1_partial_end end = {.cell = CELL, .status = "vm_died", .exit_code = 137, .detail = "why \"so\"", .seq = 9,
                                 .wall_ms = 12};
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_partial_json(p, &end, &b), 0);
    json_t *o = ck_json_parse_object(b.p, b.n, false, &err);
    assert_non_null(o);
    v1_partial_free(p);
    return o;
}

static void is(json_t *o, const char *key, const char *want)
{
    char *text = json_dumps(json_object_get(o, key), JSON_ENCODE_ANY | JSON_COMPACT);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void test_nothing_seen_has_the_whole_shape(void **state)
{
    (void)state;
    struct v1_partial p = {0};
    CK_CLEAN_JSON json_t *o = finish(&p);
    assert_int_equal(json_object_size(o), 15);
    is(o, "seq", "[9,9]");
    is(o, "status", "\"vm_died\"");
    is(o, "exit_code", "137");
    is(o, "execution_count", "null");
    is(o, "stdout", "\"\"");
    is(o, "displays", "[]");
    is(o, "result", "null");
    is(o, "error", "null");
    is(o, "artifacts", "[]");
    is(o, "artifacts_total", "0");
    is(o, "usage", "{\"wall_ms\":12,\"cpu_ms\":null,\"peak_memory_bytes\":null,\"disk_bytes\":null}");
    is(o, "truncated", "{\"stdout_bytes\":0,\"stderr_bytes\":0,\"displays\":0,\"display_bytes\":0}");
    is(o, "detail", "\"why \\\"so\\\"\"");
}

static void test_everything_that_a_cell_can_put_out(void **state)
{
    (void)state;
    struct v1_partial p = {0};
    seq = 30;
    own(&p, "{\"ev\":\"cell_start\",\"seq\":30,\"cell\":\"" CELL "\"}", "");
    assert_int_equal(p.started_ms, 1000);
    message(&p, "execute_input", "{\"code\":\"x\",\"execution_count\": 7}");
    message(&p, "stream", "{\"name\":\"stdout\",\"text\":\"a\\n\\u00e9\"}");
    message(&p, "stream", "{\"name\":\"stderr\",\"text\":\"oops\"}");
    message(&p, "stream", "{\"text\":\"\\\"b\\ud83d\\ude00\",\"name\":\"stdout\"}");
    message(&p, "display_data", "{\"data\":{\"a/b\":1},\"metadata\":{\"m\":2},\"transient\":{\"display_id\":\"d\"}}");
    message(&p, "execute_result", "{\"data\":{\"text/plain\":\"4\"},\"metadata\":{},\"execution_count\":7}");
    message(&p, "update_display_data", "{\"data\":{\"a/b\":3},\"metadata\":{},\"transient\":{\"display_id\":\"d\"}}");
    message(&p, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"\\u001b[0;31mred\\u001B[0m \\\\u\"]}");
    own(&p, "{\"ev\":\"artifact\",\"seq\":50,\"cell\":\"" CELL "\"}", "{\"path\":\"/a\"}");
    own(&p, "{\"ev\":\"artifact\",\"seq\":51,\"cell\":\"" CELL "\"}", "{\"path\":\"/b\"}");
    CK_CLEAN_JSON json_t *o = finish(&p);
    is(o, "seq", "[30,51]");
    is(o, "execution_count", "7");
    is(o, "stdout", "\"a\\n\u00e9\\\"b\U0001F600\"");
    is(o, "stderr", "\"oops\"");
    is(o, "displays", "[{\"data\":{\"a/b\":3},\"metadata\":{}}]");
    is(o, "result", "{\"text/plain\":\"4\"}");
    is(o, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"\\u001B[0;31mred\\u001B[0m \\\\u\"],"
                   "\"traceback_plain\":[\"red \\\\u\"]}");
    is(o, "artifacts", "[{\"path\":\"/a\"},{\"path\":\"/b\"}]");
    is(o, "artifacts_total", "2");
}

static void test_the_middle_goes_and_is_counted_to_the_byte(void **state)
{
    (void)state;
    struct v1_partial p = {.half = 4096};
    char content[128];
    size_t all = 0;
    for (int i = 0; i < 2000; i++) { // each text has 4 digits, a line break, 2 bytes of "é" and 4 of an emoji
        snprintf(content, sizeof content, "{\"name\":\"stdout\",\"text\":\"%04d\\n\\u00e9\\ud83d\\ude00\"}", i);
        message(&p, "stream", content);
        all += 11;
        assert_true(p.head.bytes <= 4096 && p.tail.bytes <= 4096);
    }
    CK_CLEAN_JSON json_t *o = finish(&p);
    const char *text = json_string_value(json_object_get(o, "stdout"));
    size_t dropped = (size_t)json_integer_value(json_object_get(json_object_get(o, "truncated"), "stdout_bytes"));
    char mark[64];
    snprintf(mark, sizeof mark, "\n[… %zu bytes left out …]\n", dropped);
    assert_non_null(strstr(text, mark));
    assert_int_equal(strlen(text) - strlen(mark) + dropped, all);
    assert_true(!strncmp(text, "0000\n", 5) && strstr(text, "1999\n"));
}

static void test_what_fits_nowhere_is_counted(void **state)
{
    (void)state;
    struct v1_partial p = {.half = 300};
    char big[500];
    snprintf(big, sizeof big, "{\"name\":\"stderr\",\"text\":\"%0400d\"}", 0);
    message(&p, "stream", big);
    snprintf(big, sizeof big, "{\"data\":{\"a/b\":\"%0400d\"},\"metadata\":{}}", 0);
    message(&p, "display_data", big);
    CK_CLEAN_JSON json_t *o = finish(&p);
    is(o, "stderr", "\"\\n[… 400 bytes left out …]\\n\"");
    const json_t *t = json_object_get(o, "truncated");
    assert_int_equal(json_integer_value(json_object_get(t, "stderr_bytes")), 400);
    assert_int_equal(json_integer_value(json_object_get(t, "displays")), 1);
    assert_int_equal(json_integer_value(json_object_get(t, "display_bytes")), (json_int_t)strlen(big));
}

static void test_cleared_output_is_gone(void **state)
{
    (void)state;
    struct v1_partial p = {0};
    message(&p, "stream", "{\"name\":\"stdout\",\"text\":\"old\"}");
    message(&p, "clear_output", "{\"wait\":true}");
    assert_non_null(p.head.first);
    message(&p, "stream", "{\"name\":\"stdout\",\"text\":\"new\"}");
    message(&p, "display_data", "{\"data\":{},\"metadata\":{}}");
    CK_CLEAN_JSON json_t *o = finish(&p);
    is(o, "stdout", "\"new\"");
    message(&p, "stream", "{\"name\":\"stdout\",\"text\":\"old\"}");
    message(&p, "clear_output", "{\"wait\":false}");
    assert_null(p.head.first);
    v1_partial_free(&p);
}

static void test_contents_that_are_not_json_do_not_reach_the_client(void **state)
{
    (void)state;
    struct v1_partial p = {0};
    message(&p, "stream", "{\"name\":\"stdout\",\"text\":\"a\nb\"}");
    message(&p, "display_data", "{\"data\":{]},\"metadata\":{}");
    CK_CLEAN_JSON json_t *o = finish(&p);
    is(o, "stdout", "\"\"");
    is(o, "displays", "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_seen_has_the_whole_shape),
        cmocka_unit_test(test_everything_that_a_cell_can_put_out),
        cmocka_unit_test(test_the_middle_goes_and_is_counted_to_the_byte),
        cmocka_unit_test(test_what_fits_nowhere_is_counted),
        cmocka_unit_test(test_cleared_output_is_gone),
        cmocka_unit_test(test_contents_that_are_not_json_do_not_reach_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
