// A WebSocket message beyond the cap, when its receiver wants to answer it: the start is handed out,
// the rest is dropped, and the next message is whole again.
#include "gateway/ws_codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void frame(struct ck_buf *b, bool fin, int op, size_t n)
{
    uint8_t head[14] = {(uint8_t)((fin ? 0x80 : 0) | op), 0x80 | 127};
    for (int i = 0; i < 8; i++)
        head[2 + i] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
    ck_buf_add(b, head, sizeof head); // a mask of zeros
    for (size_t i = 0; i < n; i++)
        ck_buf_add(b, (uint8_t[]){(uint8_t)i}, 1);
}

struct seen {
    int n;
    enum ws_op op[4];
    bool too_big[4];
    size_t len[4];
    int rc;
};

static struct seen feed(struct ck_buf *b, size_t step, bool keep_start)
{
    struct ws_rx rx;
    struct seen s = {.n = 0};
    ws_rx_init(&rx, 100000);
    rx.keep_start = keep_start;
    for (size_t at = 0; at < b->n && s.rc >= 0;) {
        size_t n = b->n - at < step ? b->n - at : step, used = 0;
        struct ws_event ev;
        s.rc = ws_rx_feed(&rx, b->p + at, n, &used, &ev);
        at += used;
        if (s.rc != 1)
            continue;
        assert_true(s.n < 4);
        s.op[s.n] = ev.op;
        s.too_big[s.n] = ev.too_big;
        s.len[s.n++] = ev.data.n;
        for (size_t i = 0; i < ev.data.n; i++)
            assert_int_equal(ev.data.p[i], (uint8_t)i);
    }
    ws_rx_free(&rx);
    return s;
}

static void the_start_of_a_large_message_is_kept(void **state)
{
    (void)state;
    for (size_t step = 1; step <= 300000; step = step * 7 + 3) {
        CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
        frame(&b, true, WS_BINARY, 250000);
        frame(&b, true, WS_TEXT, 90000);
        struct seen s = feed(&b, step, true);
        assert_int_equal(s.n, 2);
        assert_true(s.too_big[0] && s.op[0] == WS_BINARY);
        assert_int_equal(s.len[0], WS_START_MAX);
        assert_true(!s.too_big[1] && s.op[1] == WS_TEXT);
        assert_int_equal(s.len[1], 90000);
    }
}

static void fragments_add_up_to_the_cap(void **state)
{
    (void)state;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    frame(&b, false, WS_TEXT, 65536);
    frame(&b, false, WS_CONTINUATION, 30000);
    frame(&b, true, WS_PING, 5);
    frame(&b, true, WS_CONTINUATION, 30000);
    frame(&b, true, WS_TEXT, 3);
    struct seen s = feed(&b, 1000, true);
    assert_int_equal(s.n, 3);
    assert_true(s.op[0] == WS_PING && !s.too_big[0]);
    assert_true(s.too_big[1] && s.len[1] == WS_START_MAX);
    assert_true(!s.too_big[2] && s.len[2] == 3);
}

static void without_a_taker_it_stays_an_error(void **state)
{
    (void)state;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    frame(&b, true, WS_BINARY, 100001);
    assert_int_equal(feed(&b, 4096, false).rc, -WS_TOO_BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_of_a_large_message_is_kept),
        cmocka_unit_test(fragments_add_up_to_the_cap),
        cmocka_unit_test(without_a_taker_it_stays_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
