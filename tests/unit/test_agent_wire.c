// The agent's end of the signed messages: nobody without the key is heard, nothing is heard twice.
#include "guest/agent/wire.h"
#include "common/ck_crypto.h"
#include "common/ck_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[AG_KEY_LEN] = {7, 8, 9};

static int hear(struct ag_wire *w, const uint8_t *with, const char *header, const char *payload, json_t **out)
{
    uint8_t sig[AG_SIG_LEN];
    struct ck_slice parts[] = {ck_slice_str(header), ck_slice_str(payload)};
    ck_hmac_sha256(ck_slice(with, AG_KEY_LEN), parts, 2, sig);
    return ag_wire_open(w, ck_slice(sig, sizeof sig), parts[0], parts[1], out);
}

static void a_signed_message_with_a_growing_number_is_accepted(void **state)
{
    (void)state;
    struct ag_wire w = {.in_n = 0};
    json_t *j;
    ag_wire_rekey(&w, key);
    assert_int_equal(hear(&w, key, "{\"op\":\"ping\",\"n\":1}", "x", &j), 0);
    assert_string_equal(json_string_value(json_object_get(j, "op")), "ping");
    json_decref(j);
    assert_int_equal(hear(&w, key, "{\"n\":900719925474099}", "", &j), 0);
    json_decref(j);
    assert_int_equal(w.dropped, 0);
}

static void the_first_key_is_all_zeroes(void **state)
{
    (void)state;
    static const uint8_t zero[AG_KEY_LEN];
    struct ag_wire w = {.in_n = 0};
    json_t *j;
    assert_int_equal(hear(&w, zero, "{\"n\":1}", "", &j), 0);
    json_decref(j);
}

static void what_is_unsigned_repeated_or_malformed_is_dropped_and_counted(void **state)
{
    (void)state;
    static const uint8_t other[AG_KEY_LEN] = {1};
    static const struct {
        const uint8_t *with;
        const char *header;
    } rows[] = {
        {other, "{\"n\":9}"},   {key, "{\"n\":5}"}, {key, "{\"n\":4}"}, {key, "{\"n\":\"9\"}"}, {key, "{}"},
        {key, "[9]"},           {key, "{\"n\":9"},  {key, ""},          {key, "{\"n\":9.5}"},   {key, "{\"n\":-1}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ag_wire w = {.in_n = 0};
        json_t *j = NULL;
        ag_wire_rekey(&w, key);
        w.in_n = 5;
        assert_int_equal(hear(&w, rows[i].with, rows[i].header, "", &j), 1);
        assert_null(j);
        assert_int_equal(w.in_n, 5);
        assert_int_equal(w.dropped, 1);
    }
}

static void the_signature_covers_header_and_payload(void **state)
{
    (void)state;
    struct ag_wire w = {.in_n = 0};
    json_t *j;
    uint8_t sig[AG_SIG_LEN];
    struct ck_slice parts[] = {ck_slice_str("{\"n\":1}"), ck_slice_str("abc")};
    ag_wire_rekey(&w, key);
    ck_hmac_sha256(ck_slice(key, AG_KEY_LEN), parts, 2, sig);
    assert_int_equal(ag_wire_open(&w, ck_slice(sig, sizeof sig), parts[0], ck_slice_str("abd"), &j), 1);
    assert_int_equal(ag_wire_open(&w, ck_slice(sig, sizeof sig - 1), parts[0], parts[1], &j), 1);
    assert_int_equal(ag_wire_open(&w, ck_slice(NULL, 0), parts[0], parts[1], &j), 1);
    assert_int_equal(ag_wire_open(&w, ck_slice(sig, sizeof sig), parts[0], parts[1], &j), 0);
    json_decref(j);
}

static void oversized_messages_are_dropped_before_they_are_hashed(void **state)
{
    (void)state;
    struct ag_wire w = {.in_n = 0};
    json_t *j;
    uint8_t sig[AG_SIG_LEN] = {0};
    // the length alone decides: nothing behind the pointer is read
    assert_int_equal(ag_wire_open(&w, ck_slice(sig, 32), ck_slice(sig, AG_REQUEST_HEADER_MAX + 1), ck_slice(NULL, 0), &j), 1);
    assert_int_equal(ag_wire_open(&w, ck_slice(sig, 32), ck_slice(sig, 1), ck_slice(sig, AG_PAYLOAD_MAX + 1), &j), 1);
}

static void sealed_messages_are_numbered_and_signed(void **state)
{
    (void)state;
    struct ag_wire w = {.in_n = 0};
    ag_wire_rekey(&w, key);
    for (int i = 1; i <= 2; i++) {
        struct ck_buf text = CK_BUF_INIT;
        uint8_t sig[AG_SIG_LEN], want[AG_SIG_LEN];
        json_t *h = json_pack("{s:i}", "re", 4);
        assert_int_equal(ag_wire_seal(&w, h, ck_slice_str("pp"), &text, sig), 0);
        struct ck_slice parts[] = {ck_buf_slice(&text), ck_slice_str("pp")};
        ck_hmac_sha256(ck_slice(key, AG_KEY_LEN), parts, 2, want);
        assert_memory_equal(sig, want, sizeof sig);
        assert_int_equal(json_integer_value(json_object_get(h, "n")), i);
        json_decref(h);
        ck_buf_free(&text);
    }
}

static void a_new_key_starts_both_directions_again(void **state)
{
    (void)state;
    struct ag_wire w = {.in_n = 77, .out_n = 88};
    json_t *j;
    ag_wire_rekey(&w, key);
    assert_int_equal(w.in_n, 0);
    assert_int_equal(w.out_n, 0);
    assert_int_equal(hear(&w, key, "{\"n\":1}", "", &j), 0);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signed_message_with_a_growing_number_is_accepted),
        cmocka_unit_test(the_first_key_is_all_zeroes),
        cmocka_unit_test(what_is_unsigned_repeated_or_malformed_is_dropped_and_counted),
        cmocka_unit_test(the_signature_covers_header_and_payload),
        cmocka_unit_test(oversized_messages_are_dropped_before_they_are_hashed),
        cmocka_unit_test(sealed_messages_are_numbered_and_signed),
        cmocka_unit_test(a_new_key_starts_both_directions_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
