// Operations of the gateway: what is accepted, what is refused and how; the bridge's configuration.
#include "kernel-bridge/bconf.h"
#include "kernel-bridge/bops.h"
#include "vmm/jail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *header, const char *part, struct bop *op, struct ck_err *err)
{
    struct ck_slice p = ck_slice_str(part ? part : "");
    struct ck_blob *b = ck_frame_encode(ck_slice_str(header), &p, part ? 1 : 0);
    struct ck_frame f;
    size_t used;
    *err = (struct ck_err)CK_ERR_INIT;
    assert_int_equal(ck_frame_parse(b->p, b->n, b->n, &f, &used, err), 0);
    int rc = bop_parse(&f, op, err);
    free(b); // the header outlives the frame; parts do not and are not looked at afterwards
    return rc;
}

#define CELL "\"cell\":\"aaaaaaaa-0000-4000-8000-000000000001\""

static void good_operations_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part;
        enum bop_kind kind;
    } rows[] = {
        {"{\"op\":\"info\",\"rid\":1}", NULL, BOP_INFO},
        {"{\"op\":\"claim\",\"rid\":1,\"name\":\"n\",\"kernel_env\":{\"A\":\"b\"},\"limits\":{}}", NULL, BOP_CLAIM},
        {"{\"op\":\"claim\",\"rid\":1,\"artifact_ignore\":[\"*.d\"]}", NULL, BOP_CLAIM},
        {"{\"op\":\"attach\",\"rid\":1,\"from\":0,\"mode\":\"all\"}", NULL, BOP_ATTACH},
        {"{\"op\":\"attach\",\"rid\":1,\"from\":\"now\",\"mode\":\"state\"}", NULL, BOP_ATTACH},
        {"{\"op\":\"attach\",\"rid\":1,\"from\":\"resume\",\"mode\":\"jupyter\",\"consumer\":\"c\"}", NULL, BOP_ATTACH},
        {"{\"op\":\"attach\",\"rid\":1,\"from\":5,\"mode\":\"cell\"," CELL "}", NULL, BOP_ATTACH},
        {"{\"op\":\"ack\",\"seq\":7}", NULL, BOP_ACK},
        {"{\"op\":\"execute\",\"rid\":1," CELL "}", "1+1", BOP_EXECUTE},
        {"{\"op\":\"execute\",\"rid\":1,\"attach\":true," CELL "}", "1+1", BOP_EXECUTE},
        {"{\"op\":\"stdin\",\"rid\":1," CELL ",\"value\":\"v\"}", NULL, BOP_STDIN},
        {"{\"op\":\"file_read\",\"rid\":1,\"path\":\"a\",\"offset\":5,\"length\":-1}", NULL, BOP_FILE_READ},
        {"{\"op\":\"file_move\",\"rid\":1,\"from\":\"a\",\"to\":\"b\"}", NULL, BOP_FILE_MOVE},
        {"{\"op\":\"data\",\"rid\":1}", "bytes", BOP_DATA},
        {"{\"op\":\"command\",\"rid\":1,\"argv\":[\"ls\"],\"env\":{},\"timeout_ms\":5}", "stdin", BOP_COMMAND},
        {"{\"op\":\"command\",\"rid\":1,\"cmd\":\"ls\"}", NULL, BOP_COMMAND},
        {"{\"op\":\"shutdown\",\"rid\":-5}", NULL, BOP_SHUTDOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bop op;
        struct ck_err err;
        assert_int_equal(parse(rows[i].header, rows[i].part, &op, &err), 0);
        assert_int_equal(op.kind, rows[i].kind);
        bop_free(&op);
    }
}

