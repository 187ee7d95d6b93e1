// What the command line reads from the gateway and shows or writes: event streams, text, file names.
#include "gateway/cli_run.h"
#include "gateway/cli_show.h"
#include "gateway/cli_sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char seen[1024];
static int collect(void *ctx, const char *event, uint64_t id, const char *data, size_t n)
{
    (void)ctx;
    assert_int_equal(strlen(data), n);
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof seen - used, "[%s %llu %s]", event, (unsigned long long)id, data);
    return !strcmp(data, "stop") ? 7 : 0;
}

static void test_an_event_stream_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const char stream[] = ": keep-alive\n\nid: 17\nevent: stream\ndata: {\"a\":1}\n\nretry: 5\ndata: x\ndata: y\n\n"
                                 "event: empty\n\nid: 18\r\nevent:done\r\ndata:z\r\n\r\nevent: cut\ndata: never";
    static const char want[] = "[stream 17 {\"a\":1}][message 0 x\ny][done 18 z]";
    for (size_t step = 1; step < sizeof stream; step++) {
        struct cli_sse s;
        cli_sse_init(&s, collect, NULL);
        seen[0] = '\0';
        for (size_t at = 0; at < sizeof stream - 1; at += step)
            assert_int_equal(cli_sse_feed(&s, stream + at, at + step < sizeof stream - 1 ? step : sizeof stream - 1 - at), 0);
        assert_string_equal(seen, want);
        cli_sse_free(&s);
    }
}

static void test_the_reader_of_events_can_stop(void **state)
{
    (void)state;
    struct cli_sse s;
    cli_sse_init(&s, collect, NULL);
    seen[0] = '\0';
    static const char stream[] = "data: stop\n\ndata: more\n\n";
    assert_int_equal(cli_sse_feed(&s, stream, sizeof stream - 1), 7);
    assert_string_equal(seen, "[message 0 stop]");
    cli_sse_free(&s);
}

static void test_colours_go_when_nobody_would_see_them(void **state)
{
    (void)state;
    char out[200];
    cli_strip_ansi("\x1b[0;31mNameError\x1b[0m: \x1b]8;;http://x\x07name\x1b]8;;\x1b\\ x \x1b(B", out);
    assert_string_equal(out, "NameError: name x B");
    cli_strip_ansi("cut \x1b[31", out);
    assert_string_equal(out, "cut ");
    cli_strip_ansi("cut \x1b]8;;", out);
    assert_string_equal(out, "cut ");
    cli_strip_ansi("cut \x1b", out);
    assert_string_equal(out, "cut ");
}

static void shown(const char *type, const char *json, const char *want_out, const char *want_err)
{
    char *out = NULL, *err_out = NULL;
    size_t n;
    FILE *a = open_memstream(&out, &n), *b = open_memstream(&err_out, &n);
    json_t *o = json_loads(json, 0, NULL);
    assert_non_null(o);
    cli_show_event(type, o, a, b, false);
    json_decref(o);
    fclose(a);
    fclose(b);
    assert_string_equal(out, want_out);
    assert_string_equal(err_out, want_err);
    free(out);
    free(err_out);
}

static void test_events_are_shown_where_they_belong(void **state)
{
    (void)state;
    shown("stream", "{\"content\":{\"name\":\"stdout\",\"text\":\"540\\n\"}}", "540\n", "");
    shown("stream", "{\"content\":{\"name\":\"stderr\",\"text\":\"oops\"}}", "", "oops");
    shown("result", "{\"content\":{\"data\":{\"text/plain\":\"42\"}}}", "42\n", "");
    shown("display", "{\"content\":{\"data\":{\"image/png\":\"aGk=\",\"text/plain\":\"<Figure>\"}}}", "<Figure>\n", "");
    shown("display", "{\"content\":{\"data\":{\"image/png\":\"aGk=\"}}}", "", "");
    shown("error", "{\"content\":{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"\\u001b[31ma\\u001b[0m\",\"b\"]}}", "", "a\nb\n");
    shown("error", "{\"content\":{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[]}}", "", "E: v\n");
    shown("status", "{\"content\":{\"execution_state\":\"idle\"}}", "", "");
    shown("stream", "{\"content\":[]}", "", "");
    shown("error", "{\"content\":{\"traceback\":[1,null]}}", "", "\n\n");
}

static void goes_to(const char *guest, const char *want)
{
    char out[4096];
    struct ck_err err = CK_ERR_INIT;
    if (!want) {
        assert_int_equal(cli_artifact_path("out", guest, out, sizeof out, &err), -1);
        return;
    }
    assert_int_equal(cli_artifact_path("out", guest, out, sizeof out, &err), 0);
    assert_string_equal(out, want);
}

static void test_no_artifact_is_saved_outside_the_folder(void **state)
{
    (void)state;
    goes_to("/home/user/chart.png", "out/chart.png");
    goes_to("/home/user/plots/a.png", "out/plots/a.png");
    goes_to("/tmp/x", "out/tmp/x");
    goes_to("/home/username/x", "out/home/username/x");
    goes_to("/home/user/../../etc/passwd", NULL);
    goes_to("../x", NULL);
    goes_to("x", NULL);
    goes_to("", NULL);
    goes_to("/home/user//x", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_stream_is_the_same_however_it_is_cut),
        cmocka_unit_test(test_the_reader_of_events_can_stop),
        cmocka_unit_test(test_colours_go_when_nobody_would_see_them),
        cmocka_unit_test(test_events_are_shown_where_they_belong),
        cmocka_unit_test(test_no_artifact_is_saved_outside_the_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
