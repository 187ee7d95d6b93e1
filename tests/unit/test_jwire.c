// The Jupyter wire codec: splitting, signatures, repair of text, headers.
#include "common/ck_crypto.h"
#include "common/ck_json.h"
#include "kernel-bridge/jscan.h"
#include "kernel-bridge/jwire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY ck_slice_str("secret")

struct wire {
    char sig[JW_SIG_HEX];
    struct ck_slice part[16];
    size_t n;
};

static void build(struct wire *w, size_t idents, const char *content, size_t buffers)
{
    const char *json[4] = {"{\"msg_id\":\"m\",\"session\":\"s\",\"msg_type\":\"status\"}", "{}", "{}", content};
    w->n = 0;
    for (size_t i = 0; i < idents; i++)
        w->part[w->n++] = ck_slice_str("ident");
    w->part[w->n++] = ck_slice_str("<IDS|MSG>");
    struct ck_slice four[4];
    for (int i = 0; i < 4; i++)
        four[i] = ck_slice_str(json[i]);
    assert_int_equal(jw_sign(KEY, four, w->sig), 0);
    w->part[w->n++] = ck_slice_str(w->sig);
    for (int i = 0; i < 4; i++)
        w->part[w->n++] = four[i];
    for (size_t i = 0; i < buffers; i++)
        w->part[w->n++] = ck_slice_str("buffer");
}

static void a_signed_message_is_split(void **state)
{
    (void)state;
    struct wire w;
    struct jw_msg m;
    struct ck_err err = CK_ERR_INIT;
    build(&w, 1, "{\"a\":1}", 2);
    assert_int_equal(jw_parse(w.part, w.n, KEY, &m, &err), 0);
    assert_true(ck_slice_is(m.part[JW_CONTENT], "{\"a\":1}"));
    assert_int_equal(m.nbuffers, 2);
    assert_true(ck_slice_is(m.buffers[1], "buffer"));
    struct jw_head h;
    jw_read_head(m.part[JW_HEADER], &h);
    assert_string_equal(h.msg_id, "m");
    assert_string_equal(h.session, "s");
    assert_string_equal(h.type, "status");
}

static void the_signature_is_what_pythons_hmac_computes(void **state)
{
    (void)state;
    // HMAC-SHA256("secret", '{"msg_id":1}' '{}' '{}' '{}'), computed with Python's hmac
    struct ck_slice part[4] = {ck_slice_str("{\"msg_id\":1}"), ck_slice_str("{}"), ck_slice_str("{}"),
                               ck_slice_str("{}")};
    char sig[JW_SIG_HEX];
    assert_int_equal(jw_sign(KEY, part, sig), 0);
    assert_string_equal(sig, "4c5e09d086339effa3bf07e725f6f8db9f8f12adf4b50a4d756561865bb4e781");
    assert_int_equal(jw_sign(ck_slice("", 0), part, sig), 0);
    assert_string_equal(sig, "");
}

static void a_changed_part_or_key_is_refused(void **state)
{
    (void)state;
    struct wire w;
    struct jw_msg m;
    for (size_t i = 2; i < 7; i++) { // signature and the four parts
        struct ck_err err = CK_ERR_INIT;
        build(&w, 1, "{}", 0);
        w.part[i] = ck_slice_str("{\"x\":2}");
        assert_int_equal(jw_parse(w.part, w.n, KEY, &m, &err), -1);
        assert_string_equal(err.reason, "bad_signature");
    }
    struct ck_err err = CK_ERR_INIT;
    build(&w, 1, "{}", 0);
    assert_int_equal(jw_parse(w.part, w.n, ck_slice_str("other"), &m, &err), -1);
    assert_int_equal(jw_parse(w.part, w.n, ck_slice("", 0), &m, &err),
                     -1); // signed, but no key: not the empty signature
}

