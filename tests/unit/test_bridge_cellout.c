// What a cell put out: bounds, displays, clear_output, and the finished cell as JSON.
#include "common/ck_json.h"
#include "kernel-bridge/cellbook.h"
#include "kernel-bridge/celljson.h"
#include "kernel-bridge/shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *finished(const struct cout *c, enum cell_status status)
{
    struct cell_facts f = {.id = "id",
                           .seq_first = 3,
                           .seq_last = 9,
                           .status = status,
                           .exit_code = cell_exit_code(status),
                           .out = c,
                           .artifacts = ck_slice_str("[]"),
                           .wall_ms = 5,
                           .cpu_ms = -1,
                           .peak_memory_bytes = 7,
                           .disk_bytes = 9,
                           .ended_by = "",
                           .detail = ""};
    struct ck_buf b = CK_BUF_INIT;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(cell_json(&f, &b), 0);
    assert_true(ck_json_valid(b.p, b.n, NULL));
    json_t *j = ck_json_parse_object(b.p, b.n, false, &err);
    assert_non_null(j);
    ck_buf_free(&b);
    return j;
}

static json_t *at(json_t *j, const char *a, const char *b) { return json_object_get(json_object_get(j, a), b); }

static void the_finished_cell_is_what_the_contract_says(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_message(&c, "execute_input", ck_slice_str("{\"execution_count\":3}"));
    cout_message(&c, "stream", ck_slice_str("{\"name\":\"stdout\",\"text\":\"54\\u0030\\n\"}"));
    cout_message(&c, "stream", ck_slice_str("{\"name\":\"stderr\",\"text\":\"w\"}"));
    cout_message(&c, "display_data",
                 ck_slice_str("{\"data\":{\"image/png\":\"iV\"},\"metadata\":{\"m\":1},\"transient\":{}}"));
    cout_message(&c, "execute_result",
                 ck_slice_str("{\"execution_count\":3,\"data\":{\"text/plain\":\"1\"},\"metadata\":{}}"));
    json_t *j = finished(&c, CELL_OK);
    json_t *want =
        json_loads("{\"id\":\"id\",\"seq\":[3,9],\"status\":\"ok\",\"exit_code\":0,\"execution_count\":3,"
                   "\"stdout\":\"540\\n\",\"stderr\":\"w\",\"result\":{\"text/plain\":\"1\"},"
                   "\"displays\":[{\"data\":{\"image/png\":\"iV\"},\"metadata\":{\"m\":1}}],\"error\":null,"
                   "\"artifacts\":[],\"artifacts_total\":0,"
                   "\"usage\":{\"wall_ms\":5,\"cpu_ms\":null,\"peak_memory_bytes\":7,\"disk_bytes\":9},"
                   "\"truncated\":{\"stdout_bytes\":0,\"stderr_bytes\":0,\"displays\":0,\"display_bytes\":0}}",
                   0, NULL);
    assert_true(json_equal(j, want));
    json_decref(want);
    json_decref(j);
    cout_free(&c);
}

static void statuses_have_their_exit_codes(void **state)
{
    (void)state;
    static const int codes[CELL_STATUSES] = {0, 1, 124, 130, 137, 137, 137, 130};
    for (int s = 0; s < CELL_STATUSES; s++)
        assert_int_equal(cell_exit_code((enum cell_status)s), codes[s]);
}

