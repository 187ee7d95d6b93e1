// MACs and hashes against published vectors (RFC 4231, FIPS 180-4 examples); hex and UUIDs.
#include "common/ck_crypto.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void repeat(uint8_t *out, uint8_t c, size_t n) { memset(out, c, n); }

static void expect_mac(struct ck_slice key, struct ck_slice data, const char *want, size_t bytes)
{
    uint8_t mac[CK_SHA256_LEN];
    char hex[CK_SHA256_HEX];
    assert_int_equal(ck_hmac_sha256(key, &data, 1, mac), 0);
    ck_hex(mac, bytes, hex);
    assert_string_equal(hex, want);
}

static void hmac_matches_rfc_4231(void **state)
{
    (void)state;
    uint8_t key[131], data[152];
    repeat(key, 0x0b, 20);
    expect_mac(ck_slice(key, 20), ck_slice_str("Hi There"),
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", 32);
    expect_mac(ck_slice_str("Jefe"), ck_slice_str("what do ya want for nothing?"),
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", 32);
    repeat(key, 0xaa, 20);
    repeat(data, 0xdd, 50);
    expect_mac(ck_slice(key, 20), ck_slice(data, 50),
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe", 32);
    for (uint8_t i = 0; i < 25; i++)
        key[i] = (uint8_t)(i + 1);
    repeat(data, 0xcd, 50);
    expect_mac(ck_slice(key, 25), ck_slice(data, 50),
               "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b", 32);
    repeat(key, 0x0c, 20); // case 5 publishes the first 128 bits
    expect_mac(ck_slice(key, 20), ck_slice_str("Test With Truncation"), "a3b6167473100ee06e0c796c2955552b", 16);
    repeat(key, 0xaa, 131);
    expect_mac(ck_slice(key, 131), ck_slice_str("Test Using Larger Than Block-Size Key - Hash Key First"),
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", 32);
    expect_mac(ck_slice(key, 131),
               ck_slice_str("This is a test using a larger than block-size key and a larger than block-size data. The "
                            "key needs to be hashed before being used by the HMAC algorithm."),
               "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2", 32);
}

static void an_empty_key_is_a_key(void **state)
{
    (void)state;
    static const char want[] = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
    expect_mac(ck_slice("", 0), ck_slice("", 0), want, 32);
    expect_mac(ck_slice(NULL, 0), ck_slice(NULL, 0), want, 32);
}

static void *sign_again_and_again(void *key)
{
    for (int i = 0; i < 500; i++)
        expect_mac(ck_slice_str(key), ck_slice_str("what do ya want for nothing?"),
                   !strcmp(key, "Jefe") ? "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
                                        : "d1f18e0fa8753d81d83be54ce4a35587785bf006173619d186dde1d0da7ac878", 32);
    return NULL;
}

static void keys_of_threads_do_not_mix(void **state)
{
    (void)state;
    static char keys[2][5] = {"Jefe", "jefE"};
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, sign_again_and_again, keys[i % 2]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void hmac_of_parts_is_that_of_their_concatenation(void **state)
{
    (void)state;
    struct ck_slice parts[] = {ck_slice_str("what do "), ck_slice(NULL, 0), ck_slice_str("ya want "),
                               ck_slice_str("for nothing?")};
    uint8_t mac[CK_SHA256_LEN];
    char hex[CK_SHA256_HEX];
    assert_int_equal(ck_hmac_sha256(ck_slice_str("Jefe"), parts, 4, mac), 0);
    ck_hex(mac, sizeof mac, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void an_empty_key_and_no_data_work(void **state)
{
    (void)state;
    expect_mac(ck_slice(NULL, 0), ck_slice(NULL, 0), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad",
               32);
}

static void sha256_matches_the_published_examples(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < 3; i++) {
        uint8_t h[CK_SHA256_LEN];
        char hex[CK_SHA256_HEX];
        assert_int_equal(ck_sha256(ck_slice_str(cases[i].text), h), 0);
        ck_hex(h, sizeof h, hex);
        assert_string_equal(hex, cases[i].want);
    }
}

static void unhex_takes_hex_and_nothing_else(void **state)
{
    (void)state;
    uint8_t out[4];
    assert_int_equal(ck_unhex("00fFA9", 6, out), 0);
    assert_memory_equal(out, "\x00\xFF\xA9", 3);
    assert_int_equal(ck_unhex("", 0, out), 0);
    assert_int_equal(ck_unhex("abc", 3, out), -1);
    assert_int_equal(ck_unhex("0g", 2, out), -1);
    assert_int_equal(ck_unhex(" 1", 2, out), -1);
    assert_int_equal(ck_unhex("-1", 2, out), -1);
    assert_int_equal(ck_unhex("0x", 2, out), -1);
}

static void constant_time_equality_is_equality(void **state)
{
    (void)state;
    assert_true(ck_equal_const_time("abc", "abc", 3));
    assert_false(ck_equal_const_time("abc", "abd", 3));
    assert_true(ck_equal_const_time("abc", "xyz", 0));
}

static void uuids_are_valid_version_4_and_differ(void **state)
{
    (void)state;
    char seen[200][CK_UUID_MAX];
    for (int i = 0; i < 200; i++) {
        ck_uuid4(seen[i]);
        assert_true(ck_uuid_valid(seen[i]));
        assert_int_equal(seen[i][14], '4');
        assert_non_null(strchr("89ab", seen[i][19]));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    }
}

static void what_is_not_a_uuid_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "-", "0", "00000000-0000-0000-0000-00000000000", "00000000-0000-0000-0000-0000000000000",
        "00000000000000000000000000000000", "0000000g-0000-0000-0000-000000000000",
        "00000000-0000-0000-0000_000000000000", "../../../../etc/passwd-0000-00000000",
        "00000000-0000-0000-0000-00000000000/", "{0000000-0000-0000-0000-00000000000}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ck_uuid_valid(bad[i]));
    assert_true(ck_uuid_valid("0123abcd-EF00-4000-8000-00000000000f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_matches_rfc_4231),
        cmocka_unit_test(an_empty_key_is_a_key),
        cmocka_unit_test(keys_of_threads_do_not_mix),
        cmocka_unit_test(hmac_of_parts_is_that_of_their_concatenation),
        cmocka_unit_test(an_empty_key_and_no_data_work),
        cmocka_unit_test(sha256_matches_the_published_examples),
        cmocka_unit_test(unhex_takes_hex_and_nothing_else),
        cmocka_unit_test(constant_time_equality_is_equality),
        cmocka_unit_test(uuids_are_valid_version_4_and_differ),
        cmocka_unit_test(what_is_not_a_uuid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
