// Time stamps, UTF-8 and log lines.
#include "common/ck_log.h"
#include "common/ck_time.h"
#include "common/ck_utf8.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void stamp(int64_t us, const char *want)
{
    char out[CK_ISO8601_MAX];
    ck_iso8601_us(us, out);
    assert_string_equal(out, want);
}

static void time_stamps_always_have_six_digits_and_z(void **state)
{
    (void)state;
    stamp(0, "1970-01-01T00:00:00.000000Z");
    stamp(1, "1970-01-01T00:00:00.000001Z");
    stamp(1764425277184015, "2025-11-29T14:07:57.184015Z");
    stamp(951782400000000, "2000-02-29T00:00:00.000000Z");
    stamp(4102444799999999, "2099-12-31T23:59:59.999999Z");
    stamp(-1, "1969-12-31T23:59:59.999999Z");
    stamp(-1000000, "1969-12-31T23:59:59.000000Z");
    char out[CK_ISO8601_MAX];
    ck_iso8601_us(INT64_MAX, out); // no overflow of the buffer, whatever a guest calls a time
    ck_iso8601_us(INT64_MIN, out);
}

static void the_monotonic_clock_does_not_go_back(void **state)
{
    (void)state;
    int64_t before = ck_mono_us();
    for (int i = 0; i < 1000; i++) {
        int64_t now = ck_mono_us();
        assert_true(now >= before);
        before = now;
    }
    assert_true(ck_wall_us() > 1700000000000000);
}

// All of Unicode is accepted in its one form, and nothing beside it.
static size_t encode(uint32_t c, uint8_t *p)
{
    if (c < 0x80) {
        p[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (uint8_t)(0xC0 | c >> 6);
        p[1] = (uint8_t)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (uint8_t)(0xE0 | c >> 12);
        p[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        p[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    p[0] = (uint8_t)(0xF0 | c >> 18);
    p[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    p[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    p[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

static void utf8_accepts_every_character_and_no_surrogate(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t p[4];
        size_t n = encode(c, p), got = ck_utf8_char(p, n);
        size_t want = c >= 0xD800 && c <= 0xDFFF ? 0 : n;
        if (got != want)
            fail_msg("U+%04X: length %zu, expected %zu", c, got, want);
        if (n > 1 && ck_utf8_char(p, n - 1) != 0)
            fail_msg("U+%04X: accepted when cut short", c);
    }
    uint8_t p[4];
    assert_int_equal(ck_utf8_char(p, encode(0x110000, p)), 0);
}

static void utf8_refuses_overlong_forms_and_names_the_place(void **state)
{
    (void)state;
    static const char *const bad[] = {"\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80", "\xE0\x9F\xBF",
                                      "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\x80",         "\xFE"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[16];
        size_t where = 99;
        snprintf(text, sizeof text, "ab\xC3\xA9%s", bad[i]);
        assert_false(ck_utf8_valid(text, strlen(text), &where));
        assert_int_equal(where, 4);
    }
    assert_true(ck_utf8_valid("", 0, NULL));
}

static size_t logged(int fd, char *out, size_t room)
{
    lseek(fd, 0, SEEK_SET);
    ssize_t n = read(fd, out, room - 1);
    out[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static int scratch(void)
{
    FILE *f = tmpfile();
    int fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3);
    fclose(f);
    return fd;
}

static void a_log_line_is_one_line(void **state)
{
    (void)state;
    int fd = scratch();
    char text[8192];
    ck_log_to(fd);
    ck_log(CK_LOG_INFO, "unit", "event name=%s", "a\nb\x1b[31m\x7f");
    ck_log(CK_LOG_DEBUG, "unit", "%s", "not shown");
    size_t n = logged(fd, text, sizeof text);
    ck_log_to(STDERR_FILENO);
    close(fd);
    assert_non_null(strstr(text, "info  unit event name=a\\x0ab\\x1b[31m\\x7f\n"));
    assert_null(strstr(text, "not shown"));
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

static void a_long_log_line_is_cut(void **state)
{
    (void)state;
    int fd = scratch();
    static char big[100000], text[200000];
    memset(big, '\n', sizeof big - 1); // each would grow to four characters
    ck_log_to(fd);
    ck_log(CK_LOG_WARN, "unit", "long %s", big);
    size_t n = logged(fd, text, sizeof text);
    ck_log_to(STDERR_FILENO);
    close(fd);
    assert_true(n <= 2048);
    assert_int_equal(text[n - 1], '\n');
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral" // the place of a format string is what is tested
static void a_storm_of_lines_is_held_back_even_when_two_places_alternate(void **state)
{
    (void)state;
    // Two places that share a slot must share its budget, not reset it for each other.
    static const char formats[64][16] = {"storm one", [32] = "storm two"};
    int fd = scratch();
    static char text[1 << 20];
    ck_log_to(fd);
    for (int round = 0; round < 400; round++)
        for (int i = 0; i < 2; i++)
            ck_log(CK_LOG_INFO, "unit", i ? formats[0] : formats[32], 0); // 512 bytes apart: the same slot
    size_t n = logged(fd, text, sizeof text), lines = 0;
    ck_log_to(STDERR_FILENO);
    close(fd);
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    assert_true(lines >= 50);
    assert_true(lines <= 150); // 50 a second; the loop may cross one or two seconds
}

static void level_names_are_known(void **state)
{
    (void)state;
    enum ck_log_level l = CK_LOG_INFO;
    assert_true(ck_log_level_from_name("error", &l));
    assert_int_equal(l, CK_LOG_ERROR);
    assert_false(ck_log_level_from_name("loud", &l));
    assert_int_equal(l, CK_LOG_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_stamps_always_have_six_digits_and_z),
        cmocka_unit_test(the_monotonic_clock_does_not_go_back),
        cmocka_unit_test(utf8_accepts_every_character_and_no_surrogate),
        cmocka_unit_test(utf8_refuses_overlong_forms_and_names_the_place),
        cmocka_unit_test(a_log_line_is_one_line),
        cmocka_unit_test(a_long_log_line_is_cut),
        cmocka_unit_test(a_storm_of_lines_is_held_back_even_when_two_places_alternate),
        cmocka_unit_test(level_names_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