static void a_traceback_comes_with_and_without_ansi(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_message(
        &c, "error",
        ck_slice_str("{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"\\u001b[0;31mred\\u001b[0m\",\"plain\"]}"));
    json_t *j = finished(&c, CELL_ERROR);
    assert_string_equal(json_string_value(json_array_get(at(j, "error", "traceback"), 0)), "\x1b[0;31mred\x1b[0m");
    assert_string_equal(json_string_value(json_array_get(at(j, "error", "traceback_plain"), 0)), "red");
    assert_string_equal(json_string_value(json_array_get(at(j, "error", "traceback_plain"), 1)), "plain");
    json_decref(j);
    cout_message(&c, "error", ck_slice_str("{\"ename\":7,\"traceback\":[{\"a\":1}]}"));
    j = finished(&c, CELL_ERROR);
    assert_string_equal(json_string_value(at(j, "error", "ename")), "");
    assert_int_equal(json_array_size(at(j, "error", "traceback")), 0); // only strings are lines
    json_decref(j);
    cout_free(&c);
}

static void escape_sequences_are_stripped_whole(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a\x1b[1;38;5;9mb\x1b[Kc", "abc"},
        {"\x1b]8;;http://x\x1b\\y", "y"},
        {"\x1b]0;t\x07z", "z"},
        {"\x1b"
         "cx",
         "x"},
        {"\x1b", ""},
        {"\x1b[", ""},
        {"\x1b[12", ""},
        {"\x1b]abc", ""},
        {"\x1b[\xC3\xA9", "\xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ck_buf b = CK_BUF_INIT;
        assert_int_equal(cell_strip_ansi(ck_slice_str(rows[i][0]), &b), 0);
        assert_int_equal(b.n, strlen(rows[i][1]));
        assert_memory_equal(b.n ? (const char *)b.p : "", rows[i][1], b.n);
        ck_buf_free(&b);
    }
}

static size_t held(const struct cout *c)
{
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        n += c->text[i].head.n + c->text[i].ring_room;
    for (size_t i = 0; i < c->displays; i++)
        n += c->display[i].data.n + c->display[i].metadata.n;
    return n;
}

static void endless_output_keeps_its_head_and_tail(void **state)
{
    (void)state;
    struct cout c;
    char line[32];
    cout_init(&c, 100000);
    uint64_t total = 0, dropped;
    for (int i = 0; i < 100000; i++) {
        int n = snprintf(line, sizeof line, "line %d\n", i);
        total += (uint64_t)n;
        cout_stream(&c, false, ck_slice(line, (size_t)n));
        assert_true(held(&c) <= 125000);
    }
    cout_stream(&c, true, ck_slice_str("still room for stderr\n"));
    struct ck_buf b = CK_BUF_INIT, e = CK_BUF_INIT;
    assert_int_equal(cout_text_get(&c.text[0], &b, &dropped), 0);
    ck_buf_reserve(&b, 1);
    b.p[b.n] = 0;
    assert_memory_equal(b.p, "line 0\nline 1\n", 14);
    assert_non_null(strstr((char *)b.p, "bytes left out"));
    assert_memory_equal(b.p + b.n - 11, "line 99999\n", 11);
    char marker[64];
    int m = snprintf(marker, sizeof marker, "\n[… %llu bytes left out …]\n", (unsigned long long)dropped);
    assert_int_equal(b.n - (size_t)m + dropped, total); // every byte is there or counted
    assert_int_equal(cout_text_get(&c.text[1], &e, &dropped), 0);
    assert_true(ck_slice_is(ck_buf_slice(&e), "still room for stderr\n"));
    ck_buf_free(&b);
    ck_buf_free(&e);
    cout_free(&c);
}

static void one_huge_write_and_many_sizes_are_counted_right(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 300; round++) {
        struct cout c;
        cout_init(&c, 1000 + (size_t)rand() % 1000);
        uint64_t total = 0, dropped;
        for (int i = rand() % 20; i >= 0; i--) {
            size_t n = (size_t)rand() % 3000;
            char *s = malloc(n + 3);
            for (size_t k = 0; k < n; k += 2)
                memcpy(s + k, "\xC3\xA9", 2); // two-byte characters: cuts must not split them
            n &= ~(size_t)1;
            cout_stream(&c, false, ck_slice(s, n));
            total += n;
            free(s);
        }
        struct ck_buf b = CK_BUF_INIT;
        assert_int_equal(cout_text_get(&c.text[0], &b, &dropped), 0);
        char marker[64];
        int m =
            dropped ? snprintf(marker, sizeof marker, "\n[… %llu bytes left out …]\n", (unsigned long long)dropped) : 0;
        assert_int_equal(b.n - (size_t)m + dropped, total);
        json_t *j = finished(&c, CELL_OK); // asserts valid UTF-8
        const char *text = json_string_value(json_object_get(j, "stdout"));
        assert_null(strstr(text, "\xEF\xBF\xBD"));
        json_decref(j);
        ck_buf_free(&b);
        cout_free(&c);
    }
}

static void displays_over_the_budget_are_counted(void **state)
{
    (void)state;
    struct cout c;
    char *big = malloc(70000);
    cout_init(&c, 100000);
    int n = snprintf(big, 70000, "{\"data\":{\"t\":\"%060000d\"}}", 7);
    cout_message(&c, "display_data", ck_slice(big, (size_t)n));
    cout_message(&c, "display_data", ck_slice(big, (size_t)n));
    cout_message(&c, "display_data", ck_slice_str("{\"data\":{\"a\":1}}"));
    assert_int_equal(c.displays, 2);
    json_t *j = finished(&c, CELL_OK);
    assert_int_equal(json_integer_value(at(j, "truncated", "displays")), 1);
    assert_true(json_integer_value(at(j, "truncated", "display_bytes")) > 60000);
    json_decref(j);
    for (int i = 0; i < COUT_DISPLAYS_MAX + 10; i++)
        cout_message(&c, "display_data", ck_slice_str("{\"data\":{}}"));
    assert_int_equal(c.displays, COUT_DISPLAYS_MAX);
    free(big);
    cout_free(&c);
}

static void a_display_is_updated_by_its_id(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_message(&c, "display_data", ck_slice_str("{\"data\":{\"v\":1},\"transient\":{\"display_id\":\"d\"}}"));
    cout_message(&c, "display_data", ck_slice_str("{\"data\":{\"v\":2}}"));
    cout_message(&c, "update_display_data", ck_slice_str("{\"data\":{\"v\":3},\"transient\":{\"display_id\":\"d\"}}"));
    cout_message(&c, "update_display_data",
                 ck_slice_str("{\"data\":{\"v\":4},\"transient\":{\"display_id\":\"unknown\"}}"));
    cout_message(&c, "update_display_data", ck_slice_str("{\"data\":{\"v\":5}}"));
    assert_int_equal(c.displays, 2);
    assert_true(ck_slice_is(ck_buf_slice(&c.display[0].data), "{\"v\":3}"));
    assert_true(ck_slice_is(ck_buf_slice(&c.display[1].data), "{\"v\":2}"));
    cout_free(&c);
}

static void clear_output_clears_now_or_with_the_next_output(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_stream(&c, false, ck_slice_str("old"));
    cout_message(&c, "display_data", ck_slice_str("{\"data\":{}}"));
    cout_message(&c, "clear_output", ck_slice_str("{\"wait\":true}"));
    assert_int_equal(c.text[0].head.n, 3);
    cout_stream(&c, false, ck_slice_str("new!"));
    assert_int_equal(c.text[0].head.n, 4);
    assert_int_equal(c.displays, 0);
    cout_message(&c, "clear_output", ck_slice_str("{\"wait\":false}"));
    assert_int_equal(c.text[0].head.n, 0);
    assert_int_equal(c.used, 0);
    cout_free(&c);
}

static void the_last_result_is_the_result(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_message(&c, "execute_result", ck_slice_str("{\"data\":{\"text/plain\":\"1\"}}"));
    cout_message(&c, "execute_result", ck_slice_str("{\"data\":{\"text/plain\":\"2\"}}"));
    json_t *j = finished(&c, CELL_OK);
    assert_string_equal(json_string_value(at(j, "result", "text/plain")), "2");
    assert_int_equal(json_array_size(json_object_get(j, "displays")), 1); // the earlier one is shown too
    json_decref(j);
    cout_free(&c);
}

static void contents_with_wrong_types_do_no_harm(void **state)
{
    (void)state;
    static const char *const types[] = {"stream", "display_data", "update_display_data", "execute_result",
                                        "error",  "clear_output", "execute_input"};
    static const char *const contents[] = {"{}",
                                           "{\"name\":7,\"text\":{}}",
                                           "{\"data\":[],\"metadata\":1,\"transient\":\"x\"}",
                                           "{\"ename\":[],\"evalue\":{},\"traceback\":\"t\"}",
                                           "{\"wait\":\"yes\"}",
                                           "{\"execution_count\":\"3\"}",
                                           "{\"transient\":{\"display_id\":{}}}"};
    struct cout c;
    cout_init(&c, 1 << 20);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t k = 0; k < sizeof contents / sizeof *contents; k++) {
            cout_message(&c, types[i], ck_slice_str(contents[k]));
            json_decref(finished(&c, CELL_OK));
        }
    cout_free(&c);
}

static void the_book_keeps_the_latest_cells(void **state)
{
    (void)state;
    struct cellbook *b = calloc(1, sizeof *b);
    char id[CK_UUID_MAX];
    for (int i = 0; i < CELLBOOK_MAX + 5; i++) {
        struct ck_blob *f = ck_blob_new(10);
        snprintf(id, sizeof id, "%d", i);
        cellbook_add(b, id, CELL_OK, f);
        ck_blob_unref(f);
    }
    assert_null(cellbook_find(b, "4"));
    assert_non_null(cellbook_find(b, "5"));
    struct ck_blob *big = ck_blob_new(CELLBOOK_BYTES_MAX + 1);
    cellbook_add(b, "big", CELL_ERROR, big);
    ck_blob_unref(big);
    assert_int_equal(b->n, 1);
    assert_int_equal(cellbook_find(b, "big")->status, CELL_ERROR);
    cellbook_free(b);
    free(b);
}

static const char *text(json_t *j, const char *a, const char *b)
{
    const char *s = json_string_value(b ? at(j, a, b) : json_object_get(j, a));
    return s ? s : "";
}

#define SHOWN "{\"ename\":\"E\",\"evalue\":\"shown\",\"traceback\":[\"one\",\"two\"]}"
#define REAL "{\"status\":\"error\",\"ename\":\"R\",\"evalue\":\"real\",\"traceback\":[\"three\"]}"

static void the_reply_says_what_the_error_is(void **state)
{
    (void)state;
    static const struct {
        const char *before, *reply, *after; // error on iopub, reply, error on iopub
        const char *ename, *err;            // of the finished cell
    } rows[] = {
        {SHOWN, "{\"status\":\"ok\"}", NULL, "", "one\ntwo\n"},
        {"{\"ename\":5,\"traceback\":\"x\"}", "{\"status\":\"ok\"}", NULL, "", ": \n"},
        {REAL, REAL, NULL, "R", ""}, // the usual order
        {NULL, REAL, REAL, "R", ""},
        {NULL, REAL, NULL, "R", ""},
        {SHOWN, REAL, REAL, "R", "one\ntwo\n"},
        {SHOWN, REAL, SHOWN, "R", "one\ntwo\none\ntwo\n"},
        {NULL, "{\"status\":\"ok\"}", SHOWN, "", "one\ntwo\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cout c;
        cout_init(&c, 1 << 20);
        if (rows[i].before)
            cout_message(&c, "error", ck_slice_str(rows[i].before));
        cout_reply(&c, strstr(rows[i].reply, "ename") != NULL, ck_slice_str(rows[i].reply));
        if (rows[i].after)
            cout_message(&c, "error", ck_slice_str(rows[i].after));
        json_t *j = finished(&c, CELL_OK);
        assert_string_equal(text(j, "error", "ename"), rows[i].ename);
        assert_string_equal(text(j, "stderr", NULL), rows[i].err);
        json_decref(j);
        cout_free(&c);
    }
}

static void a_huge_error_is_cut_and_says_so(void **state)
{
    (void)state;
    for (int lines = 1; lines < 40; lines += 19) {
        struct cout c;
        CK_CLEAN_BUF struct ck_buf content = CK_BUF_INIT;
        cout_init(&c, 1 << 20);
        ck_buf_add_str(&content, "{\"status\":\"error\",\"ename\":\"ValueError\",\"evalue\":\"");
        for (int i = 0; i < 550000; i++)
            ck_buf_add_str(&content, "\xC3\xA9");
        ck_buf_add_str(&content, "\",\"traceback\":[\"first\"");
        for (int l = 0; l < lines; l++) {
            ck_buf_add_str(&content, ",\"last:");
            for (int i = 0; i < 70000; i++)
                ck_buf_add_str(&content, "x");
            ck_buf_add_str(&content, "\"");
        }
        ck_buf_add_str(&content, "]}");
        cout_message(&c, "error", ck_buf_slice(&content));
        cout_reply(&c, true, ck_buf_slice(&content));
        json_t *j = finished(&c, CELL_ERROR), *tb = at(j, "error", "traceback");
        const char *evalue = text(j, "error", "evalue");
        assert_true(strlen(evalue) >= COUT_ERROR_TEXT_MAX && strlen(evalue) < COUT_ERROR_TEXT_MAX + 64);
        assert_non_null(strstr(evalue, "[… 1034464 bytes left out …]"));
        assert_string_equal(json_string_value(json_array_get(tb, 0)), "first");
        const char *last = json_string_value(json_array_get(tb, json_array_size(tb) - 1));
        assert_true(!strncmp(last, "last:xxx", 8) && strstr(last, "bytes left out"));
        size_t total = 0;
        for (size_t i = 0; i < json_array_size(tb); i++)
            total += json_string_length(json_array_get(tb, i));
        assert_true(total < COUT_ERROR_MAX + 1024);
        assert_true(json_integer_value(at(j, "truncated", "error_bytes")) > 1034464);
        assert_string_equal(text(j, "stderr", NULL), ""); // it is the same error both times
        json_decref(j);
        cout_free(&c);
    }
}

static void two_errors_that_were_shown_are_both_kept(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_message(&c, "error", ck_slice_str(SHOWN));
    cout_message(&c, "error", ck_slice_str("{\"ename\":\"L\",\"evalue\":\"last\",\"traceback\":[]}"));
    json_t *j = finished(&c, CELL_KERNEL_DIED); // no reply came
    assert_string_equal(text(j, "error", "ename"), "L");
    assert_string_equal(text(j, "stderr", NULL), "one\ntwo\n");
    json_decref(j);
    cout_free(&c);
}

static void messages_over_the_cap_are_counted_where_they_belong(void **state)
{
    (void)state;
    struct cout c;
    cout_init(&c, 1 << 20);
    cout_dropped(&c, "display_data", 1000);
    cout_dropped(&c, "execute_result", 200);
    cout_dropped(&c, "update_display_data", 30);
    cout_dropped(&c, "stream", 7);
    cout_dropped(&c, "comm_msg", 99);
    json_t *j = finished(&c, CELL_OK);
    assert_int_equal(json_integer_value(at(j, "truncated", "displays")), 3);
    assert_int_equal(json_integer_value(at(j, "truncated", "display_bytes")), 1230);
    assert_int_equal(json_integer_value(at(j, "truncated", "stdout_bytes")), 7);
    json_decref(j);
    cout_free(&c);
}

static void an_ending_is_told_anew_and_nothing_else_changes(void **state)
{
    (void)state;
    const struct cell_ending was = {"sigint", "not \"yet\""}, now = {"sigkill", "killed"};
    struct ck_slice json = ck_slice_str("{\"stdout\":\"x\",\"ended_by\":\"sigint\",\"detail\":\"not \\\"yet\\\"\"}");
    struct ck_buf out = CK_BUF_INIT;
    assert_int_equal(cell_json_end_anew(json, &was, &now, &out), 0);
    assert_true(ck_slice_is(ck_buf_slice(&out), "{\"stdout\":\"x\",\"ended_by\":\"sigkill\",\"detail\":\"killed\"}"));
    ck_buf_free(&out);
    assert_int_equal(cell_json_end_anew(json, &now, &was, &out), 1); // it does not end like that
    assert_int_equal(cell_json_end_anew(ck_slice("", 0), &was, &now, &out), 1);
    assert_int_equal(out.n, 0);
}

static void a_cell_of_the_book_can_be_told_anew(void **state)
{
    (void)state;
    static struct cellbook book;
    struct ck_blob *one = ck_blob_new(10), *two = ck_blob_new(30), *none = ck_blob_new(5);
    cellbook_add(&book, "a", CELL_TIMEOUT, one);
    ck_blob_unref(one);
    cellbook_replace(&book, "a", two);
    cellbook_replace(&book, "b", none); // forgotten meanwhile
    cellbook_replace(&book, "a", NULL); // no memory for it: as it was
    assert_ptr_equal(cellbook_find(&book, "a")->frame, two);
    assert_int_equal(book.bytes, 30);
    cellbook_free(&book);
    assert_int_equal(book.bytes, 0);
}

// An artifact of the cell as artifacts_read() writes it.
static void artifact(struct artifacts *a, const char *mime, int size, const char *sha256)
{
    ck_buf_printf(&a->json[a->n++], "{\"path\":\"/x\",\"mime\":\"%s\",\"size\":%d,\"sha256\":\"%s\",\"url\":\"u\"}",
                  mime, size, sha256);
}

static void a_file_that_was_shown_says_where(void **state)
{
    (void)state;
    static const char foo[] = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"; // of foo
    static const char other[] = "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"; // of bar
    static const char svg[] = "6d2dcfa37331dc57ce1be0ab4f9a65ca9a1e9d36b0f8e4f9a1fd7f2a0a5b1a0f"; // of something else
    struct cout c;
    struct artifacts a = {.n = 0};
    cout_init(&c, 1 << 20);
    cout_message(&c, "display_data", ck_slice_str("{\"data\":{\"text/plain\":\"Zm9v\"},\"metadata\":{}}"));
    cout_message(&c, "execute_result", ck_slice_str("{\"data\":{\"image/png\":\"YmFy\"},\"metadata\":{},\"execution_count\":1}"));
    cout_message(&c, "display_data", ck_slice_str("{\"data\":{\"image/png\":\"Zm\\n9v\\n\"},\"metadata\":{}}"));
    artifact(&a, "image/png", 3, foo);
    artifact(&a, "text/plain", 3, foo);
    artifact(&a, "image/png", 3, svg);
    artifact(&a, "image/jpeg", 3, other);
    shown_mark(&c, &a);
    static const char *const want[] = {",\"display\":1}", ",\"url\":\"u\"}", ",\"url\":\"u\"}", ",\"display\":\"result\"}"};
    for (unsigned i = 0; i < a.n; i++) {
        size_t n = strlen(want[i]);
        assert_true(ck_json_valid(a.json[i].p, a.json[i].n, NULL));
        assert_memory_equal(a.json[i].p + a.json[i].n - n, want[i], n);
    }
    artifacts_free(&a);
    cout_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_finished_cell_is_what_the_contract_says),
        cmocka_unit_test(statuses_have_their_exit_codes),
        cmocka_unit_test(a_traceback_comes_with_and_without_ansi),
        cmocka_unit_test(escape_sequences_are_stripped_whole),
        cmocka_unit_test(endless_output_keeps_its_head_and_tail),
        cmocka_unit_test(one_huge_write_and_many_sizes_are_counted_right),
        cmocka_unit_test(displays_over_the_budget_are_counted),
        cmocka_unit_test(a_display_is_updated_by_its_id),
        cmocka_unit_test(clear_output_clears_now_or_with_the_next_output),
        cmocka_unit_test(the_last_result_is_the_result),
        cmocka_unit_test(contents_with_wrong_types_do_no_harm),
        cmocka_unit_test(the_book_keeps_the_latest_cells),
        cmocka_unit_test(the_reply_says_what_the_error_is),
        cmocka_unit_test(a_huge_error_is_cut_and_says_so),
        cmocka_unit_test(two_errors_that_were_shown_are_both_kept),
        cmocka_unit_test(messages_over_the_cap_are_counted_where_they_belong),
        cmocka_unit_test(an_ending_is_told_anew_and_nothing_else_changes),
        cmocka_unit_test(a_cell_of_the_book_can_be_told_anew),
        cmocka_unit_test(a_file_that_was_shown_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
