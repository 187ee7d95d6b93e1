// Reading templates and images: what is whole is accepted, everything else refused with what to do.
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "vmm/disk.h"
#include "vmm/image.h"
#include "vmm/template.h"
#include "vmm/template_int.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define IMAGE "00112233445566778899aabbccddeeff"
#define OLDER "0123456789abcdef0123456789abcdef"
#define IMAGE_JSON "{\"magic\":\"cellkeep-image\",\"version\":2,\"sizes\":{\"root.erofs\":1,\"vmlinuz\":1,\"initrd\":1}}"
#define OWN_JSON "{\"own\":true,\"magic\":\"cellkeep-image\",\"version\":2,\"sizes\":{\"root.erofs\":1,\"vmlinuz\":1,\"initrd\":1}}"
#define HASH "ffeeddccbbaa99887766554433221100"

static char cache[64];

static const char *at(const char *name)
{
    static char path[4][PATH_MAX];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], PATH_MAX, "%s/%s", cache, name);
    return path[i];
}

static void put(const char *name, const char *text) { assert_int_equal(ck_write_file_atomic(at(name), text, strlen(text), 0644, NULL), 0); }

static struct ck_template whole(void)
{
    struct ck_template t = {.hash = HASH, .image = IMAGE, .qemu = "7.2.22 (Debian)", .qemu_path = "/usr/bin/qemu-system-x86_64",
                            .cpu = "max", .accel = CK_ACCEL_TCG, .memory_mb = 512, .state_bytes = 5,
                            .disk_file_bytes = 7, .blank_file_bytes = 7, .tsc_khz = 2600000, .created_us = 1};
    snprintf(t.dir, sizeof t.dir, "%s", at("templates/" HASH));
    return t;
}

static int setup(void **state)
{
    (void)state;
    snprintf(cache, sizeof cache, "/tmp/test-vmm-template-XXXXXX");
    assert_non_null(mkdtemp(cache));
    assert_int_equal(ck_mkdirs(at("images/" IMAGE), 0755, NULL), 0);
    assert_int_equal(ck_mkdirs(at("templates/" HASH), 0755, NULL), 0);
    put("images/" IMAGE "/root.erofs", "x");
    put("images/" IMAGE "/vmlinuz", "x");
    put("images/" IMAGE "/initrd", "x");
    put("images/" IMAGE "/image.json", IMAGE_JSON);
    put("templates/" HASH "/ram", "x");
    assert_int_equal(truncate(at("templates/" HASH "/ram"), 512 << 20), 0);
    put("templates/" HASH "/state", "state");
    put("templates/" HASH "/disk.qcow2", "QFI\xfb...");
    put("templates/" HASH "/blank.qcow2", "QFI\xfb...");
    struct ck_template t = whole();
    return ck_template_write_json(&t, t.dir, NULL);
}

static int teardown(void **state)
{
    (void)state;
    return ck_remove_tree(cache, NULL);
}

static void a_whole_template_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct ck_template t, w = whole();
    assert_int_equal(ck_template_load(w.dir, NULL, &t, NULL), 0);
    assert_string_equal(t.hash, HASH);
    assert_string_equal(t.image, IMAGE);
    assert_string_equal(t.image_dir, at("images/" IMAGE));
    assert_string_equal(t.qemu, w.qemu);
    assert_string_equal(t.cpu, "max");
    assert_int_equal(t.memory_mb, 512);
    assert_int_equal(t.tsc_khz, 2600000);
    assert_int_equal(t.accel, CK_ACCEL_TCG);
}

static void refused(const char *part)
{
    struct ck_template t, w = whole();
    struct ck_err e = CK_ERR_INIT;
    assert_true(ck_template_load(w.dir, NULL, &t, &e) < 0);
    assert_string_equal(e.reason, "bad_template");
    assert_non_null(strstr(e.text, part));
    assert_non_null(strstr(e.text, "cellkeep template build"));
}

static void json_with(const char *key, json_t *value)
{
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(ck_read_file(at("templates/" HASH "/template.json"), 65536, &b, NULL), 0);
    json_t *j = json_loadb((char *)b.p, b.n, 0, NULL);
    json_object_set_new(j, key, value);
    char *text = json_dumps(j, 0);
    put("templates/" HASH "/template.json", text);
    free(text);
    json_decref(j);
    ck_buf_free(&b);
}

static void a_wrong_magic_is_refused(void **state)
{
    (void)state;
    json_with("magic", json_string("something"));
    refused("magic");
}

static void another_version_or_layout_is_refused(void **state)
{
    (void)state;
    json_with("version", json_integer(99));
    refused("version 99");
    json_with("version", json_integer(CK_TEMPLATE_VERSION));
    json_with("layout", json_integer(77));
    refused("77");
}

