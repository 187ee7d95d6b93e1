// The event log: numbers, filters, what is dropped first, and gaps that cover exactly what is missing.
#include "kernel-bridge/evlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ck_blob *blob(size_t n)
{
    struct ck_blob *b = ck_blob_new(n);
    memset(b->p, 'b', n);
    return b;
}

static void put(struct evlog *l, enum ev_class class, size_t n)
{
    struct ev_tag tag = {.kind = EV_MSG, .class = class, .channel = JW_IOPUB, .cell = "", .session = ""};
    evlog_append(l, &tag, blob(n));
}

static const struct ev_filter all = {.mode = EV_MODE_ALL};

// Reads everything from `from`; writes "4 7-9 10": events and gaps.
static void trace(const struct evlog *l, uint64_t from, const struct ev_filter *f, char *out, size_t room)
{
    struct evlog_item it;
    enum evlog_got got;
    out[0] = 0;
    while ((got = evlog_read(l, from, f, &it)) != EVLOG_END) {
        size_t n = strlen(out);
        if (got == EVLOG_EVENT)
            snprintf(out + n, room - n, "%s%llu", n ? " " : "", (unsigned long long)it.seq);
        else
            snprintf(out + n, room - n, "%s%llu-%llu", n ? " " : "", (unsigned long long)it.from,
                     (unsigned long long)it.to);
        assert_true(it.next > from);
        from = it.next;
    }
    assert_int_equal(it.next, evlog_next(l));
}

static void numbers_run_from_one_without_holes(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1 << 20);
    char t[200];
    assert_int_equal(evlog_next(l), 1);
    assert_int_equal(evlog_first(l), 1);
    trace(l, 0, &all, t, sizeof t);
    assert_string_equal(t, "");
    for (int i = 0; i < 5; i++)
        put(l, EV_OTHER, 10);
    trace(l, 0, &all, t, sizeof t);
    assert_string_equal(t, "1 2 3 4 5");
    trace(l, 4, &all, t, sizeof t);
    assert_string_equal(t, "4 5");
    trace(l, 6, &all, t, sizeof t);
    assert_string_equal(t, "");
    evlog_free(l);
}

static void streams_go_before_displays_and_displays_before_the_rest(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1 << 20);
    char t[200];
    put(l, EV_OTHER, 1000);   // 1
    put(l, EV_STREAM, 1000);  // 2
    put(l, EV_DISPLAY, 1000); // 3
    put(l, EV_STREAM, 1000);  // 4
    put(l, EV_OTHER, 1000);   // 5
    static const struct {
        size_t keep;
        const char *want;
    } rows[] = {{4500, "1 2-2 3 4 5"}, {3500, "1 2-2 3 4-4 5"}, {2500, "1 2-4 5"}, {1500, "1-4 5"}, {1, "1-4 5"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        evlog_set_cap(l, rows[i].keep + 500); // 100 and some bytes of each record are overhead
        trace(l, 1, &all, t, sizeof t);
        assert_string_equal(t, rows[i].want);
    }
    assert_int_equal(evlog_first(l), 5);
    evlog_free(l);
}

static void the_newest_event_stays_however_large_it_is(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1000);
    char t[200];
    put(l, EV_STREAM, 100);
    put(l, EV_STREAM, 5000);
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1 2");
    put(l, EV_OTHER, 10);
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1 2 3");
    evlog_settle(l);
    evlog_settle(l);
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1-2 3");
    assert_true(evlog_bytes(l) < 1000);
    evlog_free(l);
}

static void a_gap_says_how_much_is_missing(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1 << 20);
    struct evlog_item it;
    put(l, EV_OTHER, 1);
    for (int i = 0; i < 10; i++)
        put(l, EV_STREAM, 1000);
    put(l, EV_OTHER, 1);
    evlog_set_cap(l, 1000);
    assert_int_equal(evlog_read(l, 2, &all, &it), EVLOG_GAP);
    assert_int_equal(it.from, 2);
    assert_int_equal(it.to, 11);
    assert_int_equal(it.count, 10);
    assert_int_equal(it.bytes, 10000);
    assert_int_equal(evlog_read(l, 7, &all, &it), EVLOG_GAP); // a reader that was in the middle
    assert_int_equal(it.from, 7);
    assert_int_equal(it.count, 5);
    evlog_free(l);
}

static void a_lost_append_uses_up_its_number(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1 << 20);
    struct ev_tag tag = {.kind = EV_STATE, .class = EV_OTHER, .cell = "", .session = ""};
    char t[200];
    put(l, EV_OTHER, 1);
    evlog_append(l, &tag, NULL);
    put(l, EV_OTHER, 1);
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1 2-2 3");
    evlog_free(l);
}

static bool owns_a(const void *c, const char *session)
{
    (void)c;
    return !strcmp(session, "a");
}

