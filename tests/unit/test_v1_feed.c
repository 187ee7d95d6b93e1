// Messages that a client sends on the stream of a session.
#include "gateway/v1_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CELL "0b0e7f0c-6f0f-4c4b-9f2f-0d6a3f6f2c11"

static void refused(const char *json, const char *word)
{
    struct v1_feed_message m;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_feed_message_parse(ck_slice_str(json), &m, &err), -1);
    assert_int_equal(err.status, 400);
    assert_non_null(strstr(err.text, word));
    v1_feed_message_free(&m);
}

static void test_each_verb_is_taken(void **state)
{
    (void)state;
    struct v1_feed_message m;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(v1_feed_message_parse(ck_slice_str("{\"type\":\"execute\",\"ref\":\"r1\",\"code\":\"1+1\",\"stdin\":true}"), &m, &err), 0);
    assert_int_equal(m.verb, V1_FEED_EXECUTE);
    assert_string_equal(m.ref, "r1");
    assert_int_equal(m.execute.code_n, 3);
    assert_int_equal(m.execute.stdin_mode, V1_STDIN_INTERACTIVE);
    v1_feed_message_free(&m);
    assert_int_equal(v1_feed_message_parse(ck_slice_str("{\"type\":\"stdin\",\"cell\":\"" CELL "\",\"value\":\"Ada\"}"), &m, &err), 0);
    assert_int_equal(m.verb, V1_FEED_STDIN);
    assert_string_equal(m.cell, CELL);
    assert_string_equal(m.value, "Ada");
    v1_feed_message_free(&m);
    assert_int_equal(v1_feed_message_parse(ck_slice_str("{\"type\":\"cancel\",\"cell\":\"" CELL "\"}"), &m, &err), 0);
    assert_int_equal(m.verb, V1_FEED_CANCEL);
    v1_feed_message_free(&m);
    assert_int_equal(v1_feed_message_parse(ck_slice_str("{\"type\":\"interrupt\"}"), &m, &err), 0);
    assert_int_equal(m.verb, V1_FEED_INTERRUPT);
    v1_feed_message_free(&m);
}

static void test_wrong_messages_are_told_what_is_wrong(void **state)
{
    (void)state;
    refused("{}", "\"type\"");
    refused("{\"type\":5}", "\"type\"");
    refused("{\"type\":\"restart\"}", "\"type\"");
    refused("{\"type\":\"execute\"}", "\"code\"");
    refused("{\"type\":\"execute\",\"code\":\"x\",\"cell\":\"" CELL "\"}", "cell");
    refused("{\"type\":\"execute\",\"code\":\"x\",\"stdin\":[\"a\"]}", "stdin");
    refused("{\"type\":\"stdin\",\"value\":\"x\"}", "\"cell\"");
    refused("{\"type\":\"stdin\",\"cell\":\"nope\",\"value\":\"x\"}", "\"cell\"");
    refused("{\"type\":\"stdin\",\"cell\":\"" CELL "\"}", "\"value\"");
    refused("{\"type\":\"cancel\",\"cell\":\"" CELL "\",\"now\":true}", "now");
    refused("{\"type\":\"interrupt\",\"cell\":\"" CELL "\"}", "cell");
    refused("{\"type\":\"interrupt\",\"ref\":7}", "\"ref\"");
    refused("not json", "column 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_verb_is_taken),
        cmocka_unit_test(test_wrong_messages_are_told_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