static void a_truncated_memory_or_state_is_refused(void **state)
{
    (void)state;
    assert_int_equal(truncate(at("templates/" HASH "/ram"), 255 << 20), 0);
    refused("ram has");
    assert_int_equal(truncate(at("templates/" HASH "/ram"), 512 << 20), 0);
    put("templates/" HASH "/state", "stat");
    refused("state has 4 bytes instead of 5");
}

static void a_disk_of_another_size_is_refused(void **state)
{
    (void)state;
    put("templates/" HASH "/disk.qcow2", "QFI\xfb");
    refused("disk.qcow2 has 4 bytes instead of 7");
    put("templates/" HASH "/disk.qcow2", "QFI\xfb...");
    put("templates/" HASH "/blank.qcow2", "QFI\xfb....");
    refused("blank.qcow2 has 8 bytes instead of 7");
}

static void image_file_changed(const char *name)
{
    struct ck_image im;
    struct ck_err e = CK_ERR_INIT;
    put(name, "xx");
    assert_true(ck_image_find(cache, &im, &e) < 0);
    assert_string_equal(e.reason, "bad_image");
    assert_non_null(strstr(e.text, "has 2 bytes instead of 1"));
    assert_non_null(strstr(e.text, "cellkeep image build"));
    put(name, "x");
}

static void an_image_with_a_file_of_another_size_is_refused(void **state)
{
    (void)state;
    struct ck_image im;
    struct ck_err e = CK_ERR_INIT;
    image_file_changed("images/" IMAGE "/root.erofs");
    image_file_changed("images/" IMAGE "/vmlinuz");
    image_file_changed("images/" IMAGE "/initrd");
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    put("images/" IMAGE "/image.json", "{\"magic\":\"cellkeep-image\",\"version\":2}");
    assert_true(ck_image_find(cache, &im, &e) < 0);
    assert_string_equal(e.reason, "image_version");
    assert_non_null(strstr(e.text, "without sizes"));
}

static void missing_and_foreign_files_are_refused(void **state)
{
    (void)state;
    put("templates/" HASH "/blank.qcow2", "no disk");
    refused("blank.qcow2 is not a qcow2");
    unlink(at("templates/" HASH "/blank.qcow2"));
    refused("no blank.qcow2");
    unlink(at("templates/" HASH "/template.json"));
    refused("template.json");
}

static void a_template_that_was_moved_is_refused(void **state)
{
    (void)state;
    json_with("dir", json_string("/somewhere/else"));
    refused("another place");
}

static void hostile_fields_are_refused(void **state)
{
    (void)state;
    json_with("image", json_string("../../etc"));
    refused("out of range");
    json_with("image", json_string(IMAGE));
    json_with("memory_mb", json_integer(-1));
    refused("out of range");
    json_with("memory_mb", json_string("256"));
    refused("out of range");
    put("templates/" HASH "/template.json", "[1,2");
    refused("cannot be used");
}

static void a_missing_image_is_said(void **state)
{
    (void)state;
    assert_int_equal(ck_remove_tree(at("images/" IMAGE), NULL), 0);
    refused("guest image");
}

static void the_hash_depends_on_everything_that_matters(void **state)
{
    (void)state;
    struct ck_template t = whole(), u;
    char base[CK_HASH_MAX], h[CK_HASH_MAX];
    assert_int_equal(ck_template_hash(&t, 1 << 30, "", base, NULL), 0);
    assert_int_equal(strlen(base), 32);
    u = t;
    assert_int_equal(ck_template_hash(&u, 2ull << 30, "", h, NULL), 0);
    assert_string_not_equal(base, h);
    u = t;
    u.memory_mb = 1024;
    ck_template_hash(&u, 1 << 30, "", h, NULL);
    assert_string_not_equal(base, h);
    u = t;
    u.accel = CK_ACCEL_KVM;
    ck_template_hash(&u, 1 << 30, "", h, NULL);
    assert_string_not_equal(base, h);
    u = t;
    snprintf(u.qemu, sizeof u.qemu, "7.2.23");
    ck_template_hash(&u, 1 << 30, "", h, NULL);
    assert_string_not_equal(base, h);
    u = t;
    ck_template_hash(&u, 1 << 30, "0123456789abcdef", h, NULL);
    assert_string_not_equal(base, h);
    u = t;
    u.created_us = 99;
    u.state_bytes = 99;
    ck_template_hash(&u, 1 << 30, "", h, NULL);
    assert_string_equal(base, h);
}