static void filters_show_each_reader_its_own(void **state)
{
    (void)state;
    static const struct ev_tag tags[] = {
        {EV_STATE, EV_OTHER, JW_SHELL, "", ""},     {EV_MSG, EV_OTHER, JW_IOPUB, "", "a"},
        {EV_MSG, EV_OTHER, JW_SHELL, "", "a"},      {EV_MSG, EV_OTHER, JW_SHELL, "", "b"},
        {EV_MSG, EV_STREAM, JW_IOPUB, "c1", "own"}, {EV_CELL_START, EV_OTHER, JW_SHELL, "c1", ""},
        {EV_ARTIFACT, EV_OTHER, JW_SHELL, "c1", ""}, {EV_MSG, EV_OTHER, JW_SHELL, "c1", "own"},
        {EV_CELL, EV_OTHER, JW_SHELL, "c2", ""},    {EV_MSG, EV_OTHER, JW_STDIN, "", "b"},
    };
    struct evlog *l = evlog_new(1 << 20);
    char t[200];
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        evlog_append(l, &tags[i], blob(3));
    const struct ev_filter f[] = {{.mode = EV_MODE_JUPYTER, .owns = owns_a}, {.mode = EV_MODE_ALL},
                                  {.mode = EV_MODE_CELL, .cell = "c1"},      {.mode = EV_MODE_STATE},
                                  {.mode = EV_MODE_SESSION, .session = "b"}, {.mode = EV_MODE_JUPYTER}};
    static const char *const want[] = {"1 2 3 5", "1 2 5 6 7 9", "5 6 7 8", "1", "4 10", "1 2 5"};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        trace(l, 1, &f[i], t, sizeof t);
        assert_string_equal(t, want[i]);
    }
    evlog_free(l);
}

static void gaps_reach_every_reader_but_those_of_states(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1 << 20);
    struct ev_tag tag = {.kind = EV_STATE, .class = EV_OTHER, .cell = "", .session = ""};
    char t[200];
    put(l, EV_STREAM, 1000);
    evlog_append(l, &tag, blob(10));
    put(l, EV_STREAM, 1000);
    evlog_append(l, &tag, blob(10));
    evlog_set_cap(l, 900);
    const struct ev_filter f[] = {{.mode = EV_MODE_CELL, .cell = "x"}, {.mode = EV_MODE_STATE}, {.mode = EV_MODE_ALL}};
    static const char *const want[] = {"1-3", "2 4", "1-1 2 3-3 4"};
    for (size_t i = 0; i < 3; i++) {
        trace(l, 1, &f[i], t, sizeof t);
        assert_string_equal(t, want[i]);
    }
    evlog_free(l);
}

static void numbers_beyond_the_slots_are_given_up(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(1 << 20);
    struct evlog_item it;
    put(l, EV_OTHER, 1); // stays while only streams are dropped
    for (uint64_t i = 0; i < EVLOG_SLOTS_MAX + 10; i++)
        put(l, EV_STREAM, 1);
    assert_true(evlog_next(l) - evlog_first(l) <= EVLOG_SLOTS_MAX);
    assert_int_equal(evlog_read(l, 1, &all, &it), EVLOG_GAP);
    assert_int_equal(it.from, 1);
    assert_int_equal(it.next, evlog_first(l));
    evlog_free(l);
}

// A reader that reads now and then, under a log that drops all the time, sees every number exactly
// once: as an event or inside a gap.
static void a_reader_meets_every_number_once(void **state)
{
    (void)state;
    srand(7);
    struct evlog *l = evlog_new(20000);
    uint64_t from = 1, expect = 1;
    for (int round = 0; round < 20000; round++) {
        put(l, (enum ev_class)(rand() % 3), (size_t)rand() % (round % 50 ? 3000 : 30000));
        if (round % 100 == 99)
            evlog_settle(l);
        assert_true(evlog_bytes(l) < 20000 + 3000 + 30000 + 500);
        for (int reads = rand() % 3; reads > 0; reads--) {
            struct evlog_item it;
            enum evlog_got got = evlog_read(l, from, &all, &it);
            if (got == EVLOG_EVENT) {
                assert_int_equal(it.seq, expect);
                expect = it.seq + 1;
            } else if (got == EVLOG_GAP) {
                assert_int_equal(it.from, expect);
                assert_int_equal(it.count, it.to - it.from + 1);
                expect = it.to + 1;
            }
            from = it.next;
            assert_int_equal(from, expect);
        }
    }
    evlog_free(l);
}

static void a_message_over_the_cap_waits_for_its_readers(void **state)
{
    (void)state;
    struct evlog *l = evlog_new(20000);
    char t[200];
    put(l, EV_OTHER, 100);
    put(l, EV_DISPLAY, 70000); // 2
    put(l, EV_OTHER, 100);
    put(l, EV_STREAM, 4000); // 4
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1 2 3 4"); // what is small has its own room
    for (int i = 0; i < 5; i++)
        put(l, EV_STREAM, 4000); // 5 to 9
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1 2 3 4-5 6 7 8 9");
    put(l, EV_STREAM, 60000); // 10: the large one now, and 2 like any other
    trace(l, 1, &all, t, sizeof t);
    assert_string_equal(t, "1 2-2 3 4-9 10");
    assert_true(evlog_bytes(l) < 61000);
    evlog_settle(l);
    put(l, EV_OTHER, 100); // 11
    trace(l, 10, &all, t, sizeof t);
    assert_string_equal(t, "10 11");
    evlog_settle(l); // it was there the last time too
    trace(l, 10, &all, t, sizeof t);
    assert_string_equal(t, "10-10 11");
    assert_true(evlog_bytes(l) < 1000);
    evlog_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_run_from_one_without_holes),
        cmocka_unit_test(streams_go_before_displays_and_displays_before_the_rest),
        cmocka_unit_test(the_newest_event_stays_however_large_it_is),
        cmocka_unit_test(a_gap_says_how_much_is_missing),
        cmocka_unit_test(a_lost_append_uses_up_its_number),
        cmocka_unit_test(filters_show_each_reader_its_own),
        cmocka_unit_test(gaps_reach_every_reader_but_those_of_states),
        cmocka_unit_test(numbers_beyond_the_slots_are_given_up),
        cmocka_unit_test(a_reader_meets_every_number_once),
        cmocka_unit_test(a_message_over_the_cap_waits_for_its_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
