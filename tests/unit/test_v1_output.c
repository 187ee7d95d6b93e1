// Finished cells as a client wants them: what is cut is named and counted, what stays is whole.
#include "gateway/v1_output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char cell[] =
    "{\"id\":\"x\",\"stdout\":\"\\u001b[31m0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 "
    "0123456789 0123456789 0123456789\\u001b[0m\",\"stderr\":\"10%\\r20%\\n\",\"result\":{\"text/plain\":\"t\",\"text/html\":\"<b>\"},"
    "\"displays\":[{\"data\":{\"image/png\":\"iVBO\",\"text/plain\":\"<Figure>\"},\"metadata\":{}},"
    "{\"data\":{\"application/vnd.plotly.v1+json\":{\"a\":[1]},\"text/plain\":\"p\"},\"metadata\":{}}],"
    "\"error\":{\"traceback\":[\"\\u001b[1mT\\u001b[0m\"]},\"truncated\":{\"stdout_bytes\":5,\"stderr_bytes\":0}}";

static json_t *wanted(const char *output)
{
    struct v1_output o;
    struct ck_err err = CK_ERR_INIT;
    json_t *j = json_loads(output, 0, NULL), *out = json_loads(cell, 0, NULL);
    assert_non_null(out);
    assert_int_equal(v1_output_parse(j, &o, &err), 0);
    assert_int_equal(v1_output_apply(&o, out), 0);
    v1_output_free(&o);
    json_decref(j);
    return out;
}

static void same(json_t *o, const char *path, const char *want)
{
    json_t *w = json_loads(want, JSON_DECODE_ANY, NULL), *v = json_object_get(o, path);
    assert_non_null(w);
    if (!json_equal(v, w)) {
        char *text = json_dumps(v, JSON_ENCODE_ANY);
        print_error("%s: %s\n", path, text ? text : "(none)");
        free(text);
        fail();
    }
    json_decref(w);
}

static void test_text_is_plain_and_cut_in_the_middle(void **state)
{
    (void)state;
    json_t *o = wanted("{\"strip_ansi\":true,\"max_text_bytes\":100}");
    same(o, "stdout", "\"0123456789 0123456789 0123456789 0123456789 012345\\n[… 20 bytes left out …]\\n456789 0123456789 0123456789 0123456789 0123456789\"");
    same(o, "truncated", "{\"stdout_bytes\":25,\"stderr_bytes\":0}");
    same(o, "stderr", "\"20%\\n\"");
    same(o, "error", "{\"traceback\":[\"T\"]}");
    same(o, "id", "\"x\"");
    json_decref(o);
}

static void test_types_are_chosen_and_text_is_the_last_resort(void **state)
{
    (void)state;
    json_t *o = wanted("{\"mime_types\":[\"image/*\",\"text/html\"]}");
    same(o, "result", "{\"text/html\":\"<b>\"}");
    same(o, "displays", "[{\"data\":{\"image/png\":\"iVBO\"},\"metadata\":{}},{\"data\":{\"text/plain\":\"p\"},\"metadata\":{}}]");
    json_decref(o);
    o = wanted("{\"mime_types\":[\"application/vnd.plotly.v1+json\"]}");
    same(o, "displays", "[{\"data\":{\"text/plain\":\"<Figure>\"},\"metadata\":{}},"
                        "{\"data\":{\"application/vnd.plotly.v1+json\":{\"a\":[1]}},\"metadata\":{}}]");
    json_decref(o);
}

static void test_nothing_wanted_changes_nothing(void **state)
{
    (void)state;
    json_t *o = wanted("{}"), *w = json_loads(cell, 0, NULL);
    assert_true(json_equal(o, w));
    json_decref(o);
    json_decref(w);
}

static void test_wrong_wishes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"[]", "7", "{\"max\":1}", "{\"strip_ansi\":1}", "{\"max_text_bytes\":99}", "{\"max_text_bytes\":-1}",
                                      "{\"max_text_bytes\":\"9\"}", "{\"max_text_bytes\":67108865}", "{\"mime_types\":[]}",
                                      "{\"mime_types\":\"image/png\"}", "{\"mime_types\":[1]}", "{\"mime_types\":[\"png\"]}",
                                      "{\"mime_types\":[\"/x\"]}", "{\"max_image_edge\":15}", "{\"max_image_edge\":16385}",
                                      "{\"max_image_edge\":1.5}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct v1_output o;
        struct ck_err err = CK_ERR_INIT;
        json_t *j = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        assert_int_equal(v1_output_parse(j, &o, &err), -1);
        assert_int_equal(err.status, 400);
        v1_output_free(&o);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_plain_and_cut_in_the_middle),
        cmocka_unit_test(test_types_are_chosen_and_text_is_the_last_resort),
        cmocka_unit_test(test_nothing_wanted_changes_nothing),
        cmocka_unit_test(test_wrong_wishes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