static void bad_operations_are_refused_with_their_rid(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part, *reason;
    } rows[] = {
        {"{\"op\":\"nope\",\"rid\":9}", NULL, "unknown_op"},
        {"{\"rid\":9}", NULL, "unknown_op"},
        {"{\"op\":7,\"rid\":9}", NULL, "bad_field"},
        {"{\"op\":\"attach\",\"rid\":9,\"from\":-1,\"mode\":\"all\"}", NULL, "bad_field"},
        {"{\"op\":\"attach\",\"rid\":9,\"from\":\"resume\",\"mode\":\"all\"}", NULL, "bad_field"},
        {"{\"op\":\"attach\",\"rid\":9,\"from\":0,\"mode\":\"jupyter\"}", NULL, "bad_field"},
        {"{\"op\":\"attach\",\"rid\":9,\"from\":0,\"mode\":\"cell\"}", NULL, "bad_field"},
        {"{\"op\":\"attach\",\"rid\":9,\"mode\":\"all\"}", NULL, "bad_field"},
        {"{\"op\":\"claim\",\"rid\":9,\"artifact_ignore\":[\"a/b\"]}", NULL, "bad_field"},
        {"{\"op\":\"claim\",\"rid\":9,\"artifact_ignore\":null}", NULL, "bad_field"},
        {"{\"op\":\"execute\",\"rid\":9,\"cell\":\"x\"}", "1", "bad_field"},
        {"{\"op\":\"execute\",\"rid\":9,\"attach\":1," CELL "}", "1", "bad_field"},
        {"{\"op\":\"execute\",\"rid\":9," CELL "}", NULL, "bad_frame"},
        {"{\"op\":\"execute\",\"rid\":9," CELL "}", "\xff", "bad_code"},
        {"{\"op\":\"execute\",\"rid\":9," CELL ",\"timeout_ms\":-1}", "1", "bad_field"},
        {"{\"op\":\"execute\",\"rid\":9," CELL ",\"silent\":1}", "1", "bad_field"},
        {"{\"op\":\"send\",\"rid\":9,\"ch\":\"iopub\"}", NULL, "bad_field"},
        {"{\"op\":\"send\",\"rid\":9,\"ch\":\"shell\"}", "only one part", "bad_message"},
        {"{\"op\":\"file_stat\",\"rid\":9}", NULL, "bad_field"},
        {"{\"op\":\"file_stat\",\"rid\":9,\"path\":\"a\\u0000b\"}", NULL, "bad_json"},
        {"{\"op\":\"file_read\",\"rid\":9,\"path\":\"a\",\"offset\":-1}", NULL, "bad_field"},
        {"{\"op\":\"file_write\",\"rid\":9,\"path\":\"a\",\"mode\":4096}", NULL, "bad_field"},
        {"{\"op\":\"data\",\"rid\":9}", NULL, "bad_frame"},
        {"{\"op\":\"command\",\"rid\":9}", NULL, "bad_field"},
        {"{\"op\":\"command\",\"rid\":9,\"cmd\":\"a\",\"argv\":[\"b\"]}", NULL, "bad_field"},
        {"{\"op\":\"command\",\"rid\":9,\"argv\":[]}", NULL, "bad_field"},
        {"{\"op\":\"command\",\"rid\":9,\"argv\":[1]}", NULL, "bad_field"},
        {"{\"op\":\"command\",\"rid\":9,\"cmd\":\"a\",\"env\":{\"A=B\":\"c\"}}", NULL, "bad_field"},
        {"{\"op\":\"claim\",\"rid\":9,\"kernel_env\":{\"A\":1}}", NULL, "bad_field"},
        {"{\"op\":\"checkpoint\",\"rid\":9}", NULL, "bad_field"},
        {"{\"op\":\"rollback\",\"rid\":9,\"layer\":\"../../etc\"}", NULL, "bad_field"},
        {"{\"op\":\"pause\",\"rid\":9,\"layer\":7}", NULL, "bad_field"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bop op;
        struct ck_err err;
        assert_int_equal(parse(rows[i].header, rows[i].part, &op, &err), -1);
        assert_string_equal(err.reason, rows[i].reason);
        assert_int_equal(err.status, 400);
        if (strcmp(err.reason, "bad_json")) {
            assert_true(op.has_rid);
            assert_int_equal(op.rid, 9);
        }
        bop_free(&op);
    }
}

static void an_operation_without_rid_is_only_right_where_none_is_answered(void **state)
{
    (void)state;
    struct bop op;
    struct ck_err err;
    assert_int_equal(parse("{\"op\":\"info\"}", NULL, &op, &err), -1);
    assert_false(op.has_rid);
    bop_free(&op);
    assert_int_equal(parse("{\"op\":\"ack\",\"seq\":1}", NULL, &op, &err), 0);
    bop_free(&op);
    assert_int_equal(parse("[]", NULL, &op, &err), -1);
    bop_free(&op);
}

