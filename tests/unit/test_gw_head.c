// Request heads and percent-encoding: what is understood, and what is refused with which status.
#include "gateway/http_head.h"
#include "gateway/http_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct http_head head;
static char text[70000];

// Status of the refusal, 0 when accepted into `head`.
static int parse(const char *request)
{
    struct ck_err err = CK_ERR_INIT;
    size_t n = strlen(request);
    memcpy(text, request, n);
    return http_head_parse(text, n, &head, &err) ? err.status : 0;
}

static int parse_with(const char *headers)
{
    char request[4096];
    snprintf(request, sizeof request, "POST /x HTTP/1.1\r\nHost: h\r\n%s\r\n", headers);
    return parse(request);
}

static void an_ordinary_request_is_taken_apart(void **state)
{
    (void)state;
    assert_int_equal(parse("GET /api/kernels?token=t&1795 HTTP/1.1\r\nHost: h:1\r\nX-a:  b c \t\r\nEmpty:\r\n\r\n"), 0);
    assert_int_equal(head.method, HTTP_GET);
    assert_string_equal(head.path, "/api/kernels");
    assert_string_equal(head.query, "token=t&1795");
    assert_int_equal(head.minor, 1);
    assert_true(head.keep_alive);
    assert_int_equal(head.content_length, -1);
    assert_string_equal(http_head_get(&head, "x-A"), "b c");
    assert_string_equal(http_head_get(&head, "empty"), "");
    assert_null(http_head_get(&head, "none"));
}

static void the_head_ends_at_its_empty_line(void **state)
{
    (void)state;
    assert_int_equal(http_head_length("GET / HTTP/1.1\r\n\r\nrest", 22), 18);
    assert_int_equal(http_head_length("GET / HTTP/1.1\r\n", 16), 0);
    assert_int_equal(http_head_length("", 0), 0);
}

