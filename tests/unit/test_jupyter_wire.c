// The Jupyter WebSocket dialects: what clients in the field send, what hostile ones send, and what
// goes out, byte for byte.
#include "common/ck_json.h"
#include "gateway/jupyter_synth.h"
#include "gateway/jupyter_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define HEAD "{\"msg_id\":\"m1\",\"msg_type\":\"execute_request\",\"session\":\"s1\",\"n\":18446744073709551616}"

static void unref(struct ck_blob **b) { ck_blob_unref(*b); }
#define BLOB __attribute__((cleanup(unref)))

static struct jup_in in; // too big for comfort on the stack

static int decode(enum jup_dialect d, bool binary, const void *p, size_t n)
{
    // A copy of exactly n bytes, so that the sanitizer sees a read too far.
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, p, n);
    struct ck_err err = CK_ERR_INIT;
    int rc = jup_decode(d, binary, ck_slice(copy, n), &in, &err);
    if (rc < 0) {
        assert_int_equal(err.status, 400);
        assert_string_equal(err.reason, "bad_message");
    }
    if (rc == 0) {
        for (uint32_t i = 0; i < in.nparts; i++) {
            bool inside = in.part[i].p >= copy && in.part[i].p + in.part[i].n <= copy + n;
            assert_true(inside || ck_slice_is(in.part[i], "{}"));
        }
    }
    static struct ck_buf kept; // parts are read by the caller after the copy is gone
    ck_buf_free(&kept);
    for (uint32_t i = 0; rc == 0 && i < in.nparts; i++)
        assert_int_equal(ck_buf_add(&kept, in.part[i].p, in.part[i].n), 0);
    size_t at = 0;
    for (uint32_t i = 0; rc == 0 && i < in.nparts; i++) {
        in.part[i].p = kept.p ? kept.p + at : (const uint8_t *)"";
        at += in.part[i].n;
    }
    free(copy);
    return rc;
}

static int decode_text(const char *json) { return decode(JUP_LEGACY, false, json, strlen(json)); }

static void part_is(uint32_t i, const char *want)
{
    assert_true(i < in.nparts);
    assert_int_equal(in.part[i].n, strlen(want));
    assert_memory_equal(in.part[i].p, want, in.part[i].n);
}

static void le64(struct ck_buf *b, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        ck_buf_add(b, (uint8_t[]){(uint8_t)(v >> (8 * i))}, 1);
}

static void be32(struct ck_buf *b, uint32_t v)
{
    ck_buf_add(b, (uint8_t[]){(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v}, 4);
}

static void v1_frame(struct ck_buf *b, const char *const *parts, uint64_t n)
{
    uint64_t at = 8 * (n + 2);
    le64(b, n + 1);
    le64(b, at);
    for (uint64_t i = 0; i < n; i++)
        le64(b, at += strlen(parts[i]));
    for (uint64_t i = 0; i < n; i++)
        ck_buf_add_str(b, parts[i]);
}

static void v1_passes_parts_verbatim(void **state)
{
    (void)state;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"control", HEAD, "{ }", "{}", "{\"a\": 1.0}", "buf0", "", "buf2"}, 8);
    assert_int_equal(decode(JUP_V1, true, b.p, b.n), 0);
    assert_int_equal(in.channel, JUP_CONTROL);
    assert_int_equal(in.nparts, 7);
    part_is(0, HEAD);
    part_is(1, "{ }");
    part_is(3, "{\"a\": 1.0}");
    part_is(4, "buf0");
    part_is(5, "");
    part_is(6, "buf2");
    assert_string_equal(in.head.msg_id, "m1");
    assert_string_equal(in.head.msg_type, "execute_request");
    assert_string_equal(in.head.session, "s1");
}

static void v1_with_empty_parts_gets_objects(void **state)
{
    (void)state;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"", HEAD, "", "", ""}, 5);
    assert_int_equal(decode(JUP_V1, true, b.p, b.n), 0);
    assert_int_equal(in.channel, JUP_SHELL);
    part_is(1, "{}");
    part_is(2, "{}");
    part_is(3, "{}");
}