static void a_sessions_disk_is_a_copy_of_the_blank_layer(void **state)
{
    (void)state;
    struct ck_template t = whole();
    struct ck_buf b = CK_BUF_INIT;
    struct stat st;
    assert_int_equal(ck_template_make_disk(&t, at("disk.qcow2"), NULL), 0);
    assert_int_equal(ck_read_file(at("disk.qcow2"), 100, &b, NULL), 0);
    assert_true(ck_slice_is(ck_buf_slice(&b), "QFI\xfb..."));
    assert_int_equal(stat(at("disk.qcow2"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(ck_template_make_disk(&t, at("no/such/dir/disk.qcow2"), NULL) < 0);
    ck_buf_free(&b);
}

static void pages_of_zeroes_become_holes_and_the_rest_stays(void **state)
{
    (void)state;
    int fd = open(at("f"), O_RDWR | O_CREAT, 0600);
    size_t n = 3u << 20;
    unsigned char *p = calloc(1, n), *q = malloc(n + 100);
    p[0] = 1;
    p[(1 << 20) + 5000] = 2;
    p[n - 1] = 3;
    assert_int_equal(write(fd, p, n), (ssize_t)n);
    uint64_t kept = 0;
    assert_int_equal(ck_disk_punch_zeroes(at("f"), &kept, NULL), 0);
    assert_int_equal(kept, 3 * 4096);
    assert_int_equal(pread(fd, q, n + 100, 0), (ssize_t)n);
    assert_memory_equal(p, q, n);
    struct stat st;
    fstat(fd, &st);
    assert_true(st.st_blocks * 512 < (1 << 20));
    free(p);
    free(q);
    close(fd);
}

static void the_newest_whole_image_is_found_and_half_made_ones_are_not(void **state)
{
    (void)state;
    struct ck_image im;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, IMAGE);
    assert_int_equal(ck_mkdirs(at("images/aaaaaaaaaaaaaaaa"), 0755, NULL), 0); // no image.json: not finished
    assert_int_equal(ck_mkdirs(at("images/tmp.Xyz"), 0755, NULL), 0);
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, IMAGE);
    put("images/" IMAGE "/image.json", "{\"magic\":\"cellkeep-image\",\"version\":1}");
    assert_true(ck_image_find(cache, &im, &e) < 0);
    assert_string_equal(e.reason, "image_version");
    assert_non_null(strstr(e.text, "cellkeep image build"));
    assert_true(ck_image_find("/nonexistent", &im, &e) < 0);
    assert_string_equal(e.reason, "no_image");
}

static void touched(const char *name, time_t when)
{
    struct timespec both[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_int_equal(utimensat(AT_FDCWD, at(name), both, 0), 0);
}

static void no_older_image_takes_the_place_of_a_damaged_one(void **state)
{
    (void)state;
    static const char *const files[] = {"root.erofs", "vmlinuz", "initrd"};
    struct ck_image im;
    struct ck_err e = CK_ERR_INIT;
    char name[80];
    assert_int_equal(ck_mkdirs(at("images/" OLDER), 0755, NULL), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "images/" OLDER "/%s", files[i]);
        put(name, "x");
    }
    put("images/" OLDER "/image.json", IMAGE_JSON);
    touched("images/" OLDER "/image.json", 1000);
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, IMAGE);
    put("images/" IMAGE "/root.erofs", "");
    assert_true(ck_image_find(cache, &im, &e) < 0);
    assert_string_equal(e.reason, "bad_image");
    assert_non_null(strstr(e.text, IMAGE));
    touched("images/" OLDER "/image.json", 4000000000); // as `image build` does, when asked for that one
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, OLDER);
    put("images/" IMAGE "/root.erofs", "x");
    put("images/" OLDER "/image.json", OWN_JSON); // of a user's own, and the newest
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, IMAGE);
    put("images/" OLDER "/vmlinuz", ""); // ... and damaged
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, IMAGE);
    put("images/" OLDER "/image.json", "{\"magic\":\"cellkeep-image\",\"version\":1}"); // of another cellkeep, and the newest
    touched("images/" OLDER "/image.json", 4000000000);
    assert_int_equal(ck_image_find(cache, &im, NULL), 0);
    assert_string_equal(im.hash, IMAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_whole_template_is_read_as_it_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_magic_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(another_version_or_layout_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_truncated_memory_or_state_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_of_another_size_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_with_a_file_of_another_size_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(no_older_image_takes_the_place_of_a_damaged_one, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_and_foreign_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_template_that_was_moved_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_fields_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_image_is_said, setup, teardown),
        cmocka_unit_test(the_hash_depends_on_everything_that_matters),
        cmocka_unit_test_setup_teardown(a_sessions_disk_is_a_copy_of_the_blank_layer, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_of_zeroes_become_holes_and_the_rest_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(the_newest_whole_image_is_found_and_half_made_ones_are_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
