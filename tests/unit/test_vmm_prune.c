// What the cache gives up: never what a session, a process or something newer needs.
#include "common/ck_fs.h"
#include "vmm/cache.h"
#include "vmm/named.h"

#include <endian.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD (8 * 24 * 3600)
#define T1 "11111111111111111111111111111111"
#define T2 "22222222222222222222222222222222"
#define I1 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define I2 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define R1 "cccccccccccccccccccccccccccccccc"

static char base[64];

static const char *at(const char *name)
{
    static char path[4][PATH_MAX];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], PATH_MAX, "%s/%s", base, name);
    return path[i];
}

static void put(const char *name, const void *p, size_t n)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", at(name));
    *strrchr(dir, '/') = 0;
    assert_int_equal(ck_mkdirs(dir, 0755, NULL), 0);
    assert_int_equal(ck_write_file_atomic(at(name), p, n, 0644, NULL), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

// `age` seconds since its last use.
static void make(const char *kind, const char *hash, const char *json, const char *text, int age)
{
    char name[200];
    snprintf(name, sizeof name, "cache/%s/%s/some", kind, hash);
    put_text(name, "xxxx");
    snprintf(name, sizeof name, "cache/%s/%s/%s", kind, hash, json);
    put_text(name, text);
    struct timespec t[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    assert_int_equal(utimensat(AT_FDCWD, at(name), t, 0), 0);
}

static void make_template(const char *hash, const char *image, int age)
{
    char text[100];
    snprintf(text, sizeof text, "{\"image\":\"%s\"}", image);
    make("templates", hash, "template.json", text, age);
}

static void make_image(const char *hash, const char *rootfs, int age)
{
    char text[100];
    snprintf(text, sizeof text, "{\"rootfs\":\"%s\"}", rootfs);
    make("images", hash, "image.json", text, age);
}

// A qcow2 layer over a template's disk.
static void put_disk(const char *name, const char *hash)
{
    uint8_t file[512] = "QFI\xfb";
    int n = snprintf((char *)file + 128, 300, "/some/cache/templates/%s/disk.qcow2", hash);
    file[7] = 3;
    file[15] = 128; // backing file: offset and length, big endian
    file[19] = (uint8_t)n;
    put(name, file, sizeof file);
}

static bool exists(const char *name) { return !access(at(name), F_OK); }

static struct ck_pruned prune(void)
{
    struct ck_pruned gone;
    ck_cache_prune(at("cache"), time(NULL), &gone);
    return gone;
}

static int setup(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/test-vmm-prune-XXXXXX");
    assert_non_null(mkdtemp(base));
    return ck_mkdirs(at("state/sessions/s1/layers/l1"), 0755, NULL) || ck_mkdirs(at("cache"), 0755, NULL);
}

static int teardown(void **state)
{
    (void)state;
    return ck_remove_tree(base, NULL);
}

static void an_empty_cache_stays_as_it_is(void **state)
{
    (void)state;
    struct ck_pruned gone = prune();
    assert_int_equal(gone.templates + gone.images + gone.rootfs, 0);
}

static void what_is_old_and_unused_goes_and_is_counted(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_image(I1, R1, OLD);
    make("rootfs", R1, "rootfs.json", "{}", OLD);
    struct ck_pruned gone = prune();
    assert_int_equal(gone.templates, 1);
    assert_int_equal(gone.images, 1);
    assert_int_equal(gone.rootfs, 1);
    assert_true(gone.bytes > 0);
    assert_false(exists("cache/templates/" T1) || exists("cache/images/" I1) || exists("cache/rootfs/" R1));
    assert_int_equal(prune().templates, 0);
}

static void what_was_used_lately_stays_with_all_that_it_was_made_from(void **state)
{
    (void)state;
    make_template(T1, I1, 60);
    make_template(T2, I2, OLD);
    make_image(I1, R1, OLD);
    make_image(I2, R1, OLD);
    make("rootfs", R1, "rootfs.json", "{}", OLD);
    struct ck_pruned gone = prune();
    assert_int_equal(gone.templates, 1);
    assert_int_equal(gone.images, 1);
    assert_int_equal(gone.rootfs, 0);
    assert_true(exists("cache/templates/" T1 "/some") && exists("cache/images/" I1) && exists("cache/rootfs/" R1));
    assert_false(exists("cache/templates/" T2) || exists("cache/images/" I2));
}

static void a_touch_is_a_use(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    ck_cache_touch(at("cache/templates/" T1), "template.json");
    assert_int_equal(prune().templates, 0);
}

static void the_disk_of_a_session_keeps_its_template(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_template(T2, I1, OLD);
    put_disk("state/sessions/s1/disk.qcow2", T1);
    assert_int_equal(mkfifo(at("state/sessions/s1/pipe.qcow2"), 0600), 0); // a session may make anything of its folder
    assert_int_equal(symlink("/dev/zero", at("state/sessions/s1/zero.qcow2")), 0);
    put_text("state/sessions/s1/short.qcow2", "QFI\xfb");
    assert_int_equal(ck_cache_register(at("cache"), at("state"), NULL), 0);
    assert_int_equal(ck_cache_register(at("cache"), at("state"), NULL), 0);
    assert_int_equal(prune().templates, 1);
    assert_true(exists("cache/templates/" T1));
    assert_int_equal(unlink(at("state/sessions/s1/disk.qcow2")), 0);
    assert_int_equal(prune().templates, 1);
}

static void so_does_the_layer_of_a_paused_session(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_image(I1, R1, OLD);
    put_disk("state/sessions/s1/layers/l1/disk.qcow2", T1);
    assert_int_equal(ck_cache_register(at("cache"), at("state"), NULL), 0);
    struct ck_pruned gone = prune();
    assert_int_equal(gone.templates + gone.images, 0);
}

static void what_a_process_has_open_stays(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_template(T2, I1, OLD);
    int file = open(at("cache/templates/" T1 "/some"), O_RDONLY);
    int dir = open(at("cache/templates/" T2), O_PATH | O_DIRECTORY);
    assert_true(file >= 0 && dir >= 0);
    assert_int_equal(prune().templates, 0);
    close(file);
    close(dir);
    assert_int_equal(prune().templates, 2);
}

static void a_gateway_whose_folder_is_gone_keeps_nothing(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    put_disk("state/sessions/s1/disk.qcow2", T1);
    assert_int_equal(ck_cache_register(at("cache"), at("state"), NULL), 0);
    assert_int_equal(ck_remove_tree(at("state"), NULL), 0);
    assert_int_equal(prune().templates, 1);
    assert_int_equal(rmdir(at("cache/users")), 0); // no mark is left in it
}

static void what_cannot_be_known_keeps_everything(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_image(I2, R1, OLD);
    assert_int_equal(ck_cache_register(at("cache"), at("state"), NULL), 0);
    assert_int_equal(ck_remove_tree(at("state/sessions"), NULL), 0);
    put_text("state/sessions", "no folder");
    struct ck_pruned gone = prune();
    assert_int_equal(gone.templates + gone.images, 0);
    assert_int_equal(ck_cache_register(at("cache"), at("nowhere"), NULL), -1);
}

static void nothing_goes_while_somebody_looks_or_builds(void **state)
{
    (void)state;
    int fd = -1;
    make_template(T1, I1, OLD);
    assert_int_equal(ck_cache_lock(at("cache"), false, &fd), 0);
    assert_int_equal(prune().templates, 0);
    close(fd);
    fd = open(at("cache/.lock"), O_RDWR | O_CREAT, 0644);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(prune().templates, 0);
    close(fd);
    assert_int_equal(prune().templates, 1);
}

static void left_overs_of_killed_builders_go_after_a_day(void **state)
{
    (void)state;
    make_template(".tmp-" T1 ".77", I1, OLD);
    make_template(".tmp-" T2 ".78", I1, OLD);
    struct timespec t[2] = {{.tv_sec = time(NULL) - OLD}, {.tv_sec = time(NULL) - OLD}};
    assert_int_equal(utimensat(AT_FDCWD, at("cache/templates/.tmp-" T1 ".77"), t, 0), 0);
    prune();
    assert_false(exists("cache/templates/.tmp-" T1 ".77"));
    assert_true(exists("cache/templates/.tmp-" T2 ".78"));
}

static void a_layer_keeps_its_template_whatever_its_disk_lies_on(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_template(T2, I1, OLD);
    make_image(I1, R1, OLD);
    put_text("state/sessions/s1/layers/l1/layer.json", "{\"template\":\"" T1 "\"}");
    put_text("state/sessions/s1/layers/l2/layer.json", "damaged");
    assert_int_equal(ck_cache_register(at("cache"), at("state"), NULL), 0);
    assert_int_equal(prune().templates, 1);
    assert_true(exists("cache/templates/" T1) && exists("cache/images/" I1));
}

static void give_name(const char *name, const char *hash)
{
    struct ck_template t = {.memory_mb = 512, .accel = CK_ACCEL_TCG};
    snprintf(t.hash, sizeof t.hash, "%s", hash);
    assert_int_equal(ck_named_put(at("cache"), name, &t, NULL), 0);
}

static void a_name_keeps_its_template_until_it_is_removed(void **state)
{
    (void)state;
    make_template(T1, I1, OLD);
    make_template(T2, I2, OLD);
    make_image(I1, R1, OLD);
    give_name("mine", T1);
    give_name("default", T2); // in a size that nobody used
    struct ck_pruned gone = prune();
    assert_int_equal(gone.templates, 1);
    assert_int_equal(gone.images, 0);
    assert_true(exists("cache/templates/" T1));
    assert_int_equal(ck_named_remove(at("cache"), "mine", NULL), 0);
    gone = prune();
    assert_int_equal(gone.templates + gone.images, 2);
}

static void names_are_what_their_files_say(void **state)
{
    (void)state;
    struct ck_named e, all[CK_NAMED_LIST_MAX];
    static const char *const no[] = {"", ".", "x.json", "x.512.json", "x.512.tcg", "x.0.tcg.json", "x.-1.tcg.json", "X.512.tcg.json",
                                     "-x.512.tcg.json", "x.512.xen.json", "x.512.tcg.json.tmp", ".building-x.512", "x.99999.tcg.json"};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(ck_named_parse_file(no[i], &e));
    assert_true(ck_named_parse_file("a_b-9.1024.kvm.json", &e));
    assert_string_equal(e.name, "a_b-9");
    assert_string_equal(e.accel, "kvm");
    assert_int_equal(e.memory_mb, 1024);
    assert_int_equal(ck_named_list(at("cache"), all, NULL), 0);
    give_name("mine", T1);
    assert_int_equal(ck_named_list(at("cache"), all, NULL), 1);
    assert_false(all[0].built);
    make_template(T1, I1, OLD);
    assert_int_equal(ck_named_list(at("cache"), all, NULL), 1);
    assert_true(all[0].built);
    assert_int_equal(ck_named_remove(at("cache"), "min", NULL), -1);
    assert_int_equal(ck_named_remove(at("cache"), "../cache", NULL), -1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_empty_cache_stays_as_it_is),
        T(what_is_old_and_unused_goes_and_is_counted),
        T(what_was_used_lately_stays_with_all_that_it_was_made_from),
        T(a_touch_is_a_use),
        T(the_disk_of_a_session_keeps_its_template),
        T(so_does_the_layer_of_a_paused_session),
        T(what_a_process_has_open_stays),
        T(a_gateway_whose_folder_is_gone_keeps_nothing),
        T(what_cannot_be_known_keeps_everything),
        T(nothing_goes_while_somebody_looks_or_builds),
        T(left_overs_of_killed_builders_go_after_a_day),
        T(a_layer_keeps_its_template_whatever_its_disk_lies_on),
        T(a_name_keeps_its_template_until_it_is_removed),
        T(names_are_what_their_files_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
