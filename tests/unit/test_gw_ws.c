// The WebSocket codec: messages from any fragmentation, protocol errors with their close codes; and which
// answers to our questions count.
#include "gateway/ws_asks.h"
#include "gateway/ws_codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t wire[200000];
static size_t wire_n;
static char seen[200000];
static size_t seen_n;
static int events, last_op;

// Appends a masked client frame.
static void frame(int first_byte, const void *p, size_t n)
{
    uint8_t head[10];
    size_t nhead = ws_frame_head(head, true, WS_TEXT, n);
    const uint8_t mask[4] = {0x12, 0x34, 0x56, 0x78};
    head[0] = (uint8_t)first_byte;
    head[1] |= 0x80;
    memcpy(wire + wire_n, head, nhead);
    memcpy(wire + wire_n + nhead, mask, 4);
    wire_n += nhead + 4;
    for (size_t i = 0; i < n; i++)
        wire[wire_n + i] = ((const uint8_t *)p)[i] ^ mask[i & 3];
    wire_n += n;
}

// Feeds what was built in pieces; 0, or minus a close code. Unmasks a copy: the wire is used again.
static int feed(size_t step, size_t max)
{
    static uint8_t copy[sizeof wire];
    struct ws_rx rx;
    int rc = 0;
    ws_rx_init(&rx, max);
    memcpy(copy, wire, wire_n);
    seen_n = 0;
    events = 0;
    for (size_t at = 0; at < wire_n && rc >= 0;) {
        size_t take = wire_n - at < step ? wire_n - at : step, used = 0;
        struct ws_event ev;
        rc = ws_rx_feed(&rx, copy + at, take, &used, &ev);
        at += used;
        if (rc == 1) {
            events++;
            last_op = ev.op;
            memcpy(seen + seen_n, ev.data.p, ev.data.n);
            seen_n += ev.data.n;
            ws_rx_release(&rx);
        }
    }
    ws_rx_free(&rx);
    return rc < 0 ? rc : 0;
}

static int setup(void **state)
{
    (void)state;
    wire_n = 0;
    return 0;
}

static void messages_are_whole_whatever_the_pieces(void **state)
{
    (void)state;
    frame(0x81, "hello", 5);
    frame(0x02, "ab", 2);   // binary, first fragment
    frame(0x89, "ping", 4); // a control frame in between
    frame(0x00, "", 0);
    frame(0x80, "cd", 2);
    frame(0x81, "", 0);
    for (size_t step = 1; step <= wire_n; step++) {
        assert_int_equal(feed(step, 1000), 0);
        assert_int_equal(events, 4);
        assert_int_equal(seen_n, 13);
        assert_memory_equal(seen, "hellopingabcd", 13);
    }
}

static void every_length_form_works(void **state)
{
    (void)state;
    static char big[70000];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)i;
    const size_t lengths[] = {0, 125, 126, 65535, 65536, 70000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (size_t step = 1; step < 100000; step = step * 7 + 1) {
            wire_n = 0;
            frame(0x82, big, lengths[i]);
            assert_int_equal(feed(step, sizeof big), 0);
            assert_int_equal(events, 1);
            assert_int_equal(last_op, WS_BINARY);
            assert_int_equal(seen_n, lengths[i]);
            assert_memory_equal(seen, big, seen_n);
        }
}

static void too_big_is_known_before_it_is_stored(void **state)
{
    (void)state;
    frame(0x82, "0123456789", 10);
    assert_int_equal(feed(100, 9), -WS_TOO_BIG);
    wire_n = 0;
    frame(0x02, "01234", 5);
    frame(0x80, "56789", 5);
    assert_int_equal(feed(100, 9), -WS_TOO_BIG);
    assert_int_equal(feed(100, 10), 0);
    const uint8_t huge[] = {0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4};
    memcpy(wire, huge, wire_n = sizeof huge);
    assert_int_equal(feed(1, 1000), -WS_TOO_BIG);
}

static void refused(int first_byte, size_t n)
{
    char p[200] = "";
    wire_n = 0;
    frame(first_byte, p, n);
    assert_int_equal(feed(1, 1000), -WS_PROTOCOL_ERROR);
}

