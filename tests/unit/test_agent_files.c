// Paths, names, types and snapshots of the guest's files.
#include "guest/agent/mime.h"
#include "guest/agent/paths.h"
#include "guest/agent/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void paths_are_made_comparable(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"/", "/"}, {"//", "/"}, {"/a", "/a"}, {"/a/", "/a"}, {"//a//./b/.", "/a/b"}, {"/.hidden/..x", "/.hidden/..x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[AG_PATH_MAX];
        struct ck_err err = CK_ERR_INIT;
        assert_int_equal(ag_path_clean(rows[i].in, out, &err), 0);
        assert_string_equal(out, rows[i].out);
    }
}

static void bad_paths_are_refused(void **state)
{
    (void)state;
    char out[AG_PATH_MAX], name[AG_NAME_MAX + 3] = "/", path[AG_PATH_MAX + 2] = "/";
    memset(name + 1, 'a', AG_NAME_MAX + 1);
    for (size_t i = 1; i < AG_PATH_MAX; i++)
        path[i] = i % 2 ? 'a' : '/';
    const char *rows[] = {"", "a", "./a", "/..", "/a/../b", "/a/..", name, path};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ck_err err = CK_ERR_INIT;
        assert_int_equal(ag_path_clean(rows[i], out, &err), -1);
        assert_string_equal(err.reason, "bad_path");
    }
    path[AG_PATH_MAX - 1] = 0; // one shorter is fine
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(ag_path_clean(path, out, &err), 0);
}

static void paths_are_split_at_the_last_slash(void **state)
{
    (void)state;
    char dir[AG_PATH_MAX];
    const char *name;
    assert_int_equal(ag_path_split("/a/b", dir, &name), 0);
    assert_string_equal(dir, "/a");
    assert_string_equal(name, "b");
    assert_int_equal(ag_path_split("/a", dir, &name), 0);
    assert_string_equal(dir, "/");
    assert_int_equal(ag_path_split("/", dir, &name), -1);
    assert_true(ag_path_protected("/home/user"));
    assert_false(ag_path_protected("/home/user/x"));
}

static void types_follow_content_before_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *head;
        size_t n;
        const char *mime;
    } rows[] = {
        {"x.csv", "\x89PNG\r\n\x1a\nxxxx", 12, "image/png"},
        {"x.png", "month,revenue\n", 14, "text/plain"},
        {"x.CSV", "month,revenue\n", 14, "text/csv"},
        {"x.json", "{}", 2, "application/json"},
        {"x.xlsx", "PK\3\4....", 8, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
        {"x", "PK\3\4....", 8, "application/zip"},
        {"x", "%PDF-1.7", 8, "application/pdf"},
        {"x", "PAR1....", 8, "application/vnd.apache.parquet"},
        {"x", "RIFF1234WEBPVP8 ", 16, "image/webp"},
        {"x", "BMI is a number", 15, "text/plain"},
        {"x", "BM\x10\0\0\0", 6, "image/bmp"},
        {"x", " <!DOCTYPE HTML><p>", 19, "text/html"},
        {"x", "<svg xmlns=", 11, "image/svg+xml"},
        {"x", "a\0b", 3, "application/octet-stream"},
        {"x", "\xFF\xFE", 2, "application/octet-stream"},
        {"x", "", 0, "text/plain"},
        {".csv", "a", 1, "text/plain"},
        {"x", "\x89PN", 3, "application/octet-stream"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(ag_mime_guess(rows[i].name, (const uint8_t *)rows[i].head, rows[i].n), rows[i].mime);
}

static void text_cut_in_the_middle_of_a_character_is_text(void **state)
{
    (void)state;
    uint8_t head[AG_MIME_HEAD];
    memset(head, 'a', sizeof head);
    head[AG_MIME_HEAD - 1] = 0xC3;
    assert_string_equal(ag_mime_guess("x.csv", head, sizeof head), "text/csv");
    assert_string_equal(ag_mime_guess("x.csv", head + 1, sizeof head - 1), "application/octet-stream");
}

static struct ag_file file(const char *path, int64_t mtime, int64_t size)
{
    return (struct ag_file){.path = path, .mtime_ns = mtime, .ctime_ns = mtime, .size = size, .inode = 1};
}

static void only_new_and_different_files_are_changes_oldest_first(void **state)
{
    (void)state;
    struct ag_snapshot *before = ag_snapshot_new(), *now = ag_snapshot_new();
    struct ag_change *list;
    size_t n;
    struct ag_file f[] = {file("same", 1, 1), file("touched", 2, 1), file("gone", 3, 1),
                          file("same", 1, 1), file("touched", 9, 1), file("b", 5, 1), file("a", 5, 1)};
    for (int i = 0; i < 7; i++)
        assert_int_equal(ag_snapshot_add(i < 3 ? before : now, &f[i]), 0);
    assert_int_equal(ag_snapshot_diff(before, now, &list, &n), 0);
    assert_int_equal(n, 3);
    assert_string_equal(list[0].file->path, "a");
    assert_string_equal(list[1].file->path, "b");
    assert_true(list[0].created && list[1].created);
    assert_string_equal(list[2].file->path, "touched");
    assert_false(list[2].created);
    free(list);
    assert_int_equal(ag_snapshot_diff(now, now, &list, &n), 0);
    assert_int_equal(n, 0);
    free(list);
    ag_snapshot_free(before);
    ag_snapshot_free(now);
    ag_snapshot_free(NULL);
}

// What was being written when it was told is looked at again, changed or not, until it is whole.
static void a_partial_file_is_told_again(void **state)
{
    (void)state;
    struct ag_snapshot *before = ag_snapshot_new(), *now = ag_snapshot_new();
    struct ag_change *list;
    size_t n;
    struct ag_file f[] = {file("open", 1, 1), file("closed", 2, 1), file("grows", 3, 1), file("grows", 4, 2)};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(i == 3 ? 0 : ag_snapshot_add(before, &f[i]), 0);
        assert_int_equal(i == 2 ? 0 : ag_snapshot_add(now, &f[i]), 0);
    }
    ag_snapshot_mark(before, "open");
    ag_snapshot_mark(before, "grows");
    ag_snapshot_mark(before, "no such file");
    assert_int_equal(ag_snapshot_diff(before, now, &list, &n), 0);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].file->path, "open");
    assert_true(list[0].same && !list[0].created && !list[0].file->partial);
    assert_string_equal(list[1].file->path, "grows");
    assert_true(!list[1].same && !list[1].created);
    free(list);
    ag_snapshot_free(before);
    ag_snapshot_free(now);
}