static void v1_frames_cut_anywhere_are_refused(void **state)
{
    (void)state;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"shell", HEAD, "{}", "{}", "{}", "xyz"}, 6);
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(decode(JUP_V1, true, b.p, n), -1);
}

static void v1_tables_that_lie_are_refused(void **state)
{
    (void)state;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"shell", HEAD, "{}", "{}", "{}"}, 5);
    for (size_t word = 0; word < 7; word++) {
        for (int k = 0; k < 3; k++) {
            uint64_t evil = (uint64_t[]){0, UINT64_MAX, UINT64_MAX / 8}[k];
            uint8_t saved[8];
            memcpy(saved, b.p + 8 * word, 8);
            for (int i = 0; i < 8; i++)
                b.p[8 * word + (size_t)i] = (uint8_t)(evil >> (8 * i));
            assert_int_equal(decode(JUP_V1, true, b.p, b.n), -1);
            memcpy(b.p + 8 * word, saved, 8);
        }
    }
    assert_int_equal(decode(JUP_V1, true, b.p, b.n), 0);
}

static void headers_that_do_not_name_the_message_are_refused(void **state)
{
    (void)state;
    const char *heads[] = {"{\"msg_id\":\"a\",\"msg_type\":\"b\"}", "{\"msg_id\":\"\",\"msg_type\":\"b\",\"session\":\"c\"}",
                           "{\"msg_id\":1,\"msg_type\":\"b\",\"session\":\"c\"}", "[]", "{}", "\"x\"", "{\"msg_id\":"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
        v1_frame(&b, (const char *[]){"shell", heads[i], "{}", "{}", "{}"}, 5);
        assert_int_equal(decode(JUP_V1, true, b.p, b.n), -1);
    }
    char id[400], json[900];
    memset(id, 'x', sizeof id);
    id[300] = 0;
    snprintf(json, sizeof json, "{\"header\":{\"msg_id\":\"%s\",\"msg_type\":\"t\",\"session\":\"s\"}}", id);
    assert_int_equal(decode_text(json), -1);
    id[255] = 0;
    snprintf(json, sizeof json, "{\"header\":{\"msg_id\":\"%s\",\"msg_type\":\"t\",\"session\":\"s\"}}", id);
    assert_int_equal(decode_text(json), 0);
}

static void parts_that_are_not_json_objects_are_refused(void **state)
{
    (void)state;
    const char *evil[] = {"[1]", "1", "{\"a\":NaN}", "{\"a\":\"\xff\"}", "{\"a\":1}}", "{}{}", "{\"a\":1},\"channel\":\"x\""};
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        for (int at = 2; at < 5; at++) {
            const char *parts[] = {"shell", HEAD, "{}", "{}", "{}"};
            parts[at] = evil[i];
            CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
            v1_frame(&b, parts, 5);
            assert_int_equal(decode(JUP_V1, true, b.p, b.n), -1);
        }
    }
}

static void legacy_is_tolerant_as_the_field_needs(void **state)
{
    (void)state;
    // Open WebUI: no buffers; the kernel gateway's suite: buffers {}; old clients: no parent, no channel.
    assert_int_equal(decode_text("{\"header\":" HEAD ",\"parent_header\":{},\"metadata\":{},\"content\":{\"code\":\"1\"},\"channel\":\"shell\"}"), 0);
    assert_int_equal(in.channel, JUP_SHELL);
    assert_int_equal(in.nparts, 4);
    part_is(0, HEAD); // the big number too: nothing is re-serialised
    part_is(3, "{\"code\":\"1\"}");
    assert_int_equal(decode_text("{\"header\":" HEAD ",\"buffers\":{}}"), 0);
    part_is(1, "{}");
    part_is(2, "{}");
    part_is(3, "{}");
    assert_int_equal(in.channel, JUP_SHELL);
    assert_int_equal(decode_text(" {\"channel\":null,\"parent_header\":null,\"header\":" HEAD ",\"buffers\":[]}"), 0);
    part_is(1, "{}");
    assert_int_equal(decode_text("{\"channel\":\"stdin\",\"header\":" HEAD "}"), 0);
    assert_int_equal(in.channel, JUP_STDIN);
}