static void an_ack_says_what_is_sure_and_what_was_sent(void **state)
{
    (void)state;
    struct bop op;
    struct ck_err err;
    assert_int_equal(parse("{\"op\":\"ack\",\"seq\":3}", NULL, &op, &err), 0);
    assert_true(op.seq == 3 && op.sent == 3);
    bop_free(&op);
    assert_int_equal(parse("{\"op\":\"ack\",\"seq\":3,\"sent\":9}", NULL, &op, &err), 0);
    assert_true(op.seq == 3 && op.sent == 9);
    bop_free(&op);
    assert_int_equal(parse("{\"op\":\"ack\",\"seq\":3,\"sent\":2}", NULL, &op, &err), -1);
    bop_free(&op);
}

static void a_path_may_be_any_bytes(void **state)
{
    (void)state;
    struct bop op;
    struct ck_err err;
    assert_int_equal(parse("{\"op\":\"file_move\",\"rid\":1,\"from\":\"?\",\"from_raw_hex\":\"2fff\",\"to\":\"/b\"}", NULL,
                           &op, &err), 0);
    assert_string_equal(op.path, "/\xff");
    assert_string_equal(op.to, "/b");
    bop_free(&op);
    assert_int_equal(parse("{\"op\":\"file_stat\",\"rid\":1,\"path\":\"/a\",\"path_raw_hex\":\"2f00\"}", NULL, &op, &err), -1);
    bop_free(&op);
}

static void a_shutdown_has_a_reason(void **state)
{
    (void)state;
    struct bop op;
    struct ck_err err;
    char long_one[400];
    assert_int_equal(parse("{\"op\":\"shutdown\",\"rid\":1}", NULL, &op, &err), 0);
    assert_string_equal(op.why, "this session was shut down");
    bop_free(&op);
    assert_int_equal(parse("{\"op\":\"shutdown\",\"rid\":1,\"why\":\"so\"}", NULL, &op, &err), 0);
    assert_string_equal(op.why, "so");
    bop_free(&op);
    snprintf(long_one, sizeof long_one, "{\"op\":\"shutdown\",\"rid\":1,\"why\":\"%0201d\"}", 0);
    assert_int_equal(parse(long_one, NULL, &op, &err), -1);
    bop_free(&op);
}

static void every_operation_has_a_name(void **state)
{
    (void)state;
    for (int k = 0; k < BOP_KINDS; k++)
        assert_non_null(bop_name((enum bop_kind)k));
}

#define ID "\"id\":\"aaaaaaaa-0000-4000-8000-000000000001\",\"dir\":\"/s\",\"template_dir\":\"/t\""

static void a_configuration_is_read_with_defaults(void **state)
{
    (void)state;
    struct bconf c;
    struct ck_err err = CK_ERR_INIT;
    static const char text[] =
        "{" ID ",\"pool\":true,\"uid\":5,\"jail_required\":[\"net_ns\",\"uid\"],\"limits\":{\"queue_max\":3}}";
    assert_int_equal(bconf_parse(text, strlen(text), &c, &err), 0);
    assert_string_equal(c.dir, "/s");
    assert_true(c.pool);
    assert_int_equal(c.uid, 5);
    assert_int_equal(c.jail_required, CK_JAIL_BIT(CK_JAIL_NET_NS) | CK_JAIL_BIT(CK_JAIL_UID));
    assert_int_equal(c.limits.queue_max, 3);
    assert_int_equal(c.limits.output_bytes, 10 << 20);
    assert_int_equal(c.limits.log_bytes, 64 << 20);
}

static void a_session_may_begin_from_a_layer(void **state)
{
    (void)state;
    static const char *const modes[] = {"fork", "resume"};
    for (int i = 0; i < 2; i++) {
        struct bconf c;
        struct ck_err err = CK_ERR_INIT;
        char text[400];
        snprintf(text, sizeof text, "{" ID ",\"restore\":{\"layer\":\"%s\",\"mode\":\"%s\"}}",
                 "aaaaaaaa-0000-4000-8000-000000000002", modes[i]);
        assert_int_equal(bconf_parse(text, strlen(text), &c, &err), 0);
        assert_int_equal(c.restore, i ? BCONF_RESUME : BCONF_FORK);
        assert_string_equal(c.layer, "aaaaaaaa-0000-4000-8000-000000000002");
    }
}

