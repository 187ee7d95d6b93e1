// The validator against a table and against jansson; the object parser's errors; the getters.
#include "common/ck_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const good[] = {
    "0", "-0", "1", "-1.5e+10", "0.0", "1E400", "123456789012345678901234567890", "\"\"", "\"\\u0041\\n\\\\\"",
    "true", "false", "null", "[]", "{}", " [ ] ", "[1,2,[3,{}],{\"a\":null}]", "{\"a\":1,\"b\":{\"c\":[]}}",
    "\t\r\n{\"k\" : \"v\"}\n", "\"\xC3\xA9\"", "\"\xF4\x8F\xBF\xBF\"", "\"\x7f\"", "\"\\u0000\"",
    "{\"a\":1,\"a\":2}", "\"\\ud83d\\ude00\"",
    // Escaped lone surrogates are RFC 8259 grammar, and JSON.parse and Python's json take them.
    "\"\\ud800\"", "\"\\udc00x\"",
};

static const char *const bad[] = {
    "", " ", "tru", "truee", "nul", "True", "NaN", "Infinity", "-Infinity", "-", "+1", "01", "-01", "1.", ".5", "1e",
    "1e+", "0x10", "1 2", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{", "}", "{\"a\"", "{\"a\":", "{\"a\":1",
    "{\"a\":1,", "{\"a\":1,}", "{a:1}", "{1:2}", "{\"a\" 1}", "{\"a\":1]", "[1}", "[]]", "{}{}", "\"", "\"a", "\"\\",
    "\"\\x41\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "\"\t\"", "'a'", "\"\x80\"", "\"\xC0\x80\"", "\"\xC3\"",
    "\"\xED\xA0\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE0\x80\x80\"", "\"\xFF\"",
    "\xEF\xBB\xBF{}", "//c\n1", "/*c*/1", "[1]\x0b", "nulll", "\xC2\xA0\x31",
};

static void the_table_of_good_texts_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!ck_json_valid(good[i], strlen(good[i]), NULL))
            fail_msg("refused: %s", good[i]);
}

static void the_table_of_bad_texts_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t at = 12345, n = strlen(bad[i]);
        if (ck_json_valid(bad[i], n, &at))
            fail_msg("accepted: %s", bad[i]);
        if (at > n)
            fail_msg("offset %zu is outside of: %s", at, bad[i]);
    }
    assert_false(ck_json_valid("1\0", 2, NULL));
    assert_false(ck_json_valid("\"\0\"", 3, NULL));
}

static void every_truncation_of_a_document_is_refused(void **state)
{
    (void)state;
    static const char doc[] = "{\"a\":[1,-2.5e3,\"x\\u00e9\\n\xE2\x82\xAC\",true,null],\"b\":{\"c\":false}}";
    size_t n = sizeof doc - 1;
    assert_true(ck_json_valid(doc, n, NULL));
    for (size_t i = 0; i < n; i++) {
        char *exact = malloc(i ? i : 1); // so that ASan sees one byte read too far
        memcpy(exact, doc, i);
        assert_false(ck_json_valid(exact, i, NULL));
        free(exact);
    }
}

static bool nested(char open, char close, unsigned depth, const char *inner)
{
    struct ck_buf b = CK_BUF_INIT;
    for (unsigned i = 0; i < depth; i++)
        ck_buf_add_str(&b, open == '{' ? "{\"k\":" : "[");
    ck_buf_add_str(&b, inner);
    for (unsigned i = 0; i < depth; i++)
        ck_buf_add(&b, &close, 1);
    bool ok = ck_json_valid(b.p, b.n, NULL);
    ck_buf_free(&b);
    return ok;
}

static void depth_is_bounded_exactly(void **state)
{
    (void)state;
    assert_true(nested('[', ']', CK_JSON_DEPTH_MAX, "1"));
    assert_false(nested('[', ']', CK_JSON_DEPTH_MAX + 1, "1"));
    assert_true(nested('[', ']', CK_JSON_DEPTH_MAX - 1, "[]"));
    assert_false(nested('[', ']', CK_JSON_DEPTH_MAX, "[]"));
    assert_true(nested('{', '}', CK_JSON_DEPTH_MAX, "null"));
    assert_false(nested('{', '}', CK_JSON_DEPTH_MAX + 1, "null"));
    assert_false(nested('{', '}', CK_JSON_DEPTH_MAX, "{}"));
}

