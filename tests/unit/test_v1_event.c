// Frames of the bridge as events of /v1: the envelope is ours, the content is the kernel's, verbatim.
#include "common/ck_json.h"
#include "gateway/v1_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct event {
    struct ck_blob *blob;
    struct ck_frame frame;
    json_t *header;
    struct v1_event ev;
};

static int make(struct event *e, const char *header, const char *const *parts, uint32_t n)
{
    struct ck_slice s[8] = {0};
    struct ck_err err = CK_ERR_INIT;
    size_t used;
    for (uint32_t i = 0; i < n; i++)
        s[i] = ck_slice_str(parts[i]);
    e->blob = ck_frame_encode(ck_slice_str(header), s, n);
    assert_non_null(e->blob);
    assert_int_equal(ck_frame_parse(e->blob->p, e->blob->n, CK_FRAME_BODY_MAX, &e->frame, &used, &err), 0);
    e->header = json_loads(header, 0, NULL);
    return v1_event_read(e->header, &e->frame, &e->ev);
}

static void drop(struct event *e)
{
    json_decref(e->header);
    ck_blob_unref(e->blob);
}

static void json_is(struct event *e, const char *want)
{
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(v1_event_json(e->header, &e->frame, &e->ev, &b), 0);
    assert_int_equal(ck_buf_add(&b, "", 1), 0);
    assert_string_equal((const char *)b.p, want);
    ck_buf_free(&b);
}

#define CELL "0b0e7f0c-6f0f-4c4b-9f2f-0d6a3f6f2c11"
#define MSG(ch, mt) "{\"ev\":\"msg\",\"seq\":7,\"t\":5,\"ch\":\"" ch "\",\"mt\":\"" mt "\",\"pid\":\"p1\",\"cell\":\"" CELL "\"}"

static void test_content_of_the_kernel_is_copied_as_it_is_on_one_line(void **state)
{
    (void)state;
    struct event e;
    const char *parts[] = {"{}", "{}", "{}", "{\"name\": \"stdout\",\n\"text\":\r \"a\\n\",\"seq\":99, \"x\": 1e400}"};
    assert_int_equal(make(&e, MSG("iopub", "stream"), parts, 4), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_PLAIN);
    assert_string_equal(e.ev.type, "stream");
    assert_string_equal(e.ev.cell, CELL);
    assert_int_equal(e.ev.seq, 7);
    json_is(&e, "{\"seq\":7,\"type\":\"stream\",\"t\":5,\"cell\":\"" CELL
                "\",\"content\":{\"name\": \"stdout\", \"text\":  \"a\\n\",\"seq\":99, \"x\": 1e400}}");
    drop(&e);
}

static void test_message_types_have_their_names_in_v1(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"display_data", "display"}, {"update_display_data", "update_display"}, {"execute_result", "result"},
        {"error", "error"},          {"status", "status"},                      {"execute_input", "code"},
    };
    const char *parts[] = {"{}", "{}", "{}", "{}"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char header[200];
        struct event e;
        snprintf(header, sizeof header, "{\"ev\":\"msg\",\"seq\":1,\"ch\":\"iopub\",\"mt\":\"%s\",\"pid\":\"p1\"}", pairs[i][0]);
        assert_int_equal(make(&e, header, parts, 4), 0);
        assert_int_equal(e.ev.kind, V1_EVENT_PLAIN);
        assert_string_equal(e.ev.type, pairs[i][1]);
        drop(&e);
    }
}

static void test_a_cell_of_the_jupyter_door_is_known_by_its_message(void **state)
{
    (void)state;
    struct event e;
    const char *parts[] = {"{}", "{}", "{}", "{\"a\":1}"};
    assert_int_equal(make(&e, "{\"ev\":\"msg\",\"seq\":1,\"ch\":\"iopub\",\"mt\":\"stream\",\"pid\":\"p1\"}", parts, 4), 0);
    json_is(&e, "{\"seq\":1,\"type\":\"stream\",\"msg_id\":\"p1\",\"content\":{\"a\":1}}");
    drop(&e);
}

static void test_replies_and_unknown_messages_are_not_for_v1(void **state)
{
    (void)state;
    struct event e;
    const char *parts[] = {"{}", "{}", "{}", "{}"};
    assert_int_equal(make(&e, MSG("shell", "stream"), parts, 4), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_SKIP);
    drop(&e);
    assert_int_equal(make(&e, MSG("iopub", "debug_event"), parts, 4), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_SKIP);
    drop(&e);
    assert_int_equal(make(&e, "{\"ev\":\"from_the_future\",\"seq\":3}", parts, 0), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_SKIP);
    drop(&e);
    assert_int_equal(make(&e, "{\"re\":3}", parts, 0), -1);
    drop(&e);
}