static void bodies_with_two_lengths_are_refused(void **state)
{
    (void)state;
    assert_int_equal(parse_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
    assert_int_equal(parse_with("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
    assert_int_equal(parse_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
    assert_int_equal(parse_with("Transfer-Encoding: gzip, chunked\r\n"), 501);
    assert_int_equal(parse_with("Content-Length: 5, 5\r\n"), 400);
    assert_int_equal(parse_with("Content-Length: +5\r\n"), 400);
    assert_int_equal(parse_with("Content-Length: 0x5\r\n"), 400);
    assert_int_equal(parse_with("Content-Length: \r\n"), 400);
    assert_int_equal(parse_with("Content-Length: 99999999999999999999\r\n"), 400);
    assert_int_equal(parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    assert_int_equal(parse_with("Content-Length: 17\r\n"), 0);
    assert_int_equal(head.content_length, 17);
    assert_int_equal(parse_with("Transfer-Encoding: Chunked\r\n"), 0);
    assert_true(head.chunked);
}

static void lines_that_two_parsers_could_read_differently_are_refused(void **state)
{
    (void)state;
    assert_int_equal(parse_with("A : b\r\n"), 400);
    assert_int_equal(parse_with(" folded\r\n"), 400);
    assert_int_equal(parse_with("A: b\r\n\tfolded\r\n"), 400);
    assert_int_equal(parse_with("A: b\nC: d\r\n"), 400);
    assert_int_equal(parse_with("A: b\rC: d\r\n"), 400);
    assert_int_equal(parse_with("no colon\r\n"), 400);
    assert_int_equal(parse_with(": b\r\n"), 400);
    assert_int_equal(parse_with("A: b\001\r\n"), 400);
    assert_int_equal(parse("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
    assert_int_equal(parse_with("Authorization: token a\r\nAuthorization: token b\r\n"), 400);
    struct ck_err err = CK_ERR_INIT;
    char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    assert_int_equal(http_head_parse(nul, sizeof nul - 1, &head, &err), -1);
    assert_int_equal(err.status, 400);
}

static void request_lines_are_strict(void **state)
{
    (void)state;
    assert_int_equal(parse("GET /\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("GET  / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("GET / x HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("G(T / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("GET x HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("GET /#f HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("GET * HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(parse("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
    assert_int_equal(parse("PRI * HTTP/2.0\r\n\r\n"), 505);
    assert_int_equal(parse("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_string_equal(head.path, "*");
    assert_int_equal(parse("BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_int_equal(head.method, 0);
    assert_int_equal(parse("GET http://h:1/p?q HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_string_equal(head.path, "/p");
    assert_string_equal(head.query, "q");
    assert_int_equal(parse("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

static void too_many_headers_and_too_long_urls_are_refused(void **state)
{
    (void)state;
    size_t n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < HTTP_HEADERS_MAX; i++)
        n += (size_t)sprintf(text + n, "h%d: v\r\n", i);
    n += (size_t)sprintf(text + n, "\r\n");
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(http_head_parse(text, n, &head, &err), -1);
    assert_int_equal(err.status, 431);
    n = (size_t)sprintf(text, "GET /");
    memset(text + n, 'a', HTTP_TARGET_MAX);
    n += HTTP_TARGET_MAX;
    n += (size_t)sprintf(text + n, " HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_int_equal(http_head_parse(text, n, &head, &err), -1);
    assert_int_equal(err.status, 414);
}

static void connections_stay_open_as_the_version_says(void **state)
{
    (void)state;
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_false(head.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), 0);
    assert_true(head.keep_alive);
    assert_int_equal(parse_with("Connection: x, close\r\n"), 0);
    assert_false(head.keep_alive);
    assert_int_equal(parse_with("Expect: 100-continue\r\n"), 0);
    assert_true(head.expect_continue);
    assert_int_equal(parse_with("Expect: tea\r\n"), 417);
}

static void websocket_upgrades_must_be_whole(void **state)
{
    (void)state;
    const char *start = "GET /w HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n";
    char request[512];
    snprintf(request, sizeof request, "%sSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", start);
    assert_int_equal(parse(request), 0);
    assert_true(head.websocket);
    snprintf(request, sizeof request, "%sSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", start);
    assert_int_equal(parse(request), 426);
    snprintf(request, sizeof request, "%sSec-WebSocket-Version: 13\r\n\r\n", start);
    assert_int_equal(parse(request), 400);
    assert_int_equal(parse("GET /w HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), 0);
    assert_false(head.websocket);
}

static void lists_are_searched_word_by_word(void **state)
{
    (void)state;
    assert_int_equal(parse_with("Accept: text/html;q=0.5, Text/Event-Stream;q=1\r\nAccept: a/b\r\n"), 0);
    assert_true(http_head_list_has(&head, "accept", "text/event-stream"));
    assert_true(http_head_list_has(&head, "accept", "a/b"));
    assert_false(http_head_list_has(&head, "accept", "text"));
    assert_false(http_head_list_has(&head, "accept", "event-stream"));
}

static void escapes_are_decoded_or_refused(void **state)
{
    (void)state;
    char out[64];
    assert_int_equal(http_url_decode("a%2Fb%20c+d", 11, false, out), 0);
    assert_string_equal(out, "a/b c+d");
    assert_int_equal(http_url_decode("a+b", 3, true, out), 0);
    assert_string_equal(out, "a b");
    assert_int_equal(http_url_decode("%c3%a4", 6, false, out), 0);
    assert_string_equal(out, "ä");
    assert_int_equal(http_url_decode("%00", 3, false, out), -1);
    assert_int_equal(http_url_decode("%", 1, false, out), -1);
    assert_int_equal(http_url_decode("%4", 2, false, out), -1);
    assert_int_equal(http_url_decode("%4g", 3, false, out), -1);
    assert_int_equal(http_url_decode("%ff", 3, false, out), -1);
    assert_int_equal(http_url_bytes("a%ff", 4, false, out), 0);
    assert_string_equal(out, "a\xff");
    assert_int_equal(http_url_bytes("%00", 3, false, out), -1);
}

static void queries_are_searched_by_decoded_name(void **state)
{
    (void)state;
    const char *v;
    size_t n;
    assert_true(http_url_query("1795961276983&a=1&a=2&b&c=", "a", &v, &n));
    assert_int_equal(n, 1);
    assert_memory_equal(v, "1", 1);
    assert_true(http_url_query("a=1&b&c=", "b", &v, &n));
    assert_int_equal(n, 0);
    assert_true(http_url_query("se%73sion=x%20y", "session", &v, &n));
    assert_int_equal(n, 5);
    assert_false(http_url_query("ab=1", "a", &v, &n));
    assert_false(http_url_query("", "a", &v, &n));
    assert_false(http_url_query(NULL, "a", &v, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_request_is_taken_apart),
        cmocka_unit_test(the_head_ends_at_its_empty_line),
        cmocka_unit_test(bodies_with_two_lengths_are_refused),
        cmocka_unit_test(lines_that_two_parsers_could_read_differently_are_refused),
        cmocka_unit_test(request_lines_are_strict),
        cmocka_unit_test(too_many_headers_and_too_long_urls_are_refused),
        cmocka_unit_test(connections_stay_open_as_the_version_says),
        cmocka_unit_test(websocket_upgrades_must_be_whole),
        cmocka_unit_test(lists_are_searched_word_by_word),
        cmocka_unit_test(escapes_are_decoded_or_refused),
        cmocka_unit_test(queries_are_searched_by_decoded_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