static void too_few_or_too_many_parts_are_refused(void **state)
{
    (void)state;
    struct wire w;
    struct jw_msg m;
    build(&w, 1, "{}", 0);
    for (size_t n = 0; n < w.n; n++) {
        struct ck_err err = CK_ERR_INIT;
        assert_int_equal(jw_parse(w.part, n, KEY, &m, &err), -1);
        assert_string_equal(err.reason, "bad_message");
    }
    struct ck_slice *many = calloc(JW_PARTS_MAX + 1, sizeof *many);
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(jw_parse(many, JW_PARTS_MAX + 1, KEY, &m, &err), -1);
    for (int i = 0; i <= JW_IDENTS_MAX; i++)
        many[i] = ck_slice_str("ident");
    memcpy(many + JW_IDENTS_MAX + 1, w.part + 1, (w.n - 1) * sizeof *many);
    assert_int_equal(jw_parse(many, JW_IDENTS_MAX + w.n, KEY, &m, &err), -1);
    free(many);
}

static void a_header_over_the_cap_is_refused_before_its_signature_is_computed(void **state)
{
    (void)state;
    struct wire w;
    struct jw_msg m;
    struct ck_err err = CK_ERR_INIT;
    build(&w, 0, "{}", 0);
    char *big = malloc(JW_HEADER_MAX + 1);
    memset(big, ' ', JW_HEADER_MAX + 1);
    w.part[2] = ck_slice(big, JW_HEADER_MAX + 1);
    assert_int_equal(jw_parse(w.part, w.n, KEY, &m, &err), -1);
    assert_string_equal(err.reason, "bad_message");
    free(big);
}

static int check(const char *content, size_t n, char *out, size_t room)
{
    struct jw_msg m = {.part = {ck_slice_str("{}"), ck_slice_str("{}"), ck_slice_str("{}"), ck_slice(content, n)}};
    struct ck_buf scratch[4] = {CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT};
    struct ck_err err = CK_ERR_INIT;
    int rc = jw_check(&m, scratch, &err);
    snprintf(out, room, "%.*s", rc ? 0 : (int)m.part[JW_CONTENT].n, (const char *)m.part[JW_CONTENT].p);
    for (int i = 0; i < 4; i++)
        ck_buf_free(&scratch[i]);
    return rc;
}

static void bytes_that_are_not_utf8_and_lone_surrogates_are_replaced(void **state)
{
    (void)state;
    char out[200];
    static const char *const in[] = {"{\"a\":\"x\xff\xc3\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\udc00\\ud83d\"}",
                                     "{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\\\\ud800\"}"};
    static const char *const want[] = {"{\"a\":\"x\xEF\xBF\xBD\xEF\xBF\xBD\"}", "{\"a\":\"\xEF\xBF\xBD\"}",
                                       "{\"a\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"}", "{\"a\":\"\\ud83d\\ude00\"}",
                                       "{\"a\":\"\\\\ud800\"}"};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        assert_int_equal(check(in[i], strlen(in[i]), out, sizeof out), 0);
        assert_string_equal(out, want[i]);
    }
}