#define NEW_ID "\"id\":\"aaaaaaaa-0000-4000-8000-000000000003\""

static void a_spare_becomes_what_it_is_told(void **state)
{
    (void)state;
    struct bconf c, before;
    struct ck_err err = CK_ERR_INIT;
    static const char text[] = "{" ID ",\"spare\":true,\"uid\":5}";
    static const char *const bad[] = {
        "", "{}", "{\"id\":\"x\"}", "{" NEW_ID ",\"limits\":{\"cell_ms\":-1}}",
        "{" NEW_ID ",\"restore\":{\"layer\":\"x\",\"mode\":\"fork\"}}",
        "{" NEW_ID ",\"pool\":true,\"restore\":{\"layer\":\"aaaaaaaa-0000-4000-8000-000000000002\",\"mode\":\"fork\"}}",
    };
    static const char order[] = "{\"id\":\"aaaaaaaa-0000-4000-8000-000000000003\",\"pool\":false,\"limits\":{\"cell_ms\":7},"
                                "\"restore\":{\"layer\":\"aaaaaaaa-0000-4000-8000-000000000002\",\"mode\":\"resume\"}}";
    assert_int_equal(bconf_parse(text, strlen(text), &c, &err), 0);
    assert_true(c.spare);
    before = c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (struct ck_err)CK_ERR_INIT;
        assert_int_equal(bconf_begin(bad[i], strlen(bad[i]), &c, &err), -1);
        assert_true(err.status >= 400 && err.text[0]);
        assert_memory_equal(&c, &before, sizeof c);
    }
    assert_int_equal(bconf_begin(order, strlen(order), &c, &err), 0);
    assert_false(c.spare || c.pool);
    assert_string_equal(c.id, "aaaaaaaa-0000-4000-8000-000000000003");
    assert_string_equal(c.layer, "aaaaaaaa-0000-4000-8000-000000000002");
    assert_string_equal(c.dir, "/s");
    assert_int_equal(c.restore, BCONF_RESUME);
    assert_int_equal(c.limits.cell_ms, 7);
    assert_int_equal(c.uid, 5);
}

static void a_wrong_configuration_is_one_clear_error(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "[]", "{}", "{" ID ",\"dir\":\"relative\"}", "{\"id\":\"x\",\"dir\":\"/s\",\"template_dir\":\"/t\"}",
        "{" ID ",\"jail_required\":[\"no_such_step\"]}", "{" ID ",\"limits\":{\"queue_max\":0}}",
        "{" ID ",\"restore\":{}}", "{" ID ",\"restore\":{\"layer\":\"x\",\"mode\":\"fork\"}}",
        "{" ID ",\"restore\":{\"layer\":\"aaaaaaaa-0000-4000-8000-000000000002\",\"mode\":\"other\"}}",
        "{" ID ",\"pool\":true,\"restore\":{\"layer\":\"aaaaaaaa-0000-4000-8000-000000000002\",\"mode\":\"fork\"}}",
        "{" ID ",\"spare\":true,\"restore\":{\"layer\":\"aaaaaaaa-0000-4000-8000-000000000002\",\"mode\":\"fork\"}}",
        "{" ID ",\"limits\":{\"output_bytes\":1}}", "{" ID ",\"limits\":{\"cell_ms\":\"5\"}}", "{" ID ",\"pool\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bconf c;
        struct ck_err err = CK_ERR_INIT;
        assert_int_equal(bconf_parse(bad[i], strlen(bad[i]), &c, &err), -1);
        assert_true(err.status >= 400 && err.text[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_operations_are_taken),
        cmocka_unit_test(bad_operations_are_refused_with_their_rid),
        cmocka_unit_test(an_operation_without_rid_is_only_right_where_none_is_answered),
        cmocka_unit_test(an_ack_says_what_is_sure_and_what_was_sent),
        cmocka_unit_test(a_path_may_be_any_bytes),
        cmocka_unit_test(a_shutdown_has_a_reason),
        cmocka_unit_test(every_operation_has_a_name),
        cmocka_unit_test(a_configuration_is_read_with_defaults),
        cmocka_unit_test(a_session_may_begin_from_a_layer),
        cmocka_unit_test(a_spare_becomes_what_it_is_told),
        cmocka_unit_test(a_wrong_configuration_is_one_clear_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
