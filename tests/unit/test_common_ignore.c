// Patterns of folder names: what they match, what is refused, and that no pattern takes long.
#include "common/ck_clean.h"
#include "common/ck_ignore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void patterns_match_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool match;
    } rows[] = {
        {".cache", ".cache", true},      {".cache", ".cache2", false},    {".cache", "x.cache", false},
        {"*", "anything", true},         {"*", "", true},                 {"?", "", false},
        {"*.egg-info", "a.egg-info", true}, {"*.egg-info", "a.egg-inf", false}, {"v?", "v1", true},
        {"v?", "v", false},              {"v?", "v12", false},            {"a*b*c", "a--b--b-c", true},
        {"a*b*c", "a--c--b", false},     {"**", "x", true},               {"a*", "a", true},
        {"[ab]", "a", false},            {"[ab]", "[ab]", true},          {"\\*", "*", false},
        {"Data", "data", false},         {"d\xc3\xa9tail", "d\xc3\xa9tail", true}, {"*b", "ab\xff""b", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ck_ignore_match(rows[i].pattern, rows[i].name) != rows[i].match)
            fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].name);
}

// With fnmatch() this would not end.
static void the_worst_pattern_ends(void **state)
{
    (void)state;
    char pattern[CK_IGNORE_LEN_MAX + 1], name[256];
    for (size_t i = 0; i < CK_IGNORE_LEN_MAX; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[CK_IGNORE_LEN_MAX - 1] = 'b';
    pattern[CK_IGNORE_LEN_MAX] = 0;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_false(ck_ignore_match(pattern, name));
}

static void lists_are_checked(void **state)
{
    (void)state;
    char longest[CK_IGNORE_LEN_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    struct ck_err err = CK_ERR_INIT;
    CK_CLEAN_JSON json_t *good = json_pack("[s,s,s]", ".cache", "*.tmp", longest + 1), *none = json_array();
    assert_int_equal(ck_ignore_check(good, "artifact_ignore", &err), 0);
    assert_int_equal(ck_ignore_check(none, "artifact_ignore", &err), 0);
    json_t *bad[] = {json_string("x"), json_object(),           json_pack("[i]", 1),      json_pack("[s]", ""),
                     json_pack("[s]", longest), json_pack("[s]", "a/b"), json_pack("[s]", "a\nb"), json_pack("[s#]", "a\0b", 3),
                     json_array()};
    for (size_t i = 0; i < CK_IGNORE_MAX + 1; i++)
        json_array_append_new(bad[8], json_string("x"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ck_err e = CK_ERR_INIT;
        assert_int_equal(ck_ignore_check(bad[i], "artifact_ignore", &e), -1);
        assert_int_equal(e.status, 400);
        assert_string_equal(e.reason, "bad_field");
        assert_non_null(strstr(e.text, "artifact_ignore"));
        json_decref(bad[i]);
    }
}

static void an_option_becomes_a_list(void **state)
{
    (void)state;
    CK_CLEAN_JSON json_t *list = ck_ignore_split("a,*.b,,c"), *none = ck_ignore_split("");
    assert_int_equal(json_array_size(list), 4);
    assert_string_equal(json_string_value(json_array_get(list, 1)), "*.b");
    assert_string_equal(json_string_value(json_array_get(list, 2)), ""); // which the check refuses
    assert_int_equal(json_array_size(none), 0);
    assert_null(ck_ignore_split("a,\xff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_whole_names),
        cmocka_unit_test(the_worst_pattern_ends),
        cmocka_unit_test(lists_are_checked),
        cmocka_unit_test(an_option_becomes_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
