// File helpers on a scratch folder: all or nothing, caps, links that must not be followed.
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static const char *at(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/ck-test-fs-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
    (void)state;
    return ck_remove_tree(root, NULL);
}

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void atomic_write_replaces_the_whole_file_with_its_mode(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_write_file_atomic(at("f"), "one two three", 13, 0600, &e), 0);
    assert_int_equal(ck_write_file_atomic(at("f"), "four", 4, 0640, &e), 0);
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(ck_read_file(at("f"), 100, &b, &e), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "four"));
    assert_int_equal(b.p[b.n], 0);
    struct stat st;
    assert_int_equal(stat(at("f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(entries(root), 1); // no temporary file is left
    ck_buf_free(&b);
}

static void a_failed_atomic_write_leaves_nothing(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(mkdir(at("dir"), 0700), 0);
    assert_int_equal(ck_write_file_atomic(at("dir/x"), "y", 1, 0600, &e), 0);
    assert_int_equal(ck_write_file_atomic(at("dir"), "x", 1, 0600, &e), -1); // a folder is in the way
    assert_int_equal(entries(root), 1);
    assert_int_equal(ck_write_file_atomic(at("none/f"), "x", 1, 0600, &e), -1);
    assert_non_null(strstr(e.text, "No such file"));
}

static void a_link_planted_at_the_temporary_name_is_not_followed(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    char tmp[300];
    assert_int_equal(ck_write_file_atomic(at("victim"), "safe", 4, 0600, &e), 0);
    snprintf(tmp, sizeof tmp, "%s.tmp.%d", at("target"), (int)getpid());
    assert_int_equal(symlink(at("victim"), tmp), 0);
    assert_int_equal(ck_write_file_atomic(at("target"), "evil", 4, 0600, &e), -1);
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(ck_read_file(at("victim"), 100, &b, &e), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "safe"));
    ck_buf_free(&b);
}

static void reading_holds_to_its_limit_and_keeps_the_buffer(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    char *big = malloc(200000);
    memset(big, 'x', 200000);
    assert_int_equal(ck_write_file_atomic(at("big"), big, 200000, 0600, &e), 0);
    struct ck_buf b = CK_BUF_INIT;
    ck_buf_add_str(&b, "head ");
    assert_int_equal(ck_read_file(at("big"), 199999, &b, &e), -1);
    assert_string_equal(e.reason, "file_too_large");
    assert_true(ck_slice_is(ck_buf_slice(&b), "head "));
    assert_int_equal(ck_read_file(at("big"), 200000, &b, &e), 0);
    assert_int_equal(b.n, 200005);
    assert_memory_equal(b.p, "head xxx", 8);
    assert_int_equal(ck_read_file(at("none"), 10, &b, &e), -1);
    assert_string_equal(e.reason, "cannot_read");
    assert_int_equal(ck_read_file(root, 10, &b, &e), -1); // a folder
    assert_int_equal(b.n, 200005);
    ck_buf_free(&b);
    assert_int_equal(ck_write_file_atomic(at("empty"), "", 0, 0600, &e), 0);
    assert_int_equal(ck_read_file(at("empty"), 0, &b, &e), 0);
    assert_int_equal(b.n, 0);
    assert_int_equal(b.p[0], 0);
    ck_buf_free(&b);
    free(big);
}

static void mkdirs_makes_what_is_missing(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_mkdirs(at("a/b/c"), 0700, &e), 0);
    assert_int_equal(ck_mkdirs(at("a/b/c"), 0700, &e), 0);
    assert_int_equal(ck_mkdirs(at("a//b/d/"), 0700, &e), 0);
    struct stat st;
    assert_int_equal(stat(at("a/b/d"), &st), 0);
    assert_int_equal(ck_write_file_atomic(at("a/file"), "", 0, 0600, &e), 0);
    assert_int_equal(ck_mkdirs(at("a/file"), 0700, &e), -1);
    assert_int_equal(ck_mkdirs(at("a/file/x"), 0700, &e), -1);
    assert_int_equal(ck_mkdirs("", 0700, &e), -1);
}

static void remove_tree_takes_all_but_what_links_point_to(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_mkdirs(at("keep"), 0700, &e), 0);
    assert_int_equal(ck_write_file_atomic(at("keep/f"), "x", 1, 0600, &e), 0);
    assert_int_equal(ck_mkdirs(at("gone/deep/er"), 0700, &e), 0);
    assert_int_equal(ck_write_file_atomic(at("gone/deep/f"), "x", 1, 0400, &e), 0);
    assert_int_equal(symlink(at("keep"), at("gone/link")), 0);
    assert_int_equal(symlink("/nonexistent", at("gone/dangling")), 0);
    assert_int_equal(mkfifo(at("gone/fifo"), 0600), 0);
    assert_int_equal(ck_remove_tree(at("gone"), &e), 0);
    struct stat st;
    assert_int_equal(lstat(at("gone"), &st), -1);
    assert_int_equal(stat(at("keep/f"), &st), 0);
    assert_int_equal(ck_remove_tree(at("gone"), &e), 0);      // absent is fine
    assert_int_equal(ck_remove_tree(at("no/such"), &e), 0);
    assert_int_equal(symlink(at("keep"), at("alias")), 0);    // a link itself goes, its target stays
    assert_int_equal(ck_remove_tree(at("alias"), &e), 0);
    assert_int_equal(stat(at("keep/f"), &st), 0);
}

static void paths_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    char p[8];
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_path(p, sizeof p, &e, "%s", "1234567"), 0);
    assert_string_equal(p, "1234567");
    assert_int_equal(ck_path(p, sizeof p, &e, "%s", "12345678"), -1);
    assert_string_equal(e.reason, "path_too_long");
}

static void write_all_reports_a_closed_pipe(void **state)
{
    (void)state;
    int fd = open(at("out"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(ck_write_all(fd, "abc", 3), 0);
    close(fd);
    assert_int_equal(ck_write_all(fd, "abc", 3), -1);
    assert_int_equal(errno, EBADF);
    int full = open("/dev/full", O_WRONLY);
    assert_int_equal(ck_write_all(full, "abc", 3), -1);
    assert_int_equal(errno, ENOSPC);
    close(full);
}

#define FS_TEST(f) cmocka_unit_test_setup_teardown(f, make_root, drop_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FS_TEST(atomic_write_replaces_the_whole_file_with_its_mode),
        FS_TEST(a_failed_atomic_write_leaves_nothing),
        FS_TEST(a_link_planted_at_the_temporary_name_is_not_followed),
        FS_TEST(reading_holds_to_its_limit_and_keeps_the_buffer),
        FS_TEST(mkdirs_makes_what_is_missing),
        FS_TEST(remove_tree_takes_all_but_what_links_point_to),
        FS_TEST(paths_that_do_not_fit_are_refused),
        FS_TEST(write_all_reports_a_closed_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