static void a_depth_bomb_is_refused_at_once(void **state)
{
    (void)state;
    size_t n = 8u << 20;
    char *bomb = malloc(n);
    memset(bomb, '[', n);
    size_t at = 0;
    assert_false(ck_json_valid(bomb, n, &at));
    assert_true(at <= CK_JSON_DEPTH_MAX + 1);
    free(bomb);
}

// A random text that is JSON, or nearly: a generator, then up to three mutations.
static void generate(struct ck_buf *b, int depth)
{
    static const char *const leaves[] = {"0", "-1", "3.5e-2", "true", "false", "null", "\"\"", "\"a\\\"b\"",
                                         "\"\xC3\xA9\"", "\"\\u20ac\"", "12345", "{}", "[]"};
    int kind = depth > 4 ? 0 : rand() % 4;
    if (kind < 2) {
        ck_buf_add_str(b, leaves[(size_t)rand() % (sizeof leaves / sizeof *leaves)]);
        return;
    }
    ck_buf_add_str(b, kind == 2 ? "[" : "{");
    int n = rand() % 4;
    for (int i = 0; i < n; i++) {
        if (i)
            ck_buf_add_str(b, rand() % 3 ? "," : " , ");
        if (kind == 3)
            ck_buf_printf(b, "\"k%d\":", i);
        generate(b, depth + 1);
    }
    ck_buf_add_str(b, kind == 2 ? "]" : "}");
}

static void mutate(struct ck_buf *b)
{
    static const char alphabet[] = "{}[],:\"\\0123456789.eE+-tfn u\n\xC3\xA9\xFF";
    for (int k = rand() % 4; k > 0 && b->n; k--) {
        size_t i = (size_t)rand() % b->n;
        char c = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        switch (rand() % 3) {
        case 0: b->p[i] = (uint8_t)c; break;
        case 1: b->n = i; break;
        default:
            ck_buf_add(b, &c, 1);
            memmove(b->p + i + 1, b->p + i, b->n - 1 - i);
            b->p[i] = (uint8_t)c;
        }
    }
}

// Where jansson is stricter or laxer by its own choice and not by the grammar.
static bool known_difference(const char *jansson_text)
{
    return strstr(jansson_text, "invalid Unicode") // lone escaped surrogates
           || strstr(jansson_text, "too big") || strstr(jansson_text, "overflow");
}

static void agrees_with_jansson_on_random_texts(void **state)
{
    (void)state;
    srand(7);
    unsigned valid = 0, invalid = 0;
    for (int round = 0; round < 60000; round++) {
        struct ck_buf b = CK_BUF_INIT;
        generate(&b, 0);
        mutate(&b);
        bool ours = ck_json_valid(b.n ? (char *)b.p : "", b.n, NULL);
        json_error_t je;
        json_t *j = json_loadb(b.n ? (char *)b.p : "", b.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
        if (ours != (j != NULL) && !(ours && known_difference(je.text)))
            fail_msg("ours %d, jansson %d (%s): %.*s", ours, j != NULL, j ? "" : je.text, (int)b.n, (char *)b.p);
        if (ours)
            valid++;
        else
            invalid++;
        json_decref(j);
        ck_buf_free(&b);
    }
    assert_true(valid > 10000); // the generator makes both kinds, or the test proves little
    assert_true(invalid > 10000);
}

static void parse_error(const char *text, const char *want)
{
    struct ck_err e = CK_ERR_INIT;
    assert_null(ck_json_parse_object(text, strlen(text), false, &e));
    assert_int_equal(e.status, 400);
    assert_string_equal(e.reason, "bad_json");
    if (!strstr(e.text, want))
        fail_msg("\"%s\" not in \"%s\"", want, e.text);
}

static void parse_errors_name_line_and_column(void **state)
{
    (void)state;
    parse_error("{\"a\":1,\n\"b\":}", "line 2 column 5");
    parse_error("{", "line 1 column 2");
    parse_error("", "line 1 column 1");
    parse_error("{\"a\":1,\n \"a\":2}", "line 2");
    parse_error("[1]", "object");
    parse_error("3", "object");
}

static void parse_errors_do_not_repeat_the_input(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":1,\"sEcReT\":2,\"sEcReT\":3}", "{\"code\":\"sEcReT\\ud800\"}",
                                        "{\"code\":\"sEcReT}", "{\"a\":99999999999999999999999,\"sEcReT\":1}"};
    for (size_t i = 0; i < 4; i++) {
        struct ck_err e = CK_ERR_INIT;
        assert_null(ck_json_parse_object(texts[i], strlen(texts[i]), false, &e));
        assert_null(strstr(e.text, "sEcReT"));
    }
}