static void channels_nobody_may_write_are_refused_under_the_messages_id(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"channel\":\"iopub\",\"header\":" HEAD "}",
                                        "{\"channel\":\"nonsense\",\"header\":" HEAD "}",
                                        "{\"channel\":7,\"header\":" HEAD "}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(decode_text(texts[i]), -1);
        assert_string_equal(in.head.msg_id, "m1");
    }
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"iopub", HEAD, "{}", "{}", "{}"}, 5);
    assert_int_equal(decode(JUP_V1, true, b.p, b.n), -1);
    assert_string_equal(in.head.msg_id, "m1");
}

static bool peek(enum jup_dialect d, bool binary, const void *p, size_t n, struct jup_head *head)
{
    enum jup_channel ch;
    struct ck_slice header;
    return jup_peek(d, binary, ck_slice(p, n), &ch, head, &header);
}

static void the_id_of_a_malformed_message_is_read_where_it_can_be(void **state)
{
    (void)state;
    static const char bad_utf8[] = "{\"header\":" HEAD ",\"content\":{\"code\":\"\xff\"}}", cut[] = "{\"header\":" HEAD ",\"con";
    static const char no_type[] = "{\"header\":{\"msg_id\":\"m1\"},\"content\":[]}", no_id[] = "{\"header\":{\"session\":\"s\"}}";
    struct jup_head head;
    assert_true(peek(JUP_LEGACY, false, bad_utf8, sizeof bad_utf8 - 1, &head));
    assert_string_equal(head.msg_id, "m1");
    assert_true(peek(JUP_LEGACY, false, cut, sizeof cut - 1, &head));
    assert_true(peek(JUP_LEGACY, false, no_type, sizeof no_type - 1, &head));
    assert_string_equal(head.msg_type, "");
    assert_false(peek(JUP_LEGACY, false, no_id, sizeof no_id - 1, &head));
    assert_false(peek(JUP_LEGACY, false, "{\"header\":[\"msg_id\"]}", 21, &head));
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"shell", HEAD, "{}", "{}", "{}"}, 5);
    size_t enough = b.n - 6; // all of the header
    assert_true(peek(JUP_V1, true, b.p, enough, &head));
    assert_string_equal(head.msg_id, "m1");
    assert_false(peek(JUP_V1, true, b.p, enough - 1, &head));
}

static void legacy_binary(struct ck_buf *b, const char *json, const char *buf0, size_t n0)
{
    uint32_t at = 12;
    be32(b, 2);
    be32(b, at);
    be32(b, at + (uint32_t)strlen(json));
    ck_buf_add_str(b, json);
    ck_buf_add(b, buf0, n0);
}

static void legacy_buffers_come_in_binary_frames_and_in_text_frames(void **state)
{
    (void)state;
    const char *json = "{\"header\":" HEAD ",\"content\":{\"data\":{}},\"channel\":\"shell\"}";
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    legacy_binary(&b, json, "\x01\x02\xff", 3);
    for (int binary = 0; binary < 2; binary++) { // jupyter-server 1.23 forwards it as text: 00 00 00 02 ...
        assert_int_equal(decode(JUP_LEGACY, binary, b.p, b.n), 0);
        assert_int_equal(in.nparts, 5);
        assert_int_equal(in.part[4].n, 3);
        assert_memory_equal(in.part[4].p, "\x01\x02\xff", 3);
        part_is(0, HEAD);
        for (size_t n = 0; n < b.n - 3; n++)
            assert_int_equal(decode(JUP_LEGACY, binary, b.p, n), -1);
    }
    for (size_t word = 0; word < 3; word++) {
        uint8_t saved[4];
        memcpy(saved, b.p + 4 * word, 4);
        memset(b.p + 4 * word, 0xff, 4);
        assert_int_equal(decode(JUP_LEGACY, true, b.p, b.n), -1);
        memset(b.p + 4 * word, 0, 4);
        assert_int_equal(decode(JUP_LEGACY, true, b.p, b.n), -1);
        memcpy(b.p + 4 * word, saved, 4);
    }
}