static void each_of_time_size_and_inode_tells_a_change(void **state)
{
    (void)state;
    struct ag_file base = file("f", 1, 1), other[] = {base, base, base, base};
    other[0].mtime_ns++, other[1].ctime_ns++, other[2].size++, other[3].inode++;
    for (int i = 0; i < 4; i++) {
        struct ag_snapshot *a = ag_snapshot_new(), *b = ag_snapshot_new();
        struct ag_change *list;
        size_t n;
        ag_snapshot_add(a, &base);
        ag_snapshot_add(b, &other[i]);
        assert_int_equal(ag_snapshot_diff(a, b, &list, &n), 0);
        assert_int_equal(n, 1);
        free(list);
        ag_snapshot_free(a);
        ag_snapshot_free(b);
    }
}

static void a_snapshot_is_bounded_and_finds_every_file(void **state)
{
    (void)state;
    struct ag_snapshot *s = ag_snapshot_new();
    char name[32];
    for (int i = 0; i < AG_SNAPSHOT_MAX; i++) {
        snprintf(name, sizeof name, "dir/f%d", i);
        struct ag_file f = file(name, i, 1);
        assert_int_equal(ag_snapshot_add(s, &f), 0);
    }
    struct ag_file more = file("one more", 1, 1);
    assert_int_equal(ag_snapshot_add(s, &more), 1);
    assert_int_equal(ag_snapshot_count(s), AG_SNAPSHOT_MAX);
    assert_int_equal(ag_snapshot_find(s, "dir/f49999")->mtime_ns, 49999);
    assert_null(ag_snapshot_find(s, "one more"));
    ag_snapshot_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_made_comparable),
        cmocka_unit_test(bad_paths_are_refused),
        cmocka_unit_test(paths_are_split_at_the_last_slash),
        cmocka_unit_test(types_follow_content_before_name),
        cmocka_unit_test(text_cut_in_the_middle_of_a_character_is_text),
        cmocka_unit_test(only_new_and_different_files_are_changes_oldest_first),
        cmocka_unit_test(a_partial_file_is_told_again),
        cmocka_unit_test(each_of_time_size_and_inode_tells_a_change),
        cmocka_unit_test(a_snapshot_is_bounded_and_finds_every_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