static void an_empty_body_is_an_object_only_when_allowed(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    json_t *j = ck_json_parse_object("", 0, true, &e);
    assert_non_null(j);
    assert_int_equal(json_object_size(j), 0);
    json_decref(j);
    assert_null(ck_json_parse_object("", 0, false, &e));
    assert_null(ck_json_parse_object("  ", 2, true, &e));
}

static void getters_use_defaults_and_refuse_wrong_types(void **state)
{
    (void)state;
    static const char text[] = "{\"s\":\"x\",\"i\":5,\"b\":true,\"o\":{},\"n\":null,\"r\":1.5}";
    struct ck_err e = CK_ERR_INIT;
    json_t *j = ck_json_parse_object(text, sizeof text - 1, false, &e);
    assert_non_null(j);
    assert_string_equal(ck_json_str(j, "s", "d", &e), "x");
    assert_string_equal(ck_json_str(j, "none", "d", &e), "d");
    assert_string_equal(ck_json_str(j, "n", "d", &e), "d");
    assert_int_equal(ck_json_int(j, "i", -1, &e), 5);
    assert_int_equal(ck_json_int(j, "n", -1, &e), -1);
    assert_true(ck_json_bool(j, "b", false, &e));
    assert_non_null(ck_json_obj(j, "o", &e));
    assert_null(ck_json_obj(j, "n", &e));
    assert_null(ck_json_obj(j, "none", &e));
    assert_int_equal(e.status, 0);
    assert_int_equal(ck_json_int(j, "r", -1, &e), -1);
    assert_int_equal(e.status, 400);
    assert_string_equal(e.reason, "bad_field");
    assert_string_equal(e.text, "field \"r\" must be a whole number");
    assert_string_equal(ck_json_str(j, "i", "d", &e), "d"); // the first error stays
    assert_string_equal(e.text, "field \"r\" must be a whole number");
    assert_false(ck_json_bool(j, "s", false, NULL));
    assert_null(ck_json_obj(j, "s", NULL));
    assert_string_equal(ck_json_str(NULL, "s", "d", &e), "d");
    json_decref(j);
}

static void dump_is_compact_and_appends(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    ck_buf_add_str(&b, "x");
    json_t *j = json_pack("{s:[i,n]}", "a", 1);
    assert_int_equal(ck_json_dump(j, &b), 0);
    json_t *s = json_string("q");
    assert_int_equal(ck_json_dump(s, &b), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "x{\"a\":[1,null]}\"q\""));
    b.cap = b.n;
    assert_int_equal(ck_json_dump(j, &b), -1);
    json_decref(s);
    json_decref(j);
    ck_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_good_texts_is_accepted),
        cmocka_unit_test(the_table_of_bad_texts_is_refused),
        cmocka_unit_test(every_truncation_of_a_document_is_refused),
        cmocka_unit_test(depth_is_bounded_exactly),
        cmocka_unit_test(a_depth_bomb_is_refused_at_once),
        cmocka_unit_test(agrees_with_jansson_on_random_texts),
        cmocka_unit_test(parse_errors_name_line_and_column),
        cmocka_unit_test(parse_errors_do_not_repeat_the_input),
        cmocka_unit_test(an_empty_body_is_an_object_only_when_allowed),
        cmocka_unit_test(getters_use_defaults_and_refuse_wrong_types),
        cmocka_unit_test(dump_is_compact_and_appends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