static void a_v1_client_may_fall_back_to_text(void **state)
{
    (void)state;
    const char *json = "{\"header\":" HEAD "}";
    assert_int_equal(decode(JUP_V1, false, json, strlen(json)), 0);
    assert_int_equal(decode(JUP_V1, true, json, strlen(json)), -1);
}

static void what_goes_out_as_v1_comes_back_in(void **state)
{
    (void)state;
    struct ck_slice buffers[2] = {ck_slice_str("abc"), ck_slice("", 0)};
    struct jup_out out = {.channel = JUP_SHELL, .buffers = buffers, .nbuffers = 2};
    const char *parts[] = {HEAD, "{\"p\": 1}", "{}", "{\"x\":[]}"};
    for (int i = 0; i < 4; i++)
        out.part[i] = ck_slice_str(parts[i]);
    bool text = true;
    BLOB struct ck_blob *b = jup_encode(JUP_V1, &out, &text);
    assert_non_null(b);
    assert_false(text);
    assert_int_equal(b->p[0], 8); // 6 + 2 buffers
    assert_int_equal(b->p[8], 72);
    assert_int_equal(decode(JUP_V1, true, b->p, b->n), 0);
    for (uint32_t i = 0; i < 4; i++)
        part_is(i, parts[i]);
    part_is(4, "abc");
    part_is(5, "");
    assert_int_equal(in.nparts, 6);
}

static void legacy_text_is_spliced_and_repeats_id_and_type(void **state)
{
    (void)state;
    struct jup_out out = {.channel = JUP_IOPUB};
    out.part[0] = ck_slice_str("{\"msg_type\": \"stream\", \"msg_id\":\"a\\u0062\"}");
    out.part[1] = ck_slice_str("{}");
    out.part[2] = ck_slice_str("{}");
    out.part[3] = ck_slice_str("{\"text\":\"hi\"}");
    bool text = false;
    BLOB struct ck_blob *b = jup_encode(JUP_LEGACY, &out, &text);
    assert_non_null(b);
    assert_true(text);
    const char *want = "{\"header\":{\"msg_type\": \"stream\", \"msg_id\":\"a\\u0062\"},\"parent_header\":{},\"metadata\":{},"
                       "\"content\":{\"text\":\"hi\"},\"buffers\":[],\"channel\":\"iopub\",\"msg_id\":\"a\\u0062\","
                       "\"msg_type\":\"stream\"}";
    assert_int_equal(b->n, strlen(want));
    assert_memory_equal(b->p, want, b->n);
}

static void legacy_with_buffers_is_a_big_endian_table(void **state)
{
    (void)state;
    struct ck_slice buffers[2] = {ck_slice_str("\x01\x02"), ck_slice_str("zz")};
    struct jup_out out = {.channel = JUP_SHELL, .buffers = buffers, .nbuffers = 2};
    out.part[0] = ck_slice_str(HEAD);
    for (int i = 1; i < 4; i++)
        out.part[i] = ck_slice_str("{}");
    bool text = true;
    BLOB struct ck_blob *b = jup_encode(JUP_LEGACY, &out, &text);
    assert_non_null(b);
    assert_false(text);
    assert_memory_equal(b->p, "\0\0\0\3\0\0\0\x10", 8);
    assert_memory_equal(b->p + b->n - 4, "\x01\x02zz", 4);
    assert_int_equal(decode(JUP_LEGACY, true, b->p, b->n), 0);
    assert_int_equal(in.nparts, 6);
    part_is(4, "\x01\x02");
}

