// QMP bytes: classification, line splitting in any pieces, caps.
#include "vmm/qmp_codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ck_qmp_msg parse(const char *line)
{
    struct ck_qmp_msg m;
    assert_int_equal(ck_qmp_parse_line(line, strlen(line), &m, NULL), 0);
    return m;
}

static void messages_are_told_apart(void **state)
{
    (void)state;
    struct ck_qmp_msg m = parse("{\"QMP\": {\"version\": {}, \"capabilities\": []}}");
    assert_int_equal(m.kind, CK_QMP_GREETING);
    ck_qmp_msg_clear(&m);
    m = parse("{\"return\": {\"status\": \"running\"}, \"id\": 7}");
    assert_int_equal(m.kind, CK_QMP_RETURN);
    assert_int_equal(m.id, 7);
    assert_string_equal(json_string_value(json_object_get(m.body, "status")), "running");
    ck_qmp_msg_clear(&m);
    m = parse("{\"id\": 8, \"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}");
    assert_int_equal(m.kind, CK_QMP_ERROR);
    assert_string_equal(m.desc, "no");
    ck_qmp_msg_clear(&m);
    m = parse("{\"timestamp\": {}, \"event\": \"STOP\"}");
    assert_int_equal(m.kind, CK_QMP_EVENT);
    assert_string_equal(m.name, "STOP");
    assert_null(m.body);
    ck_qmp_msg_clear(&m);
}

static void odd_ids_and_missing_texts_do_no_harm(void **state)
{
    (void)state;
    struct ck_qmp_msg m = parse("{\"return\": {}, \"id\": \"seven\"}");
    assert_int_equal(m.id, 0);
    ck_qmp_msg_clear(&m);
    m = parse("{\"return\": {}, \"id\": -3}");
    assert_int_equal(m.id, 0);
    ck_qmp_msg_clear(&m);
    m = parse("{\"error\": {}}");
    assert_string_equal(m.desc, "no description");
    ck_qmp_msg_clear(&m);
}

static void what_is_no_message_is_refused(void **state)
{
    (void)state;
    const char *bad[] = {"", "{", "[]", "null", "{}", "{\"event\": 3}", "{\"error\": 1}", "{\"QMP\": 1}", "\xff\xfe",
                         "{\"return\":1,\"return\":2}", "{\"event\":\"X\"} {}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ck_qmp_msg m;
        struct ck_err e = CK_ERR_INIT;
        assert_true(ck_qmp_parse_line(bad[i], strlen(bad[i]), &m, &e) < 0);
        assert_string_equal(e.reason, "bad_qmp");
    }
}

static void lines_come_out_whole_however_they_arrive(void **state)
{
    (void)state;
    const char *text = "one\r\n\r\ntwo\n\nthree\r\nrest";
    const char *want[] = {"one", "two", "three"};
    for (size_t step = 1; step < 30; step++) {
        struct ck_qmp_lines l = CK_QMP_LINES_INIT;
        int n = 0;
        for (size_t i = 0, len = strlen(text); i < len; i += step) {
            assert_int_equal(ck_qmp_lines_feed(&l, text + i, len - i < step ? len - i : step, NULL), 0);
            struct ck_slice line;
            size_t taken;
            while (ck_qmp_lines_next(&l, &line, &taken, NULL) == 1) {
                assert_true(n < 3 && ck_slice_is(line, want[n]));
                n++;
                ck_qmp_lines_take(&l, taken);
            }
        }
        assert_int_equal(n, 3);
        ck_qmp_lines_free(&l);
    }
}

static void a_line_without_end_is_refused_at_the_cap(void **state)
{
    (void)state;
    struct ck_qmp_lines l = CK_QMP_LINES_INIT;
    struct ck_slice line;
    size_t taken, n = 64 * 1024, fed = 0;
    char *junk = malloc(n);
    memset(junk, 'x', n);
    int rc = 0;
    while (!rc && fed <= 2u * CK_QMP_LINE_MAX) {
        assert_int_equal(ck_qmp_lines_feed(&l, junk, n, NULL), 0);
        fed += n;
        rc = ck_qmp_lines_next(&l, &line, &taken, NULL);
    }
    assert_true(rc < 0);
    assert_true(fed <= CK_QMP_LINE_MAX + n);
    free(junk);
    ck_qmp_lines_free(&l);
}

static void commands_are_one_line_of_json(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    json_t *args = json_pack("{s:s}", "filename", "a\nb\"c");
    assert_int_equal(ck_qmp_encode("xen-save-devices-state", args, 12, &b), 0);
    json_decref(args);
    assert_int_equal(b.p[b.n - 1], '\n');
    assert_null(memchr(b.p, '\n', b.n - 1));
    json_t *j = json_loadb((char *)b.p, b.n, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "execute")), "xen-save-devices-state");
    assert_int_equal(json_integer_value(json_object_get(j, "id")), 12);
    assert_string_equal(json_string_value(json_object_get(json_object_get(j, "arguments"), "filename")), "a\nb\"c");
    json_decref(j);
    ck_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_told_apart),
        cmocka_unit_test(odd_ids_and_missing_texts_do_no_harm),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(lines_come_out_whole_however_they_arrive),
        cmocka_unit_test(a_line_without_end_is_refused_at_the_cap),
        cmocka_unit_test(commands_are_one_line_of_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
