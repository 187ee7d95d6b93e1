// The iopub rate limit: what counts, when it begins, when it ends.
#include "gateway/jupyter_rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct jup_rate r;
static const struct jup_rate_limits ms_1000 = {.msgs = 1000, .window_ms = 3000};
static const struct jup_rate_limits mb_1 = {.bytes = 1000000, .window_ms = 3000};
static const struct jup_rate_limits both = {.msgs = 10, .bytes = 1000, .window_ms = 1000};

static struct ck_slice text(const char *s) { return ck_slice_str(s); }

static enum jup_rate_verdict stream(const struct jup_rate_limits *l, int64_t now, uint64_t bytes)
{
    return jup_rate_take(&r, l, now, "stream", text("{\"name\":\"stdout\"}"), bytes);
}

static int fresh(void **state)
{
    (void)state;
    r = (struct jup_rate){.newest = 0};
    return 0;
}

static void a_burst_of_as_many_as_the_window_allows_passes(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++)
        assert_int_equal(stream(&ms_1000, 500000, 70), JUP_RATE_PASS);
    assert_int_equal(stream(&ms_1000, 500000, 70), JUP_RATE_TELL_MSGS);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(stream(&ms_1000, 500010, 70), JUP_RATE_DROP); // told once
}

static void bytes_count_for_streams_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(jup_rate_take(&r, &mb_1, 0, "display_data", text("{}"), 5000000), JUP_RATE_PASS);
    for (int i = 0; i < 60; i++)
        assert_int_equal(stream(&mb_1, 0, 50000), JUP_RATE_PASS);
    assert_int_equal(stream(&mb_1, 0, 1), JUP_RATE_TELL_BYTES);
    assert_int_equal(jup_rate_take(&r, &mb_1, 0, "display_data", text("{}"), 10), JUP_RATE_DROP); // all but the exempt
}

static void status_comm_open_and_execute_input_never_count(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(jup_rate_take(&r, &both, 0, "comm_open", text("{}"), 9999), JUP_RATE_PASS);
        assert_int_equal(jup_rate_take(&r, &both, 0, "execute_input", text("{}"), 9999), JUP_RATE_PASS);
        assert_int_equal(jup_rate_take(&r, &both, 0, "status", text("{\"execution_state\":\"busy\"}"), 9999), JUP_RATE_PASS);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(stream(&both, 0, 1), JUP_RATE_PASS);
    assert_int_equal(stream(&both, 0, 1), JUP_RATE_TELL_MSGS);
    assert_int_equal(jup_rate_take(&r, &both, 0, "status", text("{\"execution_state\":\"busy\"}"), 1), JUP_RATE_PASS);
    assert_int_equal(stream(&both, 0, 1), JUP_RATE_DROP);
}

static void idle_starts_afresh(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++)
        stream(&both, 0, 1);
    assert_int_equal(jup_rate_take(&r, &both, 0, "status", text("{ \"execution_state\" : \"idle\"}"), 1), JUP_RATE_PASS);
    assert_int_equal(stream(&both, 0, 1), JUP_RATE_PASS);
}

static void it_goes_on_below_four_fifths(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(stream(&both, i * 100, 1), JUP_RATE_PASS);
    assert_int_equal(stream(&both, 950, 1), JUP_RATE_TELL_MSGS);
    assert_int_equal(stream(&both, 1120, 1), JUP_RATE_DROP); // 8 in the window and this one: not below 8
    assert_int_equal(stream(&both, 1420, 1), JUP_RATE_PASS); // 5 and this one
    assert_int_equal(stream(&both, 1430, 1), JUP_RATE_PASS);
}

static void a_long_pause_empties_the_window(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++)
        stream(&both, 5, 100);
    assert_int_equal(stream(&both, 1000000007, 1), JUP_RATE_PASS);
    assert_int_equal(stream(&both, 1000000008, 999), JUP_RATE_PASS);
    assert_int_equal(stream(&both, 1000000009, 1), JUP_RATE_TELL_BYTES);
}

static void the_texts_begin_as_clients_know_them(void **state)
{
    (void)state;
    char out[400];
    jup_rate_text(out, sizeof out, JUP_RATE_TELL_MSGS, &both);
    assert_memory_equal(out, "IOPub message rate exceeded.\n", 29);
    assert_non_null(strstr(out, "--iopub-msg-rate-limit=10 "));
    jup_rate_text(out, sizeof out, JUP_RATE_TELL_BYTES, &both);
    assert_memory_equal(out, "IOPub data rate exceeded.\n", 26);
    assert_non_null(strstr(out, "--iopub-data-rate-limit=1000 "));
    assert_non_null(strstr(out, "--rate-limit-window=1 "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_burst_of_as_many_as_the_window_allows_passes, fresh),
        cmocka_unit_test_setup(bytes_count_for_streams_alone, fresh),
        cmocka_unit_test_setup(status_comm_open_and_execute_input_never_count, fresh),
        cmocka_unit_test_setup(idle_starts_afresh, fresh),
        cmocka_unit_test_setup(it_goes_on_below_four_fifths, fresh),
        cmocka_unit_test_setup(a_long_pause_empties_the_window, fresh),
        cmocka_unit_test_setup(the_texts_begin_as_clients_know_them, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