static void the_head_of_a_message_too_large_is_found_in_its_start(void **state)
{
    (void)state;
    enum jup_channel ch;
    struct jup_head head;
    struct ck_slice header;
    const char *start = "{\"channel\":\"control\",\"header\":" HEAD ",\"content\":{\"code\":\"xxxxxxxxx";
    assert_true(jup_peek(JUP_LEGACY, false, ck_slice_str(start), &ch, &head, &header));
    assert_int_equal(ch, JUP_CONTROL);
    assert_string_equal(head.msg_id, "m1");
    assert_true(ck_slice_is(header, HEAD));
    assert_false(jup_peek(JUP_LEGACY, false, ck_slice_str("{\"content\":{\"code\":\"xxx"), &ch, &head, &header));
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    v1_frame(&b, (const char *[]){"shell", HEAD, "{}", "{}", "{\"code\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}"}, 5);
    assert_true(jup_peek(JUP_V1, true, ck_slice(b.p, b.n - 20), &ch, &head, &header));
    assert_string_equal(head.msg_type, "execute_request");
    assert_false(jup_peek(JUP_V1, true, ck_slice(b.p, 60), &ch, &head, &header));
}

static void made_up_messages_are_messages(void **state)
{
    (void)state;
    JUP_CLEAN_SYNTH struct jup_synth s = JUP_SYNTH_INIT;
    struct jup_head req = {"m1", "execute_request", "s1"};
    assert_int_equal(jup_synth_reply(&s, "k\"1", ck_slice_str(HEAD), &req, JUP_SHELL, "TooLarge", "say \"why\""), 0);
    bool text;
    BLOB struct ck_blob *b = jup_encode(JUP_LEGACY, &s.out, &text);
    assert_non_null(b);
    assert_true(ck_json_valid(b->p, b->n, NULL));
    assert_int_equal(decode(JUP_LEGACY, false, b->p, b->n), 0);
    assert_string_equal(in.head.msg_type, "execute_reply");
    assert_string_equal(in.head.session, "k\"1");
    part_is(1, HEAD);
    req = (struct jup_head){"m1", "comm_msg", "s1"};
    assert_int_equal(jup_synth_reply(&s, "", ck_slice_str(HEAD), &req, JUP_SHELL, "a", "b"), 1);
    assert_int_equal(jup_synth_gap(&s, "", ck_slice("", 0), 7, 12345), 0);
    assert_non_null(memmem(s.content.p, s.content.n, "7 messages (12345 bytes)", 24));
    assert_int_equal(jup_synth_status(&s, "k", ck_slice("", 0), "dead"), 0);
    assert_true(ck_slice_is(s.out.part[3], "{\"execution_state\":\"dead\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_passes_parts_verbatim),
        cmocka_unit_test(v1_with_empty_parts_gets_objects),
        cmocka_unit_test(v1_frames_cut_anywhere_are_refused),
        cmocka_unit_test(v1_tables_that_lie_are_refused),
        cmocka_unit_test(headers_that_do_not_name_the_message_are_refused),
        cmocka_unit_test(parts_that_are_not_json_objects_are_refused),
        cmocka_unit_test(legacy_is_tolerant_as_the_field_needs),
        cmocka_unit_test(channels_nobody_may_write_are_refused_under_the_messages_id),
        cmocka_unit_test(the_id_of_a_malformed_message_is_read_where_it_can_be),
        cmocka_unit_test(legacy_buffers_come_in_binary_frames_and_in_text_frames),
        cmocka_unit_test(a_v1_client_may_fall_back_to_text),
        cmocka_unit_test(what_goes_out_as_v1_comes_back_in),
        cmocka_unit_test(legacy_text_is_spliced_and_repeats_id_and_type),
        cmocka_unit_test(legacy_with_buffers_is_a_big_endian_table),
        cmocka_unit_test(the_head_of_a_message_too_large_is_found_in_its_start),
        cmocka_unit_test(made_up_messages_are_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
