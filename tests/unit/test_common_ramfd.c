// The template's memory as a sealed memfd: same bytes, holes kept, and nobody can write it.
#include "common/ck_fs.h"
#include "common/ck_ramfd.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE (8u << 20)

static char dir[64], path[80];

static int make_file(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ck-test-ram-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/ram", dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    static const char page[4096] = "page";
    bool bad = ftruncate(fd, SIZE) || pwrite(fd, page, 4096, 0) < 0 || pwrite(fd, page, 4096, 3 << 20) < 0 ||
               pwrite(fd, "end", 3, SIZE - 3) < 0;
    return close(fd) || bad ? -1 : 0;
}

static int drop_file(void **state)
{
    (void)state;
    return ck_remove_tree(dir, NULL);
}

static void the_copy_has_the_same_bytes_and_stays_sparse(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    int fd;
    assert_int_equal(ck_ramfd_load(path, SIZE, &fd, &e), 0);
    struct ck_buf want = CK_BUF_INIT;
    assert_int_equal(ck_read_file(path, SIZE, &want, &e), 0);
    void *p = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_true(st.st_blocks * 512 <= 5 * 4096);
    assert_memory_equal(p, want.p, SIZE);
    munmap(p, SIZE);
    ck_buf_free(&want);
    close(fd);
}

static void nothing_can_write_it_but_private_pages_can_change(void **state)
{
    (void)state;
    int fd;
    assert_int_equal(ck_ramfd_load(path, 0, &fd, NULL), 0);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    p[0] = 'X';
    char c;
    assert_int_equal(pread(fd, &c, 1, 0), 1);
    assert_int_equal(c, 'p');
    munmap(p, SIZE);
    assert_int_equal(ck_ramfd_check(fd, SIZE, NULL), 0);
    close(fd);
}

static void a_file_of_the_wrong_size_is_refused(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    int fd = 7;
    assert_int_equal(ck_ramfd_load(path, SIZE + 1, &fd, &e), -1);
    assert_int_equal(fd, -1);
    assert_string_equal(e.reason, "bad_template");
    assert_non_null(strstr(e.text, "cellkeep template build"));
    assert_int_equal(ck_ramfd_load("/nonexistent/ram", 0, &fd, &e), -1);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(ck_ramfd_load(path, 0, &fd, &e), -1);
    assert_int_equal(ck_ramfd_load(dir, 0, &fd, &e), -1);
}

static void check_refuses_what_is_not_sealed(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    int plain = open(path, O_RDONLY | O_CLOEXEC), soft = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(soft, 4096), 0);
    assert_int_equal(ck_ramfd_check(plain, 0, &e), -1);
    assert_int_equal(ck_ramfd_check(soft, 4096, &e), -1);
    assert_int_equal(fcntl(soft, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(ck_ramfd_check(soft, 4096, &e), -1); // more seals could still be added, so not final
    assert_int_equal(fcntl(soft, F_ADD_SEALS, F_SEAL_SEAL), 0);
    assert_int_equal(ck_ramfd_check(soft, 4096, &e), 0);
    assert_int_equal(ck_ramfd_check(soft, 8192, &e), -1);
    assert_int_equal(ck_ramfd_check(-1, 0, &e), -1);
    close(plain);
    close(soft);
}

#define RAM_TEST(f) cmocka_unit_test_setup_teardown(f, make_file, drop_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RAM_TEST(the_copy_has_the_same_bytes_and_stays_sparse),
        RAM_TEST(nothing_can_write_it_but_private_pages_can_change),
        RAM_TEST(a_file_of_the_wrong_size_is_refused),
        RAM_TEST(check_refuses_what_is_not_sealed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
