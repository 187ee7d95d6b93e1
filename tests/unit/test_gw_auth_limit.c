// Wrong tokens of one address: how many are answered, when the next one is, and what it costs.
#include "gateway/auth.h"
#include "gateway/auth_limit.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint64_t key(const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return auth_limit_key((const struct sockaddr *)(const void *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return auth_limit_key((const struct sockaddr *)(const void *)&six);
}

static void a_burst_is_answered_and_then_one_at_a_time(void **state)
{
    (void)state;
    struct auth_limit *l = auth_limit_new(6); // one in ten seconds
    int64_t now = 1000000;
    uint64_t a = key("192.0.2.1");
    for (int i = 0; i < 6; i++)
        assert_int_equal(auth_limit_failed(l, a, now), 0);
    assert_int_equal(auth_limit_failed(l, a, now), 10);
    assert_int_equal(auth_limit_failed(l, a, now + 4000), 6); // being refused costs nothing more
    assert_int_equal(auth_limit_failed(l, a, now + 9999), 1);
    assert_int_equal(auth_limit_failed(l, a, now + 10000), 0);
    assert_int_equal(auth_limit_failed(l, a, now + 10000), 10);
    for (int i = 0; i < 6; i++) // a minute at rest, and all are there again; more than all there never are
        assert_int_equal(auth_limit_failed(l, a, now + 1000000), 0);
    assert_int_not_equal(auth_limit_failed(l, a, now + 1000000), 0);
    assert_int_equal(auth_limit_failures(l), 18);
    assert_int_equal(auth_limit_refused(l), 5);
    auth_limit_free(l);
}

static void addresses_do_not_share_and_a_network_of_one_client_does(void **state)
{
    (void)state;
    assert_int_not_equal(key("192.0.2.1"), key("192.0.2.2"));
    assert_int_not_equal(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    assert_int_equal(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
    struct auth_limit *l = auth_limit_new(1);
    assert_int_equal(auth_limit_failed(l, key("192.0.2.1"), 5), 0);
    assert_int_equal(auth_limit_failed(l, key("192.0.2.1"), 5), 60);
    assert_int_equal(auth_limit_failed(l, key("192.0.2.2"), 5), 0);
    auth_limit_free(l);
}

static void a_million_addresses_take_no_more_memory_and_keep_nobody_else_out(void **state)
{
    (void)state;
    struct auth_limit *l = auth_limit_new(2);
    for (uint32_t i = 1; i <= 1000000; i++)
        assert_int_equal(auth_limit_failed(l, 1ull << 40 | i, 7), 0); // each fails once; the table holds 4096
    assert_int_equal(auth_limit_failed(l, key("192.0.2.1"), 7), 0);
    auth_limit_free(l);
}

static void without_a_limit_all_are_answered(void **state)
{
    (void)state;
    struct auth_limit *l = auth_limit_new(0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(auth_limit_failed(l, 9, 7), 0);
    auth_limit_free(l);
    auth_limit_free(NULL);
}

static void what_counts_as_coming_with_a_token(void **state)
{
    (void)state;
    assert_false(auth_tried(NULL, NULL));
    assert_false(auth_tried(NULL, ""));
    assert_false(auth_tried("token ", NULL)); // of clients that have none
    assert_false(auth_tried("", NULL));
    assert_true(auth_tried("Bearer x", NULL));
    assert_true(auth_tried("token ", "x"));
    assert_true(auth_tried("Basic eDp5", NULL));
    assert_true(auth_tried(NULL, "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_answered_and_then_one_at_a_time),
        cmocka_unit_test(addresses_do_not_share_and_a_network_of_one_client_does),
        cmocka_unit_test(a_million_addresses_take_no_more_memory_and_keep_nobody_else_out),
        cmocka_unit_test(without_a_limit_all_are_answered),
        cmocka_unit_test(what_counts_as_coming_with_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