static void test_events_of_the_bridge(void **state)
{
    (void)state;
    struct event e;
    const char *prompt[] = {"name? \"\n"}, *artifact[] = {"{\"path\":\"/a\"}"}, *cell[] = {"{\"id\":\"x\"}"};
    assert_int_equal(make(&e, "{\"ev\":\"input\",\"seq\":2,\"cell\":\"" CELL "\",\"password\":true}", prompt, 1), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_INPUT);
    json_is(&e, "{\"seq\":2,\"type\":\"input\",\"cell\":\"" CELL "\",\"password\":true,\"prompt\":\"name? \\\"\\n\"}");
    drop(&e);
    assert_int_equal(make(&e, "{\"ev\":\"artifact\",\"seq\":3}", artifact, 1), 0);
    json_is(&e, "{\"seq\":3,\"type\":\"artifact\",\"artifact\":{\"path\":\"/a\"}}");
    drop(&e);
    assert_int_equal(make(&e, "{\"ev\":\"cell\",\"seq\":4,\"cell\":\"" CELL "\",\"status\":\"ok\"}", cell, 1), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_DONE);
    assert_true(ck_slice_is(e.ev.finished, "{\"id\":\"x\"}"));
    json_is(&e, "{\"seq\":4,\"type\":\"done\",\"cell\":\"" CELL "\",\"status\":\"ok\",\"finished\":{\"id\":\"x\"}}");
    drop(&e);
    assert_int_equal(make(&e, "{\"ev\":\"gap\",\"from\":5,\"to\":9,\"count\":5,\"bytes\":100}", cell, 0), 0);
    assert_int_equal(e.ev.kind, V1_EVENT_GAP);
    assert_int_equal(e.ev.gap_from, 5);
    assert_int_equal(e.ev.gap_to, 9);
    json_is(&e, "{\"seq\":0,\"type\":\"gap\",\"from\":5,\"to\":9,\"count\":5,\"bytes\":100}");
    drop(&e);
}

static void test_missing_parts_do_no_harm(void **state)
{
    (void)state;
    struct event e;
    assert_int_equal(make(&e, MSG("iopub", "stream"), NULL, 0), 0);
    json_is(&e, "{\"seq\":7,\"type\":\"stream\",\"t\":5,\"cell\":\"" CELL "\",\"content\":{}}");
    drop(&e);
    assert_int_equal(make(&e, "{\"ev\":\"cell\",\"seq\":4}", NULL, 0), 0);
    assert_true(ck_slice_is(e.ev.finished, "{}"));
    drop(&e);
    assert_int_equal(make(&e, "{\"ev\":\"input\",\"seq\":4}", NULL, 0), 0);
    json_is(&e, "{\"seq\":4,\"type\":\"input\",\"prompt\":\"\"}");
    drop(&e);
}

static void test_where_a_reader_goes_on(void **state)
{
    (void)state;
    uint64_t seq;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_event_position(NULL, NULL, &seq, &err), 0);
    assert_int_equal(seq, 0);
    assert_int_equal(v1_event_position(NULL, "12", &seq, &err), 0);
    assert_int_equal(seq, 12);
    assert_int_equal(v1_event_position("41", "12", &seq, &err), 0);
    assert_int_equal(seq, 42);
    assert_int_equal(v1_event_position("", "now", &seq, &err), 1);
    assert_int_equal(v1_event_position(NULL, "-1", &seq, &err), -1);
    assert_int_equal(v1_event_position("1x", NULL, &seq, &err), -1);
    assert_int_equal(v1_event_position(NULL, "9999999999999999999", &seq, &err), -1);
    assert_int_equal(err.status, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content_of_the_kernel_is_copied_as_it_is_on_one_line),
        cmocka_unit_test(test_message_types_have_their_names_in_v1),
        cmocka_unit_test(test_a_cell_of_the_jupyter_door_is_known_by_its_message),
        cmocka_unit_test(test_replies_and_unknown_messages_are_not_for_v1),
        cmocka_unit_test(test_events_of_the_bridge),
        cmocka_unit_test(test_missing_parts_do_no_harm),
        cmocka_unit_test(test_where_a_reader_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