static void content_that_is_not_one_json_object_is_refused(void **state)
{
    (void)state;
    char out[10];
    static const char *const bad[] = {"", "[]", "1", "null", "{", "{}{}", "{\"a\":NaN}", "{\"a\":\"\n\"}", "\xff{}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(check(bad[i], strlen(bad[i]), out, sizeof out), -1);
}

static void headers_with_wrong_types_read_as_empty(void **state)
{
    (void)state;
    struct jw_head h;
    jw_read_head(ck_slice_str("{\"msg_id\":7,\"session\":{\"msg_type\":\"x\"},\"msg_type\":null}"), &h);
    assert_string_equal(h.msg_id, "");
    assert_string_equal(h.session, "");
    assert_string_equal(h.type, "");
    char text[1000] = "{\"msg_id\":\"";
    memset(text + 11, 'i', JW_ID_MAX);
    strcpy(text + 11 + JW_ID_MAX, "\"}");
    jw_read_head(ck_slice_str(text), &h);
    assert_string_equal(h.msg_id, ""); // over-long counts as absent, it is never cut
}

static void a_header_made_here_can_be_read_again(void **state)
{
    (void)state;
    struct ck_buf b = CK_BUF_INIT;
    struct jw_head h;
    assert_int_equal(jw_make_header(&b, "i\"d", "s\n", "status", 1), 0);
    assert_true(ck_json_valid(b.p, b.n, NULL));
    jw_read_head(ck_buf_slice(&b), &h);
    assert_string_equal(h.msg_id, "i\"d");
    assert_string_equal(h.session, "s\n");
    ck_buf_free(&b);
}

static void what_is_nested_too_deeply_is_left_out_and_the_rest_kept(void **state)
{
    (void)state;
    static const struct {
        const char *open, *close;
        size_t depth; // in {"x":…}
        bool cut, ok;
    } rows[] = {
        {"[", "]", CK_JSON_DEPTH_MAX - 1, false, true}, {"[", "]", CK_JSON_DEPTH_MAX, true, true},
        {"{\"k]\\\"\":", "}", CK_JSON_DEPTH_MAX, true, true}, {"[", "]", 200000, true, true},
        {"{\"]\":1,\"k\":", "}", 3000, true, true}, {"[", "", 3000, true, false},
        {"[", "}", CK_JSON_DEPTH_MAX - 1, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ck_buf scratch[4] = {CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT, CK_BUF_INIT};
        CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
        struct ck_err err = CK_ERR_INIT;
        ck_buf_add_str(&text, "{\"a\":\"[[{\",\"x\":");
        for (size_t d = 0; d < rows[i].depth; d++)
            ck_buf_add_str(&text, rows[i].open);
        ck_buf_add_str(&text, "1");
        for (size_t d = 0; d < rows[i].depth; d++)
            ck_buf_add_str(&text, rows[i].close);
        ck_buf_add_str(&text, ",\"z\":2}");
        struct jw_msg m = {.part = {ck_slice_str("{}"), ck_slice_str("{}"), ck_slice_str("{}"), ck_buf_slice(&text)}};
        assert_int_equal(jw_check(&m, scratch, &err), rows[i].ok ? 0 : -1);
        if (rows[i].ok) {
            struct ck_slice content = m.part[JW_CONTENT];
            assert_true(ck_json_valid(content.p, content.n, NULL));
            assert_int_equal(m.left_out > 0, rows[i].cut);
            assert_non_null(memmem(content.p, content.n, "\"a\":\"[[{\"", 9));
            assert_non_null(memmem(content.p, content.n, ",\"z\":2}", 7));
            assert_int_equal(memmem(content.p, content.n, "cellkeep: nested", 16) != NULL, rows[i].cut);
            assert_int_equal(m.left_out + content.n - (rows[i].cut ? strlen(JSCAN_PRUNED) : 0), text.n);
        }
        for (int p = 0; p < 4; p++)
            ck_buf_free(&scratch[p]);
    }
}

static void channels_have_names_both_ways(void **state)
{
    (void)state;
    enum jw_channel ch;
    for (unsigned i = 0; i < JW_CHANNELS; i++) {
        assert_true(jw_channel_from_name(jw_channel_names[i], &ch));
        assert_int_equal(ch, i);
    }
    assert_false(jw_channel_from_name("hb", &ch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signed_message_is_split),
        cmocka_unit_test(the_signature_is_what_pythons_hmac_computes),
        cmocka_unit_test(a_changed_part_or_key_is_refused),
        cmocka_unit_test(too_few_or_too_many_parts_are_refused),
        cmocka_unit_test(a_header_over_the_cap_is_refused_before_its_signature_is_computed),
        cmocka_unit_test(bytes_that_are_not_utf8_and_lone_surrogates_are_replaced),
        cmocka_unit_test(content_that_is_not_one_json_object_is_refused),
        cmocka_unit_test(headers_with_wrong_types_read_as_empty),
        cmocka_unit_test(a_header_made_here_can_be_read_again),
        cmocka_unit_test(what_is_nested_too_deeply_is_left_out_and_the_rest_kept),
        cmocka_unit_test(channels_have_names_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