static void protocol_errors_are_1002(void **state)
{
    (void)state;
    refused(0xc1, 1);   // a reserved bit
    refused(0x83, 1);   // unknown data frame
    refused(0x8b, 1);   // unknown control frame
    refused(0x09, 1);   // a fragmented ping
    refused(0x89, 126); // a long ping
    refused(0x80, 1);   // nothing to continue
    wire_n = 0;
    frame(0x01, "a", 1);
    frame(0x81, "b", 1); // a new message inside a message
    assert_int_equal(feed(1, 1000), -WS_PROTOCOL_ERROR);
    const uint8_t unmasked[] = {0x81, 0x01, 'a'};
    memcpy(wire, unmasked, wire_n = sizeof unmasked);
    assert_int_equal(feed(1, 1000), -WS_PROTOCOL_ERROR);
    const uint8_t negative[] = {0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4};
    memcpy(wire, negative, wire_n = sizeof negative);
    assert_int_equal(feed(1, 1000), -WS_PROTOCOL_ERROR);
}

static void close_codes_are_checked(void **state)
{
    (void)state;
    assert_int_equal(ws_close_code(ck_slice("", 0)), WS_NO_CODE);
    assert_int_equal(ws_close_code(ck_slice("\x03", 1)), WS_PROTOCOL_ERROR);
    assert_int_equal(ws_close_code(ck_slice("\x03\xe8" "bye", 5)), 1000);
    assert_int_equal(ws_close_code(ck_slice("\x03\xed", 2)), WS_PROTOCOL_ERROR); // 1005 must not travel
    assert_int_equal(ws_close_code(ck_slice("\x0f\xa0", 2)), 4000);
    assert_int_equal(ws_close_code(ck_slice("\x00\x00", 2)), WS_PROTOCOL_ERROR);
}

static void the_accept_key_is_that_of_the_standard(void **state)
{
    (void)state;
    char out[29];
    assert_int_equal(ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", out), 0);
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_int_equal(ws_accept_key("dGhlIHNhbXBsZSBub25jZQ=", out), -1);
    assert_int_equal(ws_accept_key("????????????????????????", out), -1);
}

static void only_what_was_asked_is_answered(void **state)
{
    (void)state;
    struct ws_asks a = {.n = 0};
    assert_false(ws_asks_answer(&a, 0));
    assert_true(ws_asks_may(&a, 0));
    ws_asks_add(&a, 100, 1);
    ws_asks_add(&a, 150, 2);
    ws_asks_add(&a, 300, 3);
    assert_int_equal(ws_asks_oldest(&a), 100);
    assert_int_equal(ws_asks_second(&a), 150);
    assert_false(ws_asks_answer(&a, 200)); // more than it was asked for: a lie
    assert_false(ws_asks_answer(&a, UINT64_MAX));
    assert_true(ws_asks_answer(&a, 150)); // and so 100
    assert_false(ws_asks_answer(&a, 100));
    assert_int_equal(ws_asks_oldest(&a), 300);
    assert_true(ws_asks_second(&a) == UINT64_MAX);
    assert_true(ws_asks_answer(&a, 300));
    assert_int_equal(ws_asks_oldest(&a), 0);
    assert_int_equal(a.last, 300);
}

static void a_silent_client_is_asked_no_more(void **state)
{
    (void)state;
    struct ws_asks a = {.n = 0};
    uint64_t place = 0;
    for (int round = 0; round < 3; round++) { // the ring turns
        for (int i = 0; i < WS_ASKS_MAX; i++) {
            assert_true(ws_asks_may(&a, 1000));
            ws_asks_add(&a, ++place, 1000);
        }
        assert_false(ws_asks_may(&a, 1000));
        assert_true(ws_asks_answer(&a, place - 3));
        assert_true(ws_asks_may(&a, 1000));
        assert_false(ws_asks_may(&a, 1000 + WS_ASKS_MS));
        assert_true(ws_asks_answer(&a, place));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(messages_are_whole_whatever_the_pieces, setup),
        cmocka_unit_test_setup(every_length_form_works, setup),
        cmocka_unit_test_setup(too_big_is_known_before_it_is_stored, setup),
        cmocka_unit_test_setup(protocol_errors_are_1002, setup),
        cmocka_unit_test_setup(close_codes_are_checked, setup),
        cmocka_unit_test_setup(the_accept_key_is_that_of_the_standard, setup),
        cmocka_unit_test(only_what_was_asked_is_answered),
        cmocka_unit_test(a_silent_client_is_asked_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
